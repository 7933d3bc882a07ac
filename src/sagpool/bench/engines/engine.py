"""The interface between the bench and the engine that trains."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sagpool.fleet import Progress, Result, Training
from sagpool.graphs import Graphs


@dataclass(frozen=True)
class Job:
    """Trainings on one data set."""

    graphs: Graphs
    trainings: tuple[Training, ...]
    done: frozenset[Training]  # those with a stored result, which are skipped
    precision: str  # a name in `sagpool.bench.precision.PRECISIONS`
    keep_weights: Callable[[Training], bool]  # whether a result should include the weights


@dataclass(frozen=True)
class FailedTraining:
    """A training that raised an error or killed its worker on every attempt."""

    training: Training
    reason: str


Outcome = Result | FailedTraining
OnResult = Callable[[Outcome], None]
OnProgress = Callable[[Progress], None]


class Engine(Protocol):
    """Runs jobs."""

    @property
    def device(self) -> str:
        """A readable description of the hardware."""

    def run(self, job: Job, on_result: OnResult, on_progress: OnProgress) -> None:
        """Run all trainings of the job that are not done.

        Each outcome is reported at least once, in the calling thread, and counts as done when
        ``on_result`` returns. An exception in a callback, or Ctrl-C, ends the job; the next call
        with the same trainings resumes it.
        """
