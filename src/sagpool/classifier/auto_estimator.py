"""The best of graph nets and simple models as scikit-learn estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch

from sagpool.classifier.candidates import Only
from sagpool.classifier.conformal import COVERAGE
from sagpool.classifier.estimator_base import (
    GraphClassifierMixin,
    GraphEstimator,
    GraphRegressorMixin,
)
from sagpool.classifier.estimator_inputs import (
    has_tasks,
    pack_for_fit,
    seed_of,
    with_classes,
    with_targets,
    with_tasks,
)
from sagpool.classifier.fit import fit
from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs
from sagpool.graphs.features import Features

if TYPE_CHECKING:
    from sagpool.classifier.estimator_inputs import ManyGraphs


class _AutoGraph(GraphEstimator):
    """`sagpool.classifier.fit` as an estimator."""

    def __init__(
        self,
        *,
        only: Only | None = None,
        folds: int | None = None,
        minutes: float | None = None,
        coverage: float = COVERAGE,
        features: Features = "all",
        device: torch.device | str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.only = only
        self.folds = folds
        self.minutes = minutes
        self.coverage = coverage
        self.features = features
        self.device = device
        self.random_state = random_state

    def _choose(self, graphs: Graphs, class_weight: Literal["balanced"] | None = None) -> None:
        found = fit(
            graphs,
            only=self.only,
            folds=self.folds,
            minutes=self.minutes,
            coverage=self.coverage,
            class_weight=class_weight,
            seed=seed_of(self.random_state),
            device=self.device,
        )
        self.model_ = found.model
        self.estimate_ = found.estimate
        self.leaderboard_ = found.leaderboard
        self.interrupted_ = found.interrupted
        self.n_features_in_ = graphs.num_features


class AutoGraphClassifier(GraphClassifierMixin, _AutoGraph):
    """The best classifier for some graphs, as a scikit-learn classifier.

    ``fit`` does what ``sagpool train`` does: it tries graph nets and simple models, averages the
    best, calibrates the probabilities and estimates the scores on new graphs, all by
    cross-validation. See `sagpool.classifier.fit`. ``X`` is as in `GraphPoolingClassifier`. ``y``
    is ``[graphs]``; or ``[graphs, tasks]`` of 0 and 1, NaN where not measured. In that case
    predictions are ``[graphs, tasks]`` too, and `predict_proba` returns the probability of a 1.

    Args:
        only: try only ``graph-nets``, or only ``simple`` models
        folds: number of folds of the cross-validation; by default 10, or fewer for large data
        minutes: time after which no candidate is begun; at least one is finished
        coverage: probability that a set of `predict_set` contains the true class
        features: as in `GraphPoolingClassifier`
        class_weight: ``balanced`` optimises the balanced accuracy of predictions; the probabilities
            stay calibrated, so the prediction is not always the most probable class
        device: where to train and to predict
        random_state: an int, a ``RandomState``, or None for a different seed at each fit

    Attributes:
        classes_: ``[classes]`` in ascending order, like the columns of `predict_proba`; 0 and 1 for
            several tasks
        estimate_: the scores on new graphs, an `Estimate`
        interrupted_: whether candidates were not tried for lack of time
        leaderboard_: a `Row` for each candidate, the best first
        model_: the `TrainedModel`, which can be saved and explained
        n_features_in_: columns of node features
    """

    def __init__(
        self,
        *,
        only: Only | None = None,
        folds: int | None = None,
        minutes: float | None = None,
        coverage: float = COVERAGE,
        features: Features = "all",
        class_weight: Literal["balanced"] | None = None,
        device: torch.device | str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        # scikit-learn reads the names of parameters from this signature.
        super().__init__(
            only=only, folds=folds, minutes=minutes, coverage=coverage, features=features,
            device=device, random_state=random_state,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(self, X: ManyGraphs, y: Any = None) -> Self:
        """Choose and train a model; without ``y``, for the classes stored in `Graphs`."""
        if self.class_weight not in (None, "balanced"):
            raise SagpoolError(f"class_weight must be None or balanced, not {self.class_weight!r}.")
        graphs = pack_for_fit(X, self.features)
        if has_tasks(graphs, y):
            graphs, classes = with_tasks(graphs, y), np.array([0, 1])
        else:
            graphs, classes = with_classes(graphs, y)
        self._choose(graphs, self.class_weight)
        self.classes_ = classes
        return self

    def predict_set(self, X: ManyGraphs) -> np.ndarray:
        """The plausible classes of each graph, ``[graphs, classes]`` bool.

        With several tasks ``[graphs, tasks, 2]``. A set contains the true class with a probability
        of ``coverage``.
        """
        sets = self._predictions(X).sets
        assert sets is not None, "a model that was chosen has prediction sets"
        return sets


class AutoGraphRegressor(GraphRegressorMixin, _AutoGraph):
    """The best model for one or more numbers of each graph, as a scikit-learn regressor.

    Like `AutoGraphClassifier`, without ``class_weight``. ``y`` is ``[graphs]``, or
    ``[graphs, targets]`` with NaN where a target was not measured.

    Attributes:
        estimate_: the scores on new graphs, an `Estimate`
        interrupted_: whether candidates were not tried for lack of time
        leaderboard_: a `Row` for each candidate, the best first
        model_: the `TrainedModel`, which can be saved and explained
        n_features_in_: columns of node features
        one_column_: whether y was ``[graphs]``, so that predictions are too
    """

    def fit(self, X: ManyGraphs, y: Any = None) -> Self:
        """Choose and train a model; without ``y``, for the targets stored in `Graphs`."""
        graphs, one_column = with_targets(pack_for_fit(X, self.features), y)
        self._choose(graphs)
        self.one_column_ = one_column
        return self

    def predict_interval(self, X: ManyGraphs) -> np.ndarray:
        """Lowest and highest likely value, ``[graphs, 2]`` or ``[graphs, targets, 2]``.

        An interval contains the true value with a probability of ``coverage``.
        """
        interval = self._predictions(X).interval
        assert interval is not None, "a model that was chosen has intervals"
        return interval[:, 0] if self.one_column_ else interval
