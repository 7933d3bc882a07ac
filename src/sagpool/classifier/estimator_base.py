"""The common base of all scikit-learn estimators for graphs."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from sagpool.classifier.estimator_inputs import (
    classes_of,
    pack_graphs,
    target_matrix,
    targets_of,
    task_matrix,
    without_answers,
)
from sagpool.classifier.model import Predictions, describe_unseen
from sagpool.errors import SagpoolError
from sagpool.ops.device import find_device

if TYPE_CHECKING:
    from sagpool.classifier.estimator_inputs import ManyGraphs

log = logging.getLogger("sagpool")


class GraphEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator with a ``device``, and a ``model_`` once it is fitted."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _predictions(self, X: ManyGraphs) -> Predictions:
        check_is_fitted(self)
        graphs = without_answers(pack_graphs(X, self.model_.vocabulary.features))
        found = self.model_.predict_proba(graphs.to(find_device(self.device)))
        if found.unseen:
            what = "labels" if self.model_.vocabulary.has_labels else "degrees"
            log.warning("%s has %s.", graphs.name, describe_unseen(found.unseen, what))
        if self.model_.task != "classification":
            return found
        # Rows of float32 sum to 1 only in float32, but log_loss and others check in float64.
        p = found.probabilities
        return replace(found, probabilities=p / p.sum(1, keepdims=True))


class GraphClassifierMixin(ClassifierMixin):  # type: ignore[misc]
    """Predictions of a `GraphEstimator` with ``classes_``."""

    def predict_proba(self, X: ManyGraphs) -> np.ndarray:
        """``[graphs, classes]``; with several tasks ``[graphs, tasks]`` probabilities of a 1."""
        return self._predictions(X).probabilities

    def predict(self, X: ManyGraphs) -> np.ndarray:
        """The class of each graph, ``[graphs]``; with several tasks ``[graphs, tasks]``."""
        numbers = self._predictions(X).predicted
        return self.classes_[numbers]

    def score(self, X: ManyGraphs, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; without ``y``, on the classes stored in `Graphs`.

        With several tasks, the mean accuracy; missing values (NaN) do not count.
        """
        check_is_fitted(self)
        if self.model_.task == "multitask":
            return self._score_tasks(X, y, sample_weight)
        if y is None:
            X = pack_graphs(X, "auto")
            y = classes_of(X)
        return float(super().score(X, y, sample_weight))

    def _score_tasks(self, X: ManyGraphs, y: Any, sample_weight: Any) -> float:
        if y is None:
            X = pack_graphs(X, "auto")
            y = X.targets
        truth = task_matrix(y)
        found = self.predict(X)
        if found.shape != truth.shape:
            given, made = (" x ".join(map(str, one.shape)) for one in (truth, found))
            raise SagpoolError(f"y has {given} values (graphs x tasks); there are {made}.")
        weights = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight)
        weights = np.where(np.isnan(truth), 0.0, weights[:, None])  # [graphs, tasks]
        right, total = ((found == truth) * weights).sum(0), weights.sum(0)
        return float(np.mean(right[total > 0] / total[total > 0]))


class GraphRegressorMixin(RegressorMixin):  # type: ignore[misc]
    """Predictions of a `GraphEstimator`; ``one_column_`` tells whether y was a single column."""

    def predict(self, X: ManyGraphs) -> np.ndarray:
        """``[graphs]``, or ``[graphs, targets]`` if the estimator was fitted to a matrix."""
        values = self._predictions(X).predicted
        return values[:, 0] if self.one_column_ else values

    def score(self, X: ManyGraphs, y: Any = None, sample_weight: Any = None) -> float:
        """R², the mean over the targets; missing values (NaN) do not count.

        Without ``y``, for the targets stored in `Graphs`.
        """
        check_is_fitted(self)
        if y is None:
            X = pack_graphs(X, "auto")
            y = targets_of(X)
        truth = target_matrix(y)
        values = self._predictions(X).predicted
        if values.shape != truth.shape:
            given, made = (" x ".join(map(str, one.shape)) for one in (truth, values))
            raise SagpoolError(f"y has {given} values (graphs x targets); there are {made}.")
        weights = None if sample_weight is None else np.asarray(sample_weight)
        scores = []
        for column in range(truth.shape[1]):
            known = ~np.isnan(truth[:, column])
            if known.sum() > 1:  # R² needs two graphs
                of_known = None if weights is None else weights[known]
                pair = truth[known, column], values[known, column]
                scores.append(r2_score(*pair, sample_weight=of_known))
        return float(np.mean(scores)) if scores else float("nan")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
