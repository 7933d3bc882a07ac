"""Scores of predictions: pure functions of arrays.

``truth`` is ``[graphs]`` classes, or ``[graphs, tasks]`` with NaN where not measured; ``outputs``
is ``[graphs, outputs]``: probabilities, or values of a regression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sagpool.graphs.graphs import Task
from sagpool.statistics import mean_ranks

BINS = 10
LEAST = 1e-6  # lower probabilities count as this one in a logarithm
CLASS_SCORES = (
    *("accuracy", "balanced_accuracy", "roc_auc", "pr_auc"),
    *("mcc", "f1", "log_loss", "ece"),
)
# What some metrics need to tell predictions apart; others need measured targets alone.
NEEDS = {
    **dict.fromkeys(("roc_auc", "mcc"), "graphs of two classes"),
    **{"f1": "graphs of the second class", "r2": "targets that differ"},
}


class Bin(NamedTuple):
    """One point of a calibration curve."""

    probability: float  # mean predicted probability
    fraction: float  # fraction of graphs for which the prediction was true
    graphs: int


def scores(
    task: Task, truth: np.ndarray, outputs: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """All scores of a task by name; NaN for an undefined one (a class without graphs).

    With several columns of targets, each score is the mean over those for which it is defined.
    """
    if task == "classification":
        return classification_scores(truth, outputs, predicted)
    columns = zip(truth.T, outputs.T, predicted.T, strict=True)
    of_task = multitask_scores if task == "multitask" else regression_scores
    found = [of_task(*(c[~np.isnan(t)] for c in (t, o, p))) for t, o, p in columns]
    return {name: _mean([one[name] for one in found]) for name in found[0]}


def is_defined(metric: str, task: Task, truth: np.ndarray, classes: int) -> bool:
    """Whether a metric can tell predictions for these graphs apart; see `NEEDS`.

    Otherwise it is NaN, or 0 for all predictions (F1 and MCC). One column of targets is enough.
    """
    columns = [truth] if task == "classification" else list(truth.T)
    for column in columns:
        known = column[~np.isnan(column)]
        if metric in ("roc_auc", "mcc", "r2"):
            enough = len(np.unique(known)) > 1
        elif metric == "f1" and (task == "multitask" or classes == 2):
            enough = bool((known > 0.5).any())
        else:
            enough = len(known) > 0
        if enough:
            return True
    return False


def classification_scores(
    y: np.ndarray, probabilities: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """Scores of a classification; with two classes ROC-AUC, PR-AUC and F1 refer to the second.

    With more, they are means over the classes, each against all others.
    Without graphs, all are NaN.
    """
    if not len(y):
        return dict.fromkeys(CLASS_SCORES, np.nan)
    classes = probabilities.shape[1]
    matrix = confusion(y, predicted, classes)
    asked = [1] if classes == 2 else range(classes)
    return {
        "accuracy": float((predicted == y).mean()),
        "balanced_accuracy": balanced_accuracy(matrix),
        "roc_auc": _mean([roc_auc(y == c, probabilities[:, c]) for c in asked]),
        "pr_auc": _mean([pr_auc(y == c, probabilities[:, c]) for c in asked]),
        "mcc": mcc(matrix),
        "f1": _mean([_f1(matrix, c) for c in asked]),
        "log_loss": float(losses("classification", probabilities, y).mean()),
        "ece": calibration_error(_confident(y, probabilities)),
    }


def multitask_scores(
    truth: np.ndarray, probability: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """Scores of one task; truth is 0 or 1, outputs are probabilities of 1, all are measured."""
    both = np.stack([1 - probability, probability], 1)
    return classification_scores(truth.astype(np.int64), both, predicted)


def regression_scores(
    truth: np.ndarray, values: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """Scores of one task, all of whose graphs are measured; ``predicted`` equals ``values``."""
    if not len(truth):
        return dict.fromkeys(("rmse", "mae", "r2", "spearman"), np.nan)
    error = values - truth
    spread = float(((truth - truth.mean()) ** 2).mean())
    return {
        "rmse": float(np.sqrt((error**2).mean())),
        "mae": float(np.abs(error).mean()),
        "r2": 1 - float((error**2).mean()) / spread if spread else np.nan,
        "spearman": _correlation(mean_ranks(truth), mean_ranks(values)),
    }


def losses(task: Task, outputs: np.ndarray, truth: np.ndarray, least: float = LEAST) -> np.ndarray:
    """The loss of each graph (and task): log loss, or squared error. NaN where not measured.

    Args:
        task: task of the model
        outputs: ``[graphs, outputs]``
        truth: ``[graphs]`` classes, or ``[graphs, tasks]`` with NaN where not measured
        least: lower probabilities count as this one

    Returns:
        ``[graphs]`` for classes, ``[graphs, tasks]`` otherwise
    """
    if task == "regression":
        return (outputs - truth) ** 2
    if task == "multitask":
        p = np.clip(outputs, least, 1 - least)
        return -np.where(np.isnan(truth), np.nan, np.where(truth > 0.5, np.log(p), np.log1p(-p)))
    p = np.take_along_axis(outputs, truth[:, None].astype(np.int64), 1)[:, 0]
    return -np.log(np.clip(p, least, None))


def confusion(y: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """``[classes, classes]`` numbers of graphs, by class (row) and prediction (column)."""
    flat = np.bincount(y * classes + predicted, minlength=classes**2)
    return flat.reshape(classes, classes)


def balanced_accuracy(matrix: np.ndarray) -> float:
    """The mean recall over the classes that have graphs."""
    of_class = matrix.sum(1)
    return float((np.diag(matrix)[of_class > 0] / of_class[of_class > 0]).mean())


def mcc(matrix: np.ndarray) -> float:
    """Matthews' correlation coefficient, for any number of classes; 0 if it is not defined."""
    matrix = matrix.astype(np.float64)
    total, right = matrix.sum(), np.trace(matrix)
    truth, predicted = matrix.sum(1), matrix.sum(0)
    root = np.sqrt((total**2 - (predicted**2).sum()) * (total**2 - (truth**2).sum()))
    return float((right * total - truth @ predicted) / root) if root else 0.0


def roc_auc(positive: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve; NaN without positives or without negatives."""
    count = int(positive.sum())
    if not 0 < count < len(positive):
        return np.nan
    above = mean_ranks(score)[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(positive) - count)))


def pr_auc(positive: np.ndarray, score: np.ndarray) -> float:
    """Average precision; NaN without positives."""
    if not positive.any():
        return np.nan
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(positive[order])
    last = np.append(np.diff(score[order]) != 0, True)  # the last graph of each run of equal scores
    precision = hits[last] / (np.flatnonzero(last) + 1)
    recall = hits[last] / hits[-1]
    return float((np.diff(recall, prepend=0) * precision).sum())


def calibration_curve(
    task: Task, truth: np.ndarray, outputs: np.ndarray, bins: int = BINS
) -> list[Bin]:
    """Predicted probabilities against observed frequencies, in bins of equal numbers of graphs.

    With two classes or a task, the probability of the second class (or of 1); with more classes,
    the highest probability.
    """
    if task == "multitask":
        measured = ~np.isnan(truth)
        return _curve(outputs[measured], truth[measured] > 0.5, bins)
    return _curve(*_confident(truth, outputs), bins)


def calibration_error(confident: tuple[np.ndarray, np.ndarray], bins: int = BINS) -> float:
    """Mean absolute difference of probability and fraction over the bins of a curve."""
    curve = _curve(*confident, bins)
    total = sum(one.graphs for one in curve)
    return sum(one.graphs * abs(one.probability - one.fraction) for one in curve) / max(total, 1)


def bootstrap(
    statistic: Callable[[np.ndarray], dict[str, float]],
    group: np.ndarray,
    *,
    repeats: int,
    seed: int,
) -> dict[str, np.ndarray]:
    """Values of a statistic of graph numbers, over samples with replacement.

    Args:
        statistic: function of ``[any]`` graph numbers
        group: ``[graphs]``; graphs of one group are drawn together
        repeats: number of samples
        seed: decides the samples
    """
    random = np.random.default_rng(seed)
    members = np.argsort(group, kind="stable")
    _, counts = np.unique(group, return_counts=True)
    starts = np.cumsum(counts) - counts
    samples: list[dict[str, float]] = []
    for _ in range(repeats):
        drawn = random.integers(len(counts), size=len(counts))
        offset = np.arange(counts[drawn].sum())
        offset -= np.repeat(np.cumsum(counts[drawn]) - counts[drawn], counts[drawn])
        samples.append(statistic(members[np.repeat(starts[drawn], counts[drawn]) + offset]))
    return {name: np.array([one[name] for one in samples]) for name in samples[0]}


def _confident(y: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if probabilities.shape[1] == 2:
        return probabilities[:, 1], y == 1
    return probabilities.max(1), probabilities.argmax(1) == y


def _curve(probability: np.ndarray, happened: np.ndarray, bins: int) -> list[Bin]:
    order = np.argsort(probability, kind="stable")
    return [
        Bin(float(probability[part].mean()), float(happened[part].mean()), len(part))
        for part in np.array_split(order, bins)
        if len(part)
    ]


def _f1(matrix: np.ndarray, of_class: int) -> float:
    involved = matrix[of_class].sum() + matrix[:, of_class].sum()
    return float(2 * matrix[of_class, of_class] / involved) if involved else 0.0


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one - one.mean(), other - other.mean()
    norm = np.sqrt((one**2).sum() * (other**2).sum())
    return float((one * other).sum() / norm) if norm else np.nan


def _mean(values: list[float]) -> float:
    """The mean of the values that are not NaN."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
