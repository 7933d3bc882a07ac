"""`Target`: which output is explained, if a model predicts numbers or several tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.values import shorten
from sagpool.graphs.graphs import Task

MOST_LISTED = 20  # names in a sentence


@dataclass(frozen=True)
class Target:
    """The output that an explanation is about; for a model of classes, all outputs.

    One of several tasks is explained as two classes, 0 and 1.
    """

    task: Task
    names: tuple[str, ...]  # of all targets; empty for classes
    place: int = 0  # of the chosen one

    @staticmethod
    def of(task: Task, names: tuple[str, ...], wanted: str | None) -> Target:
        """The target of this name; by default the first one."""
        if task == "classification":
            if wanted is not None:
                raise SagpoolError(
                    f"There is no target {shorten(wanted)}: the model predicts classes."
                )
            return Target(task, ())
        if wanted is not None and wanted not in names:
            raise SagpoolError(f"There is no target {shorten(wanted)}, only {_listed(names)}.")
        return Target(task, names, 0 if wanted is None else names.index(wanted))

    @property
    def name(self) -> str | None:
        """None for classes."""
        return self.names[self.place] if self.names else None

    @property
    def sentence(self) -> str | None:
        """Which one of several it is."""
        if len(self.names) < 2:
            return None
        return (
            f"What is explained is {self.name}, one of {len(self.names)} targets: "
            f"{_listed(self.names)}."
        )

    def outputs_of_net(self, raw: np.ndarray) -> np.ndarray:
        """As `outputs`, from the logits or log-probabilities of a net, ``[graphs, outputs]``."""
        if self.task == "classification":
            shares = np.exp(raw - raw.max(1, keepdims=True))
            return np.asarray(shares / shares.sum(1, keepdims=True))
        return self.outputs(0.5 * (1 + np.tanh(raw / 2)) if self.task == "multitask" else raw)

    def outputs(self, found: np.ndarray) -> np.ndarray:
        """What a model says: ``[graphs, classes]`` probabilities, or ``[graphs, targets]`` numbers.

        Args:
            found: ``[graphs, outputs]`` as a `TrainedModel` gives them
        """
        if self.task != "multitask":
            return found
        one = found[:, self.place]
        return np.stack([1 - one, one], 1)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:MOST_LISTED]) + (", ..." if len(names) > MOST_LISTED else "")
