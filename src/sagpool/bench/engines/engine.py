"""The interface between the bench and the engine that trains."""

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
        trainings: all trainings of the job
        done: those with a stored result, which are skipped
        precision: a name in `sagpool.bench.precision.PRECISIONS`
        keep_weights: whether the result of a training should include its weights
    """

    graphs: Graphs
    trainings: tuple[Training, ...]
    done: frozenset[Training]
    precision: str
    keep_weights: Callable[[Training], bool]


@dataclass(frozen=True)
class FailedTraining:
    """A training that raised an error or killed its worker on every attempt."""

    training: Training
    reason: str


Outcome = Result | FailedTraining


class Engine(Protocol):
    """Runs jobs."""

    @property
    def device(self) -> str:
        """A readable description of the hardware."""

    def run(
        self,
        job: Job,
        on_result: Callable[[Outcome], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        """Run all trainings of the job that are not done.

        Each outcome is reported at least once, in the calling thread, and counts as done when
        ``on_result`` returns. An exception in a callback, or Ctrl-C, ends the job; the next call
        with the same trainings resumes it.
        """
