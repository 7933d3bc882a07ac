"""Predictions of finished trainings: their compact form in a run store, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sagpool.fleet import Result
from sagpool.fleet.evaluate import Truth
from sagpool.fleet.metrics import is_defined, scores
from sagpool.fleet.schedule import split_of
from sagpool.fleet.validation_metrics import ERRORS, REGRESSION_METRICS
from sagpool.foreign.values import DecodingError, decode
from sagpool.graphs import Graphs
from sagpool.graphs.graphs import Task

# Selectable by name, with the same meaning as in `sagpool train`.
METRICS = ("accuracy", "balanced_accuracy", "roc_auc", "f1", "mcc", "log_loss")
_KINDS = ("|u1", "<i4", "<f4")  # dtypes of ``truth``
LOWER_IS_BETTER = frozenset(("log_loss", *ERRORS))


@dataclass(frozen=True, eq=False)
class Part:
    """Predictions and truth for the graphs of one part of a split."""

    outputs: np.ndarray  # [graphs, outputs] float32, see `Predicted`
    truth: np.ndarray  # [graphs] classes, or [graphs, tasks] targets


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions of one training, in the order of the graphs of its split.

    For classes, the outputs are log-odds against the first class, which is left out; for several
    tasks, logits; for a regression, values.
    """

    task: Task
    validation: Part
    test: Part

    @staticmethod
    def of(graphs: Graphs, result: Result) -> Predicted | None:
        """The predictions of a result; None if it has none, or no epoch had a finite loss."""
        outputs = (result.validation_predictions, result.predictions)
        if not result.best_epoch or any(part is None for part in outputs):
            return None
        truth, split = Truth.of(graphs), split_of(graphs, result.training)
        parts = []
        for found, ids in zip(outputs, (split.validation, split.test), strict=True):
            assert found is not None
            if truth.task == "classification":
                found = found[:, 1:] - found[:, :1]
            parts.append(Part(found.astype(np.float32), truth.known[ids]))
        return Predicted(truth.task, *parts)

    def scores(self, part: str = "test") -> dict[str, float]:
        """All scores of the ``test`` or ``validation`` part by name; NaN where not defined."""
        of: Part = getattr(self, part)
        probabilities = self._probabilities(of.outputs.astype(np.float64))
        if self.task == "classification":
            predicted = probabilities.argmax(1)
        elif self.task == "multitask":
            predicted = (probabilities > 0.5).astype(np.int64)
        else:
            predicted = probabilities
        names = REGRESSION_METRICS if self.task == "regression" else METRICS
        found = scores(self.task, of.truth, probabilities, predicted)
        return {name: found[name] for name in names}

    def is_defined(self, metric: str, part: str = "test") -> bool:
        """Whether a metric can compare trainings on a part of their split."""
        of: Part = getattr(self, part)
        columns = of.outputs.shape[1]
        classes = columns + 1 if self.task == "classification" else columns
        return is_defined(metric, self.task, of.truth, classes)

    def _probabilities(self, outputs: np.ndarray) -> np.ndarray:
        if self.task == "regression":
            return outputs
        if self.task == "multitask":
            return 1 / (1 + np.exp(-outputs))
        odds = np.concatenate([np.zeros((len(outputs), 1)), outputs], 1)
        odds = np.exp(odds - odds.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)

    def to_row(self) -> list[str | int | bytes]:
        """Values for the columns of the store."""
        kind = "<i4" if self.task == "classification" else "<f4"
        if kind == "<i4" and self.validation.outputs.shape[1] < 256:
            kind = "|u1"
        row: list[str | int | bytes] = [self.task, self.test.outputs.shape[1], kind]
        for part in (self.validation, self.test):
            row += [part.outputs.astype("<f4").tobytes(), part.truth.astype(kind).tobytes()]
        return row


def decode_predicted(row: Sequence[Any]) -> Predicted:
    """The inverse of `Predicted.to_row`, for rows that may be damaged."""
    task: Task = decode(Task, row[0], "task")  # type: ignore[arg-type]
    outputs, kind = decode(int, row[1], "outputs"), decode(str, row[2], "kind")
    if kind not in _KINDS:
        raise DecodingError(f"the kind of truth must be one of {', '.join(_KINDS)}")
    parts = []
    for found, truth in (row[3:5], row[5:7]):
        known = np.frombuffer(truth, np.dtype(kind))
        if task == "classification":
            known = known.astype(np.int64)
        else:
            known = known.reshape(-1, outputs).astype(np.float64)
        parts.append(Part(np.frombuffer(found, "<f4").reshape(-1, outputs), known))
        if len(known) != len(parts[-1].outputs):
            raise DecodingError("predictions and truth differ in length")
    return Predicted(task, *parts)
