"""Prediction sets and intervals that contain the truth with a promised probability.

Split conformal prediction (Vovk et al. 2005; Angelopoulos and Bates 2023): each of n graphs that
the model did not see gets a score, which is high for a bad prediction; the ⌈(n + 1) c⌉-th smallest
score bounds the score of a new graph with a probability of at least c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sagpool.graphs.graphs import Task

COVERAGE = 0.9


@dataclass(frozen=True)
class Conformal:
    """The promised coverage, and the highest score that a set may contain.

    Args:
        coverage: promised fraction of the sets (or intervals) that contain the truth
        thresholds: one for classes, otherwise one for each task; None if there were too few graphs
            for the promise, so that a set contains everything
    """

    coverage: float
    thresholds: tuple[float | None, ...]

    @staticmethod
    def of(
        task: Task, outputs: np.ndarray, truth: np.ndarray, coverage: float = COVERAGE
    ) -> Conformal:
        """From outputs ``[graphs, outputs]`` for graphs that the model did not see."""
        scores = nonconformity(task, outputs, truth)
        return Conformal(coverage, tuple(bound(column, coverage) for column in scores.T))

    def sets(self, task: Task, outputs: np.ndarray) -> np.ndarray:
        """Which classes are in the set of each graph, ``[graphs, classes]`` bool.

        With several tasks ``[graphs, tasks, 2]``: whether the set contains 0, and 1. The most
        probable class is always in the set, so that none is empty; this can only raise the
        coverage.
        """
        high = np.array([1.0 if t is None else t for t in self.thresholds])
        if task == "multitask":
            both = np.stack([1 - outputs, outputs], 2)
            likely = both == both.max(2, keepdims=True)
            return np.asarray((1 - both <= high[:, None]) | likely)
        likely = outputs == outputs.max(1, keepdims=True)
        return np.asarray((1 - outputs <= high[0]) | likely)

    def interval(self, values: np.ndarray) -> np.ndarray:
        """The interval of each value ``[graphs, tasks]``, as ``[graphs, tasks, 2]``."""
        half = np.array([np.inf if t is None else t for t in self.thresholds])
        return np.stack([values - half, values + half], 2)

    def contains(self, task: Task, outputs: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Whether sets contain the truth, ``[graphs, tasks]``, NaN where not measured."""
        if task == "regression":
            interval = self.interval(outputs)
            inside = (interval[:, :, 0] <= truth) & (truth <= interval[:, :, 1])
        elif task == "multitask":
            sets = self.sets(task, outputs)
            inside = np.where(truth > 0.5, sets[:, :, 1], sets[:, :, 0])
        else:
            return np.take_along_axis(self.sets(task, outputs), truth[:, None], 1).astype(float)
        return np.where(np.isnan(truth), np.nan, inside)


def nonconformity(task: Task, outputs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """``[graphs, tasks]`` scores, high for a bad prediction; one task for classes."""
    if task == "regression":
        return np.abs(outputs - truth)
    if task == "multitask":
        return np.abs(truth - outputs)  # 1 - the probability of the truth
    return 1 - np.take_along_axis(outputs, truth[:, None], 1)


def bound(scores: np.ndarray, coverage: float) -> float | None:
    """The ⌈(n + 1) coverage⌉-th smallest of n scores; None if there are fewer."""
    scores = np.sort(scores[~np.isnan(scores)])
    # Rounding errors: 0.9 * 10 must not become rank 10 because of the last bit.
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    # Rounded up, with a few digits more than the scores, so that a score equal to it is included.
    return float(f"{scores[rank - 1] * (1 + 1e-9):.10g}") if rank <= len(scores) else None
