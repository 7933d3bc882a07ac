"""What the bench asks of whoever trains."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sagpool.fleet import Progress, Result, Training
from sagpool.graphs import Graphs


@dataclass(frozen=True)
class Job:
    """Trainings on one data set.

    Args:
        graphs: the data set
        trainings: all that are wanted
        done: those of them that have been reported before
        precision: a name in `sagpool.bench.precision.PRECISIONS`
        keeps: whether the result of a training is to carry its weights
    """

    graphs: Graphs
    trainings: tuple[Training, ...]
    done: frozenset[Training]
    precision: str
    keeps: Callable[[Training], bool]


@dataclass(frozen=True)
class Failed:
    """A training that came to no result, however often it was tried."""

    training: Training
    reason: str


Outcome = Result | Failed


class Engine(Protocol):
    """Does jobs."""

    @property
    def device(self) -> str:
        """A name for people of what it runs on."""

    def run(
        self,
        job: Job,
        on_result: Callable[[Outcome], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        """Do all trainings of the job that are not done.

        Each is reported at least once, in this process and thread, and counts as done when
        ``on_result`` has returned. What is raised by the two functions, and Ctrl-C, ends the job;
        the next call for the same trainings goes on from where it was.
        """
