"""What the bench asks of whoever trains."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from sagpool.fleet import Progress, Result, Training
from sagpool.graphs import Graphs

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Job:
    """Trainings on one data set.

    Args:
        graphs: the data set
        trainings: all that are wanted
        done: those of them that have been reported before
        precision: a name in `PRECISIONS`
        keeps: whether the result of a training is to carry its weights
    """

    graphs: Graphs
    trainings: tuple[Training, ...]
    done: frozenset[Training]
    precision: str
    keeps: Callable[[Training], bool]


class Engine(Protocol):
    """Does jobs."""

    @property
    def device(self) -> str:
        """A name for people of what it runs on."""

    def run(
        self,
        job: Job,
        on_result: Callable[[Result], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        """Do all trainings of the job that are not done.

        Each is reported at least once, in this process and thread, and counts as done when
        ``on_result`` has returned. What is raised by the two functions, and Ctrl-C, ends the job;
        the next call for the same trainings goes on from where it was.
        """
