"""Mixes candidates to a model: greedy selection on out-of-fold predictions.

Caruana et al. (2004): begin with the best candidate, and repeatedly add the candidate that improves
the average most; candidates that are added twice have twice the weight.
"""

from __future__ import annotations

import numpy as np

from sagpool.fleet.metrics import losses
from sagpool.graphs.graphs import Task

ROUNDS = 20
MOST_PARTS = 5
# Lower probabilities count as this one, so that one confident error does not reject a forest.
LEAST = 2e-3


def loss_per_graph(task: Task, outputs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """``[graphs]``, the mean over the measured tasks; NaN if none is measured.

    The squared error of a regression is in units of the variance of its task.
    """
    found = losses(task, outputs, truth, LEAST)
    if task == "classification":
        return found
    if task == "regression":
        variance = np.nanvar(truth, axis=0)
        found = found / np.where(variance > 0, variance, 1)
    measured = ~np.isnan(found)
    count = measured.sum(1)
    total = np.where(measured, found, 0).sum(1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def greedy_mixture(task: Task, outputs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Weights of the candidates, ``[candidates]``, which sum to 1.

    On these graphs, the average is never worse than the best candidate.

    Args:
        task: task of the model
        outputs: ``[candidates, graphs, outputs]`` for graphs that the candidates did not see
        truth: ``[graphs]`` classes, or ``[graphs, tasks]``
    """

    def loss(mean: np.ndarray) -> float:
        return float(np.nanmean(loss_per_graph(task, mean, truth)))

    alone = [loss(one) for one in outputs]
    best = int(np.argmin(alone))
    counts = np.zeros(len(outputs), np.int64)
    counts[best] = 1
    total, lowest = outputs[best].copy(), alone[best]
    for size in range(2, ROUNDS + 1):
        full = np.count_nonzero(counts) == MOST_PARTS
        allowed = [n for n in range(len(outputs)) if counts[n] or not full]
        found = {n: loss((total + outputs[n]) / size) for n in allowed}
        best = min(allowed, key=found.__getitem__)
        if found[best] >= lowest:
            break
        counts[best] += 1
        total, lowest = total + outputs[best], found[best]
    return np.asarray(counts / counts.sum())


def advantage(
    task: Task, outputs: np.ndarray, reference: np.ndarray, truth: np.ndarray
) -> tuple[float, float]:
    """How much lower the first loss is than the second, and the standard error.

    Both are ``[graphs, outputs]`` for the same graphs; the difference is paired graph by graph.
    """
    pair = (loss_per_graph(task, one, truth) for one in (reference, outputs))
    difference = np.subtract(*pair)
    difference = difference[~np.isnan(difference)]
    if len(difference) < 2:
        return 0.0, 0.0
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))
