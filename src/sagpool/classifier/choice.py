"""From out-of-fold predictions of the candidates to a calibrated mixture with prediction sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sagpool.classifier.calibration import fit_temperature, with_temperature
from sagpool.classifier.conformal import COVERAGE, Conformal
from sagpool.classifier.mixture import advantage, greedy_mixture, loss_per_graph
from sagpool.fleet.metrics import balanced_accuracy, confusion
from sagpool.graphs.graphs import Task

# A mixture must lower the loss of the best simple model by more than one standard error, and by
# this fraction: nearly equal predictions can be significantly better by a useless amount.
WORTH = 0.01


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules of the choice.

    Args:
        task: task of the model
        simple: ``[candidates]`` bool; simple models; the best one alone is kept if the mixture is
            not better
        coverage: promised coverage of the prediction sets
        balanced: whether to optimise balanced accuracy instead of accuracy
    """

    task: Task
    simple: np.ndarray
    coverage: float = COVERAGE
    balanced: bool = False


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen on the predictions for some graphs, to be applied to other graphs."""

    task: Task
    mixture: np.ndarray  # [candidates], sums to 1
    temperature: float
    decision: tuple[float, ...] | None
    conformal: Conformal

    def apply(self, outputs: np.ndarray) -> np.ndarray:
        """The outputs of the model, from those of the candidates ``[candidates, graphs, ...]``."""
        mean = np.tensordot(self.mixture, outputs, 1)
        return with_temperature(self.task, mean, self.temperature)


def choose(rules: Rules, outputs: np.ndarray, truth: np.ndarray) -> Choice:
    """Choose by predictions for graphs that the candidates did not see.

    Args:
        rules: rules of the choice
        outputs: ``[candidates, graphs, outputs]``
        truth: ``[graphs]`` classes, or ``[graphs, tasks]`` with NaN where not measured
    """
    mixture = greedy_mixture(rules.task, outputs, truth)
    simple = np.flatnonzero(rules.simple)
    if len(simple):
        alone = simple[_best(rules.task, outputs[simple], truth)]
        mixed = np.tensordot(mixture, outputs, 1)
        gain, error = advantage(rules.task, mixed, outputs[alone], truth)
        reference = float(np.nanmean(loss_per_graph(rules.task, outputs[alone], truth)))
        if gain <= max(error, WORTH * reference):
            mixture = np.eye(len(outputs))[alone]
    mean = np.tensordot(mixture, outputs, 1)
    temperature = fit_temperature(rules.task, mean, truth)
    calibrated = with_temperature(rules.task, mean, temperature)
    return Choice(
        rules.task,
        mixture,
        temperature,
        decision_for(rules.task, calibrated, truth) if rules.balanced else None,
        Conformal.of(rules.task, calibrated, truth, rules.coverage),
    )


def decision_for(
    task: Task, probabilities: np.ndarray, truth: np.ndarray
) -> tuple[float, ...] | None:
    """Factors of the classes, or thresholds of the tasks, for high balanced accuracy.

    For two classes and for tasks this is the threshold that is best on these graphs. For more
    classes it is the inverse of their frequency, which is best for calibrated probabilities.
    """
    if task == "regression":
        return None
    if task == "multitask":
        pairs = zip(probabilities.T, truth.T, strict=True)
        return tuple(_threshold(p[~np.isnan(t)], t[~np.isnan(t)] > 0.5) for p, t in pairs)
    counts = np.bincount(truth, minlength=probabilities.shape[1])
    if len(counts) == 2:
        threshold = _threshold(probabilities[:, 1], truth == 1)
        return (threshold, round(1 - threshold, 6))
    return tuple(float(f"{factor:.6g}") for factor in len(truth) / np.maximum(counts, 1))


def _threshold(probability: np.ndarray, truth: np.ndarray) -> float:
    """The middle of the thresholds with the highest balanced accuracy."""
    if not 0 < truth.sum() < len(truth):
        return 0.5
    tried = np.unique(np.quantile(probability, np.linspace(0, 1, 201)))
    tried = np.clip((tried[1:] + tried[:-1]) / 2, 1e-6, 1 - 1e-6)
    if not len(tried):
        return 0.5
    y = truth.astype(np.int64)
    found = [balanced_accuracy(confusion(y, (probability >= t).astype(int), 2)) for t in tried]
    best = tried[np.array(found) >= max(found) - 1e-12]
    return round(float(best[len(best) // 2]), 6)


def _best(task: Task, outputs: np.ndarray, truth: np.ndarray) -> int:
    """The candidate with the lowest loss."""
    gains = [advantage(task, one, outputs[0], truth)[0] for one in outputs]
    return int(np.argmax(gains))
