"""Graph classifiers as scikit-learn estimators."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sagpool.classifier.candidates import MAX_EPOCHS
from sagpool.classifier.model import describe_unseen, trained_model
from sagpool.errors import SagpoolError
from sagpool.fleet import Training, train
from sagpool.graphs import NO_TEST, Graphs, from_networkx, from_pyg
from sagpool.graphs.columns import Encoding
from sagpool.graphs.concat import concat
from sagpool.graphs.features import Features
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Value
from sagpool.ops.device import find_device

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

    ManyGraphs = Graphs | Iterable[Graphs] | Iterable[Data] | Iterable[networkx.Graph]

log = logging.getLogger("sagpool")


class GraphPoolingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One pooling method as a scikit-learn classifier.

    Graphs take the place of the rows of a matrix: ``X`` is a `Graphs`, or a list or object array
    of PyG ``Data`` (``x`` and ``edge_index`` are used) or of networkx graphs (the node attributes
    ``label`` and ``x`` are used).

    Args:
        method: a registered name
        lr: Adam's learning rate
        weight_decay: L2 penalty
        hidden: size of the node representations
        ratio: of each pooling, in the hierarchical architecture
        dropout: rate in the MLP
        batch_size: graphs in a mini-batch
        patience: stop after this many epochs without a lower validation loss
        max_epochs: stop after this many epochs in any case
        validation: fraction of the graphs held out for early stopping and for choosing the best
            weights; 0 trains on all graphs for ``max_epochs``
        method_settings: settings of the method itself, such as ``{"conv": "gin"}``
        features: node features of a list, as in `sagpool.load`; `Graphs` already have theirs
        device: where to train and to predict
        random_state: an int, a ``RandomState``, or None for a different seed at each fit

    Attributes:
        classes_: ``[classes]`` in ascending order, like the columns of `predict_proba`
        model_: the `TrainedModel`, which can be saved and explained
        n_features_in_: columns of node features
        n_iter_: number of epochs of the training
    """

    def __init__(
        self,
        method: str = "sagpool-h",
        *,
        lr: float = Training.lr,
        weight_decay: float = Training.weight_decay,
        hidden: int = Training.hidden,
        ratio: float = Training.ratio,
        dropout: float = Training.dropout,
        batch_size: int = Training.batch_size,
        patience: int = Training.patience,
        max_epochs: int = MAX_EPOCHS,
        validation: float = Training.validation,
        method_settings: Mapping[str, Value] | None = None,
        features: Features = "auto",
        device: torch.device | str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.method = method
        self.lr = lr
        self.weight_decay = weight_decay
        self.hidden = hidden
        self.ratio = ratio
        self.dropout = dropout
        self.batch_size = batch_size
        self.patience = patience
        self.max_epochs = max_epochs
        self.validation = validation
        self.method_settings = method_settings
        self.features = features
        self.device = device
        self.random_state = random_state

    def fit(self, X: ManyGraphs, y: Any = None) -> Self:
        """Train on the graphs; without ``y``, on the classes stored in `Graphs`."""
        graphs = _pack(X, self.features)
        features = Vocabulary.of(graphs).kind
        if self.features not in ("auto", features):
            raise SagpoolError(
                f"{graphs.name} already has {features} as node features, not {self.features}."
            )
        classes, codes = _encode(_classes_of(graphs) if y is None else y)
        if len(codes) != len(graphs):
            raise SagpoolError(f"y has {len(codes)} classes for {len(graphs)} graphs.")
        if len(classes) < 2:
            raise SagpoolError(f"y needs at least two classes, but has only {classes[0]}.")
        names = tuple(str(value) for value in classes)
        graphs = replace(graphs, y=torch.from_numpy(codes), class_names=names)
        (result,) = train(graphs, [self._training()], device=self.device, keep_weights=True)
        self.model_ = trained_model(graphs, result, epochs=result.best_epoch)
        self.classes_ = classes
        self.n_features_in_ = graphs.num_features
        self.n_iter_ = result.epochs
        return self

    def predict_proba(self, X: ManyGraphs) -> np.ndarray:
        """``[graphs, classes]``"""
        check_is_fitted(self)
        graphs = _pack(X, self.model_.vocabulary.features)
        graphs = replace(graphs, y=None, class_names=()).to(find_device(self.device))
        found = self.model_.predict_proba(graphs)
        if found.unseen:
            what = "degrees" if graphs.feature_kind == "degree" else "labels"
            log.warning("%s: %s.", graphs.name, describe_unseen(found.unseen, what))
        # Rows from float32 sum to 1 only in float32, but log_loss and others check in float64.
        return found.probabilities / found.probabilities.sum(1, keepdims=True)

    def predict(self, X: ManyGraphs) -> np.ndarray:
        """The most probable class of each graph, ``[graphs]``."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def score(self, X: ManyGraphs, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; without ``y``, on the classes stored in `Graphs`."""
        check_is_fitted(self)
        if y is None:
            X = _pack(X, "auto")
            y = _classes_of(X)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _training(self) -> Training:
        names = ("lr", "weight_decay", "hidden", "ratio", "dropout", "batch_size", "max_epochs")
        return Training(
            self.method,
            seed=_seed(self.random_state),
            fold=NO_TEST,
            validation=self.validation,
            # Without validation graphs, training never stops early.
            patience=self.patience if self.validation else self.max_epochs,
            method_settings=tuple((self.method_settings or {}).items()),
            **{name: getattr(self, name) for name in names},
        )


class SAGPoolClassifier(GraphPoolingClassifier):
    """`GraphPoolingClassifier`, named after its default method, self-attention graph pooling."""


def _encode(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes in ascending order, and the index of each graph's class, ``[graphs]`` int64."""
    try:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
    except (TypeError, ValueError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise SagpoolError(f"y must have one class for each graph: {reason}.") from None
    return classes, codes.astype(np.int64)


def _classes_of(graphs: Graphs) -> np.ndarray:
    if graphs.y is None:
        raise SagpoolError("y is missing, and the graphs have no classes.")
    return np.array(graphs.class_names)[graphs.y.cpu().numpy()]


def _pack(X: Any, features: Features | Encoding) -> Graphs:
    """All graphs in one collection; `Graphs` keep the features they have."""
    if isinstance(X, Graphs):
        graphs = [X] if len(X) else []
    else:
        try:
            graphs = list(X)
        except TypeError:
            raise SagpoolError(f"X must be a list of graphs, not {type(X).__name__}.") from None
    if not graphs:
        raise SagpoolError("X has no graphs.")
    if _all_are(graphs, Graphs):
        # scikit-learn's splitters turn `Graphs` into lists of single graphs.
        return graphs[0] if len(graphs) == 1 else concat(graphs)

    import networkx
    from torch_geometric.data import Data

    # Classes stored in the graphs are ignored: they may be vectors, or missing in some graphs.
    if _all_are(graphs, networkx.Graph):
        packed = from_networkx(graphs, [0] * len(graphs), features=features)
        return replace(packed, y=None, class_names=())
    if _all_are(graphs, Data):
        bare = [Data(g.x, g.edge_index, num_nodes=g.num_nodes) for g in graphs]
        return from_pyg(bare, features=features)
    kinds = ", ".join(sorted({type(graph).__name__ for graph in graphs}))
    raise SagpoolError(
        f"X must be Graphs, or a list of either PyG Data or networkx graphs, not of {kinds}."
    )


def _all_are(values: list[Any], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise SagpoolError(
            f"random_state must be an int, a RandomState or None, not {random_state!r}."
        ) from None
