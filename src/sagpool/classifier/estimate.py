"""How good a model is on new graphs, estimated from out-of-fold predictions.

The estimate is cross-fitted: mixture, temperature, thresholds and decision for the graphs of one
fold are chosen on the predictions for the other folds. So no graph influences its own prediction.
Scores are computed over all graphs together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sagpool.classifier.choice import Rules, choose
from sagpool.classifier.conformal import Conformal
from sagpool.classifier.model import decide
from sagpool.fleet.metrics import (
    Bin,
    bootstrap,
    calibration_curve,
    confusion,
    scores,
)
from sagpool.graphs.graphs import Task

REPEATS = (100, 300)  # least and most repeats of the bootstrap
REPEATED = 3_000_000  # limit on predictions in all repeats of the bootstrap
# Models of different folds share training graphs, and the final model is another one, so
# intervals for independent graphs are too short; `scripts/estimate_coverage.py` measures it.
WIDER = 1.3
SIGNIFICANT = 0.05


class Score(NamedTuple):
    """A score with its 95 % interval; NaN where undefined."""

    value: float
    low: float
    high: float


class Coverage(NamedTuple):
    """Promised and measured coverage of prediction sets or intervals."""

    promised: float
    measured: float  # fraction of sets that contain the truth
    size: float  # mean number of classes in a set, or mean width of an interval


@dataclass(frozen=True, eq=False)
class OutOfFoldPredictions:
    """Predictions for graphs by models that did not see them."""

    outputs: np.ndarray  # [graphs, outputs]
    predicted: np.ndarray
    contained: np.ndarray  # [graphs, tasks] whether the set contains the truth, NaN if unmeasured
    sizes: np.ndarray  # [graphs, tasks] sizes of the sets or intervals


@dataclass(frozen=True, eq=False)
class Estimate:
    """Scores on held-out graphs.

    Args:
        task: task of the model
        graphs: number of held-out graphs
        folds: number of folds of the cross-validation that chose the model
        scores: scores by name, in the order of printing; means over the tasks, if there are several
        per_task: the scores of each task, if there are several
        majority: accuracy of always predicting the most frequent class (among the earlier
            graphs, if the latest were held out), for a classification
        better_than_majority: whether the model alone is right on more graphs than the majority
            class alone, beyond chance (McNemar's exact test, two-sided, 5 %)
        coverage: coverage of the prediction sets
        confusion: ``[classes][classes]`` graphs, by class (row) and prediction, of a classification
        calibration: the points of the calibration curve; empty for a regression
        trained_on: number of earlier graphs that the model for the estimate was trained on, if the
            latest graphs were held out; None for a cross-validation
    """

    task: Task
    graphs: int
    folds: int
    scores: dict[str, Score]
    per_task: dict[str, dict[str, float]]
    majority: float | None
    better_than_majority: bool | None
    coverage: Coverage
    confusion: list[list[int]] | None
    calibration: list[Bin]
    trained_on: int | None = None

    @property
    def accuracy(self) -> float:
        return self.scores["accuracy"].value

    @property
    def ci95(self) -> tuple[float, float]:
        """The 95 % interval of the accuracy."""
        return self.scores["accuracy"][1:]

    @property
    def balanced_accuracy(self) -> float:
        return self.scores["balanced_accuracy"].value

    @property
    def auroc(self) -> float | None:
        """ROC-AUC; None if undefined."""
        found = self.scores["roc_auc"].value
        return None if math.isnan(found) else found

    def to_json(self) -> dict[str, Any]:
        """JSON values; the main numbers of a classification are also on the first level."""
        found: dict[str, Any] = {
            "task": self.task,
            "graphs": self.graphs,
            "folds": self.folds,
            "scores": {
                name: {"value": _json(s.value), "ci95": [_json(s.low), _json(s.high)]}
                for name, s in self.scores.items()
            },
            "per_task": {
                task: {name: _json(value) for name, value in of_task.items()}
                for task, of_task in self.per_task.items()
            },
            "coverage": self.coverage._asdict() | {"size": _json(self.coverage.size)},
            "confusion": self.confusion,
            "calibration": [one._asdict() for one in self.calibration],
        }
        if self.trained_on is not None:
            found["trained_on"] = self.trained_on
        if self.task == "classification":
            found |= {
                "accuracy": self.accuracy,
                "ci95": list(self.ci95),
                "balanced_accuracy": self.balanced_accuracy,
                "auroc": self.auroc,
                "majority": self.majority,
                "better_than_majority": self.better_than_majority,
            }
        return found

    def _repr_html_(self) -> str:
        from sagpool.classifier.display import estimate_html

        return estimate_html(self)


def cross_fit(
    rules: Rules,
    outputs: np.ndarray,
    truth: np.ndarray,
    fold: np.ndarray,
    left_out: Sequence[Collection[int]] = (),
) -> OutOfFoldPredictions:
    """Predict each fold with the choice made on the other folds.

    Args:
        rules: rules of the choice
        outputs: ``[candidates, graphs, outputs]`` out of fold
        truth: ``[graphs]`` classes, or ``[graphs, tasks]``
        fold: ``[graphs]`` the fold in which a graph was held out
        left_out: for each candidate, the folds that are predicted without it; by default none
    """
    task = rules.task
    tasks = 1 if task == "classification" else outputs.shape[2]
    predicted = np.empty(truth.shape, np.int64 if task != "regression" else np.float64)
    contained, sizes = np.empty((len(truth), tasks)), np.empty((len(truth), tasks))
    every = OutOfFoldPredictions(np.empty(outputs.shape[1:]), predicted, contained, sizes)
    for one in np.unique(fold):
        here = fold == one
        used = np.array([one not in folds for folds in left_out] or [True] * len(outputs))
        used |= not used.any()
        allowed = replace(rules, simple=rules.simple[used])
        choice = choose(allowed, outputs[used][:, ~here], truth[~here])
        made = choice.apply(outputs[used][:, here])
        decided = decide(task, made, choice.decision)
        found = held_out_predictions(task, made, decided, choice.conformal, truth[here])
        for name, values in vars(found).items():
            getattr(every, name)[here] = values
    return every


def held_out_predictions(
    task: Task,
    outputs: np.ndarray,
    predicted: np.ndarray,
    conformal: Conformal,
    truth: np.ndarray,
) -> OutOfFoldPredictions:
    """Predictions of one model for graphs that it did not see, with their prediction sets.

    Args:
        task: task of the model
        outputs: ``[graphs, outputs]``
        predicted: ``[graphs]``, or ``[graphs, tasks]``
        conformal: prediction sets of the model
        truth: ``[graphs]`` classes, or ``[graphs, tasks]``
    """
    if task == "regression":
        sizes = np.diff(conformal.interval(outputs), axis=2)[:, :, 0]
    else:
        sets = conformal.sets(task, outputs)
        sizes = sets.sum(-1).reshape(len(sets), -1)
    return OutOfFoldPredictions(outputs, predicted, conformal.contains(task, outputs, truth), sizes)


def estimate(
    task: Task,
    predictions: OutOfFoldPredictions,
    truth: np.ndarray,
    *,
    folds: int,
    coverage: float,
    group: np.ndarray | None = None,
    target_names: tuple[str, ...] = (),
    seed: int = 0,
    trained_on: int | None = None,
    frequent: int | None = None,
) -> Estimate:
    """Scores of out-of-fold predictions, with intervals from a bootstrap over graphs (or groups).

    Args:
        task: task of the model
        predictions: predictions for graphs that the models did not see
        truth: ``[graphs]`` classes, or ``[graphs, tasks]``
        folds: number of folds of the cross-validation
        coverage: promised coverage of the sets
        group: ``[graphs]``; graphs of one group are not independent
        target_names: names of the tasks
        seed: seed of the bootstrap
        trained_on: see `Estimate`
        frequent: the class of `Estimate.majority`; by default the most frequent of these graphs
    """
    outputs, predicted = predictions.outputs, predictions.predicted

    def scored(ids: np.ndarray) -> dict[str, float]:
        return scores(task, truth[ids], outputs[ids], predicted[ids])

    together = np.arange(len(truth)) if group is None else group
    values = scored(np.arange(len(truth)))
    repeats = int(np.clip(REPEATED // predicted.size, *REPEATS))
    samples = bootstrap(scored, together, repeats=repeats, seed=seed)
    intervals = {name: _interval(name, values[name], samples[name]) for name in values}
    majority = better = None
    matrix = None
    if task == "classification":
        frequent = int(np.bincount(truth).argmax()) if frequent is None else frequent
        majority = float((truth == frequent).mean())
        better = mcnemar(predicted == truth, truth == frequent)
        matrix = confusion(truth, predicted, outputs.shape[1]).tolist()
        if group is None:
            low, high = wilson_interval(values["accuracy"], len(truth), WIDER)
            intervals["accuracy"] = Score(values["accuracy"], low, high)
    per_task = {}
    if task != "classification" and outputs.shape[1] > 1:
        for column, name in enumerate(target_names):
            one = slice(column, column + 1)
            per_task[name] = scores(task, truth[:, one], outputs[:, one], predicted[:, one])
    finite = predictions.sizes[np.isfinite(predictions.sizes)]
    return Estimate(
        task=task,
        graphs=len(truth),
        folds=folds,
        scores=intervals,
        per_task=per_task,
        majority=majority,
        better_than_majority=better,
        coverage=Coverage(
            coverage,
            float(np.nanmean(predictions.contained)),
            float(finite.mean()) if len(finite) else float("nan"),
        ),
        confusion=matrix,
        calibration=[] if task == "regression" else calibration_curve(task, truth, outputs),
        trained_on=trained_on,
    )


def estimated(estimate: Mapping[str, Any]) -> str:
    """How an estimate was made, from its JSON values: the words after "estimated"."""
    if (before := estimate.get("trained_on")) is not None:
        return f"on the latest {estimate['graphs']} graphs, by a model of the {before} before them"
    return f"by {estimate['folds']}-fold cross-validation"


def wilson_interval(fraction: float, count: int, wider: float = 1.0) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a fraction observed on ``count`` graphs.

    ``wider`` is the factor by which the standard error exceeds that of independent graphs.
    """
    z = 1.959964 * wider
    centre = (fraction + z**2 / (2 * count)) / (1 + z**2 / count)
    variance = fraction * (1 - fraction) / count + z**2 / (4 * count**2)
    half = z * np.sqrt(variance) / (1 + z**2 / count)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def mcnemar(model: np.ndarray, reference: np.ndarray) -> bool:
    """Whether the model is right significantly more often, by graphs on which the two differ."""
    from scipy.special import bdtr  # slow to import

    won, lost = int((model & ~reference).sum()), int((reference & ~model).sum())
    if won <= lost:
        return False
    return bool(2 * bdtr(lost, won + lost, 0.5) < SIGNIFICANT)


_LIMITS = {"mcc": (-1.0, 1.0), "spearman": (-1.0, 1.0), "r2": (-np.inf, 1.0)}
_UNBOUNDED = ("log_loss", "rmse", "mae")


def _interval(name: str, value: float, samples: np.ndarray) -> Score:
    """The percentiles of a bootstrap, made `WIDER` around the value."""
    known = samples[~np.isnan(samples)]
    if math.isnan(value) or len(known) < len(samples) // 2:
        return Score(value, float("nan"), float("nan"))
    low, high = np.percentile(known, [2.5, 97.5])
    least, most = _LIMITS.get(name, (0.0, np.inf if name in _UNBOUNDED else 1.0))
    below, above = value - WIDER * max(0.0, value - low), value + WIDER * max(0.0, high - value)
    return Score(value, float(max(least, below)), float(min(most, above)))


def _json(value: float) -> float | None:
    return None if math.isnan(value) or math.isinf(value) else float(value)
