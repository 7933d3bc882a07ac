"""Graph nets with one pooling method as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch

from sagpool.classifier.candidates import MAX_EPOCHS
from sagpool.classifier.estimator_base import (
    GraphClassifierMixin,
    GraphEstimator,
    GraphRegressorMixin,
)
from sagpool.classifier.estimator_inputs import pack_for_fit, seed_of, with_classes, with_targets
from sagpool.classifier.model import trained_model
from sagpool.fleet import Training, train
from sagpool.graphs import NO_TEST, Graphs
from sagpool.graphs.features import Features
from sagpool.models import Value

if TYPE_CHECKING:
    from sagpool.classifier.estimator_inputs import ManyGraphs


class _GraphPooling(GraphEstimator):
    """One training of one method."""

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
        features: Features = "all",
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

    def _train(self, graphs: Graphs, class_weight: str = Training.class_weight) -> None:
        """Train on graphs that have classes or targets."""
        names = ("lr", "weight_decay", "hidden", "ratio", "dropout", "batch_size", "max_epochs")
        training = Training(
            self.method,
            seed=seed_of(self.random_state),
            fold=NO_TEST,
            validation=self.validation,
            # Without validation graphs, training never stops early.
            patience=self.patience if self.validation else self.max_epochs,
            method_settings=tuple((self.method_settings or {}).items()),
            class_weight=class_weight,
            **{name: getattr(self, name) for name in names},
        )
        (result,) = train(graphs, [training], device=self.device, keep_weights=True)
        self.model_ = trained_model(graphs, result, epochs=result.best_epoch)
        self.n_features_in_ = graphs.num_features
        self.n_iter_ = result.epochs


class GraphPoolingClassifier(GraphClassifierMixin, _GraphPooling):
    """One pooling method as a scikit-learn classifier.

    Graphs take the place of the rows of a matrix: ``X`` is a `Graphs`, or a list or object array
    of SMILES strings, of RDKit molecules, of PyG ``Data`` (``x``, ``edge_index`` and ``edge_attr``
    are used) or of networkx graphs (the attributes ``label`` and ``x`` of the nodes, ``label`` and
    ``weight`` of the edges). Edges have features only with ``features="all"``.

    Args:
        method: a registered name
        lr: Adam's learning rate
        weight_decay: L2 penalty
        hidden: size of the node representations
        ratio: fraction of nodes that each pooling of the hierarchical architecture keeps
        dropout: rate in the MLP
        batch_size: graphs in a mini-batch
        patience: stop after this many epochs without a lower validation loss
        max_epochs: stop after this many epochs in any case
        validation: fraction of the graphs held out for early stopping and for choosing the best
            weights; 0 trains on all graphs for ``max_epochs``
        method_settings: settings of the method itself, such as ``{"conv": "gin"}``
        features: node features of a list, as in `sagpool.load`: ``all`` that is known (labels,
            attributes, degrees, edges, and for molecules charges, rings, ...), or ``auto`` for the
            paper's. `Graphs` already have features
        class_weight: ``balanced`` divides the loss of a graph by the frequency of its class
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
        features: Features = "all",
        class_weight: Literal["balanced"] | None = None,
        device: torch.device | str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        # scikit-learn reads the names of parameters from this signature.
        super().__init__(
            method, lr=lr, weight_decay=weight_decay, hidden=hidden, ratio=ratio, dropout=dropout,
            batch_size=batch_size, patience=patience, max_epochs=max_epochs, validation=validation,
            method_settings=method_settings, features=features, device=device,
            random_state=random_state,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(self, X: ManyGraphs, y: Any = None) -> Self:
        """Train on the graphs; without ``y``, on the classes stored in `Graphs`."""
        graphs, classes = with_classes(pack_for_fit(X, self.features), y)
        self._train(graphs, "none" if self.class_weight is None else self.class_weight)
        self.classes_ = classes
        return self


class SAGPoolClassifier(GraphPoolingClassifier):
    """`GraphPoolingClassifier`, named after its default method, self-attention graph pooling."""


class GraphPoolingRegressor(GraphRegressorMixin, _GraphPooling):
    """One pooling method as a scikit-learn regressor, for one or more numbers of each graph.

    ``X`` and the parameters are those of `GraphPoolingClassifier`, without ``class_weight``. ``y``
    is ``[graphs]``, or ``[graphs, targets]`` with NaN where a target was not measured.

    Attributes:
        model_: the `TrainedModel`, which can be saved and explained
        n_features_in_: columns of node features
        n_iter_: number of epochs of the training
        one_column_: whether y was ``[graphs]``, so that predictions are too
    """

    def fit(self, X: ManyGraphs, y: Any = None) -> Self:
        """Train on the graphs; without ``y``, on the targets stored in `Graphs`."""
        graphs, one_column = with_targets(pack_for_fit(X, self.features), y)
        self._train(graphs)
        self.one_column_ = one_column
        return self


class SAGPoolRegressor(GraphPoolingRegressor):
    """`GraphPoolingRegressor`, named after its default method, self-attention graph pooling."""
