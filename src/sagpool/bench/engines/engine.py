"""The interface between the bench and the engine that trains."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sagpool.fleet import Paused, Progress, Result, Training
from sagpool.graphs import Graphs


@dataclass(frozen=True, eq=False)
class Job:
    """Trainings on one data set."""

    graphs: Graphs
    trainings: tuple[Training, ...]
    done: frozenset[Training]  # trainings with a stored outcome, which are skipped
    precision: str  # a name in `sagpool.bench.precision.PRECISIONS`
    keep_weights: Callable[[Training], bool]  # whether a result should include the weights
    until: int | None = None  # the epoch after which trainings pause


@dataclass(frozen=True)
class FailedTraining:
    """A training that raised an error or killed its worker on every attempt."""

    training: Training
    reason: str


Outcome = Result | Paused | FailedTraining


class Watcher(Protocol):
    """Receives the events of jobs, always in the thread that called `Engine.run`."""

    def outcome(self, job: Job, outcome: Outcome) -> None:
        """A training has ended or paused; it counts as done when this returns."""

    def progress(self, job: Job, progress: Progress) -> None:
        """A job has made progress."""

    def ended(self, job: Job, problem: str) -> Sequence[Job]:
        """All trainings of the job have an outcome, or the job has a problem and was given up.

        Returns jobs to run next. Their trainings continue from where they paused in this job; the
        states of its other paused trainings are dropped.
        """


class Engine(Protocol):
    """Runs jobs."""

    @property
    def device(self) -> str:
        """A readable description of the hardware."""

    def run(self, jobs: Iterable[Job], watcher: Watcher) -> None:
        """Run the unfinished trainings of the jobs, and of the jobs that the watcher returns.

        Jobs run side by side as far as the hardware allows; earlier ones come first. Each outcome
        is reported at least once. An exception in the watcher, or Ctrl-C, ends the run; the next
        call with the same jobs resumes it.
        """
