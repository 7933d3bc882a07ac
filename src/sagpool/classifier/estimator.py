"""Graph classifiers by the rules of scikit-learn."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sagpool.classifier.fit import MAX_EPOCHS, trained_model
from sagpool.errors import SagpoolError
from sagpool.fleet import Training, train
from sagpool.graphs import NO_TEST, Graphs, from_networkx, from_pyg
from sagpool.graphs.concat import concat
from sagpool.graphs.features import Features
from sagpool.ops.device import find_device

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

    ManyGraphs = Graphs | Iterable[Graphs] | Iterable[Data] | Iterable[networkx.Graph]

log = logging.getLogger("sagpool")

_MOST_NAMED = 5  # in a warning


class GraphPoolingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One pooling method as a scikit-learn classifier.

    Where scikit-learn has the rows of a matrix, here are graphs: a `Graphs`, or a list or object
    array of PyG ``Data`` (of which ``x`` and ``edge_index`` are used) or of networkx graphs (the
    node attributes ``label`` and ``x``).

    Args:
        method: a registered name
        lr: Adam's learning rate
        weight_decay: L2 penalty
        hidden: size of the node representations
        ratio: of each pooling, in the hierarchical architecture
        dropout: rate in the MLP
        batch_size: graphs in a mini-batch
        patience: epochs without a lower validation loss after which to stop
        max_epochs: when to stop anyway
        validation: share of the graphs that is held out, to tell when to stop and which weights
            to keep; 0 trains on all graphs for ``max_epochs``
        features: node features of a list, as in `sagpool.load`; `Graphs` have theirs already
        device: where to train and to predict
        random_state: of everything random; a number, a ``RandomState``, or None for another
            number at each fit

    Attributes:
        classes_: ``[classes]`` ascending, as the columns of `predict_proba`
        model_: the `TrainedModel`, which can be saved and explained
        n_features_in_: columns of node features
        n_iter_: epochs that were trained
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
        self.features = features
        self.device = device
        self.random_state = random_state

    def fit(self, X: ManyGraphs, y: Any = None) -> Self:
        """Train on the graphs; without y, on the classes that `Graphs` have themselves."""
        graphs = _packed(X, self.features)
        kind = _asked_as(graphs.feature_kind)
        if self.features not in ("auto", kind):
            raise SagpoolError(
                f"{graphs.name} has {kind} as node features already, not {self.features}."
            )
        targets = _encoded(_classes_of(graphs) if y is None else y)
        if len(targets.codes) != len(graphs):
            raise SagpoolError(f"There are {len(targets.codes)} classes for {len(graphs)} graphs.")
        if len(targets.classes) < 2:
            raise SagpoolError(f"y has one class alone, {targets.classes[0]}; it takes two.")
        names = tuple(str(value) for value in targets.classes)
        graphs = replace(graphs, y=torch.from_numpy(targets.codes), class_names=names)
        (result,) = train(graphs, [self._training()], device=self.device, keep_weights=True)
        self.model_ = trained_model(graphs, result, epochs=result.best_epoch)
        self.classes_ = targets.classes
        self.n_features_in_ = graphs.num_features
        self.n_iter_ = result.epochs
        return self

    def predict_proba(self, X: ManyGraphs) -> np.ndarray:
        """``[graphs, classes]``"""
        check_is_fitted(self)
        graphs = _packed(X, _asked_as(self.model_.vocabulary.feature_kind))
        graphs = replace(graphs, y=None, class_names=()).to(find_device(self.device))
        share, unseen = self.model_.predict_proba(graphs)
        if unseen:
            what = "degrees" if graphs.feature_kind == "degree" else "labels"
            log.warning("%s: %s.", graphs.name, _listed(unseen, what))
        # They come from float32; who checks that they sum to 1, as log_loss does, does in float64.
        return share / share.sum(1, keepdims=True)

    def predict(self, X: ManyGraphs) -> np.ndarray:
        """``[graphs]`` the most probable class of each."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def score(self, X: ManyGraphs, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; without y, on the classes that `Graphs` have themselves."""
        check_is_fitted(self)
        if y is None:
            X = _packed(X, "auto")
            y = _classes_of(X)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _training(self) -> Training:
        return Training(
            self.method,
            seed=_seed(self.random_state),
            fold=NO_TEST,
            lr=self.lr,
            weight_decay=self.weight_decay,
            hidden=self.hidden,
            ratio=self.ratio,
            dropout=self.dropout,
            batch_size=self.batch_size,
            # With nothing held out there is nothing to wait for.
            patience=self.patience if self.validation else self.max_epochs,
            max_epochs=self.max_epochs,
            validation=self.validation,
        )


class SAGPoolClassifier(GraphPoolingClassifier):
    """`GraphPoolingClassifier` by the name of its default method, self-attention graph pooling."""


class _Targets(NamedTuple):
    classes: np.ndarray  # [classes] ascending
    codes: np.ndarray  # [graphs] int64


def _encoded(y: Any) -> _Targets:
    try:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
    except (TypeError, ValueError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise SagpoolError(f"y is not one class for each graph: {reason}.") from None
    return _Targets(classes, codes.astype(np.int64))


def _classes_of(graphs: Graphs) -> np.ndarray:
    if graphs.y is None:
        raise SagpoolError("y is missing, and the graphs have no classes of their own.")
    return np.array(graphs.class_names)[graphs.y.cpu().numpy()]


def _packed(X: Any, features: Features) -> Graphs:
    """The graphs as one collection; if they are `Graphs`, with the features that they have."""
    if isinstance(X, Graphs):
        graphs = [X] if len(X) else []
    else:
        try:
            graphs = list(X)
        except TypeError:
            raise SagpoolError(f"X must be a list of graphs, not {type(X).__name__}.") from None
    if not graphs:
        raise SagpoolError("X has no graph.")
    if _all_are(graphs, Graphs):
        # Lists of single graphs are what scikit-learn makes of Graphs when it takes some of them.
        return graphs[0] if len(graphs) == 1 else concat(graphs)

    import networkx
    from torch_geometric.data import Data

    # What they say about classes does not count: it may be several numbers, or said by some only.
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


def _asked_as(feature_kind: str) -> Features:
    """By which word one asks for these features."""
    return "both" if feature_kind == "attributes+labels" else feature_kind  # type: ignore[return-value]


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise SagpoolError(
            f"random_state must be a number, a RandomState or None, not {random_state!r}."
        ) from None


def _listed(unseen: Counter[str], what: str) -> str:
    """What nodes have and the model does not know, the most frequent first."""
    named = [f"{name} ({nodes})" for name, nodes in unseen.most_common(_MOST_NAMED)]
    if len(unseen) > _MOST_NAMED:
        named.append("...")
    return f"{unseen.total()} nodes have {what} that the model does not know: {', '.join(named)}"
