"""The targets that a simple model learns from the training graphs, task by task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.graphs.graphs import Graphs, Task


class Measured(NamedTuple):
    """One task: the training graphs that have a target, and their targets."""

    rows: np.ndarray  # [measured] int64
    target: np.ndarray  # [measured] int64 classes, or float64


@dataclass(frozen=True)
class Problem:
    """The targets of training graphs.

    Each column of ``target`` is fitted separately: the class, or each of several tasks.
    """

    task: Task
    classes: int  # number of classes; 2 for multitask
    target: np.ndarray  # [graphs, tasks] float64, NaN where not measured
    balanced: bool = False  # whether all classes have the same total weight

    @staticmethod
    def of(graphs: Graphs, class_weight: str | None = None) -> Problem:
        """The targets of training graphs; ``class_weight`` is None or ``balanced``."""
        if class_weight not in (None, "balanced"):
            raise SagpoolError(f"class_weight must be None or 'balanced', not {class_weight!r}.")
        if graphs.task == "classification":
            if graphs.y is None or graphs.num_classes < 2:
                raise SagpoolError(f"{graphs.name} has fewer than two classes.")
            target = graphs.y.cpu().numpy().astype(np.float64)[:, None]
            return Problem(graphs.task, graphs.num_classes, target, class_weight is not None)
        if graphs.targets is None:
            raise SagpoolError(f"{graphs.name} has no targets.")
        target = graphs.targets.cpu().numpy().astype(np.float64)
        return Problem(graphs.task, 2, target, class_weight is not None)

    @property
    def tasks(self) -> int:
        return self.target.shape[1]

    @property
    def raw_outputs(self) -> int:
        """Raw outputs of a model: one per class (one for two classes), or one per task."""
        if self.task == "classification" and self.classes > 2:
            return self.classes
        return self.tasks

    @property
    def regression(self) -> bool:
        return self.task == "regression"

    def part(self, rows: np.ndarray) -> Problem:
        """The problem of some of the graphs."""
        return replace(self, target=self.target[rows])

    def losses(self, predicted: np.ndarray) -> np.ndarray:
        """The sum over graphs of the log loss or squared error of each task, ``[tasks]``.

        Args:
            predicted: ``[graphs, raw outputs]`` probabilities or values
        """
        found = np.zeros(self.tasks)
        for task, (rows, target) in enumerate(self.measured()):
            if self.regression:
                spread = np.nanvar(self.target[:, task]) if len(rows) else 1.0
                found[task] = ((predicted[rows, task] - target) ** 2).sum() / (spread or 1.0)
                continue
            if self.raw_outputs == self.tasks:
                right = np.where(target == 1, predicted[rows, task], 1 - predicted[rows, task])
            else:
                right = predicted[rows, target]
            weights = self.weights(target)
            found[task] = np.average(-np.log(np.maximum(right, 1e-12)), weights=weights) * len(rows)
        return found

    def measured(self) -> Iterator[Measured]:
        for column in self.target.T:
            rows = np.flatnonzero(~np.isnan(column))
            yield Measured(rows, column[rows] if self.regression else column[rows].astype(np.int64))

    def prior(self, task: int) -> np.ndarray:
        """The constant prediction for a task whose targets are all equal.

        ``[outputs of the task]``: the mean, or probabilities after adding half a graph to each
        class.
        """
        known = self.target[~np.isnan(self.target[:, task]), task]
        if self.regression:
            return np.array([known.mean() if len(known) else 0.0])
        counts = np.bincount(known.astype(np.int64), minlength=self.classes) + 0.5
        share = counts / counts.sum()
        return share if self.raw_outputs > self.tasks else share[[1]]

    def weights(self, classes: np.ndarray) -> np.ndarray | None:
        """``[graphs]`` float64 with mean 1, or None if all weights are 1."""
        if not self.balanced or self.regression:
            return None
        found, place, counts = np.unique(classes, return_inverse=True, return_counts=True)
        return np.asarray((len(classes) / (len(found) * counts))[place])
