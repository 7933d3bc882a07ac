"""A job while the Ray engine runs it."""

import time
from collections.abc import Mapping
from typing import Any

import ray

from sagpool.bench.engines.engine import Job, Outcome
from sagpool.fleet import Paused, Progress, Training
from sagpool.fleet.schedule import group_by_shape
from sagpool.fleet.state import MemberState

# States of trainings are in Ray's object store, which spills to disk. These are references to them;
# a state is freed when its last reference is dropped.
States = dict[Training, Any]


class RunningJob:
    """The trainings of a job by number, their states, and the progress of the job.

    Args:
        job: its trainings that are not done are run
        paused: states of trainings that paused in the previous job
    """

    def __init__(self, job: Job, paused: Mapping[Training, Any]) -> None:
        self.job = job
        unfinished = [training for training in job.trainings if training not in job.done]
        self.trainings = list(dict.fromkeys(unfinished))
        self.numbers = {training: number for number, training in enumerate(self.trainings)}
        # States to continue from, also after a worker has failed.
        self.begun: States = {one: paused[one] for one in self.trainings if one in paused}
        self.paused: States = {}
        self.running: dict[object, int] = {}  # number of members of each worker's fleet
        self.epochs = 0
        self.start: float | None = None  # start of the first chunk

    def groups(self) -> list[list[int]]:
        """Numbers of trainings that can share a fleet."""
        return group_by_shape(self.job.graphs, self.trainings)

    def go_on_from(self, states: Mapping[Training, MemberState]) -> None:
        """Continue the trainings of a stopped fleet from these states."""
        self.begun |= {training: ray.put(state) for training, state in states.items()}

    def finish(self, outcome: Outcome) -> None:
        """A training has ended, paused or failed for good."""
        self.begun.pop(outcome.training, None)
        if isinstance(outcome, Paused):
            self.paused[outcome.training] = ray.put(outcome.state)

    def progress(self, unfinished: int) -> Progress:
        """The progress, if ``unfinished`` trainings are left."""
        total = len(self.trainings)
        done, now = total - unfinished, time.monotonic()
        passed = max(now - (now if self.start is None else self.start), 1e-9)
        eta = passed / done * unfinished if done else None
        running = sum(self.running.values())
        return Progress(running, done, total, self.epochs, self.epochs / passed, eta)
