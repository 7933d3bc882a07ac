"""The engine that trains in this process, on one device."""

import hashlib
import logging
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import torch

from sagpool.bench.engines.engine import Job, Watcher
from sagpool.bench.precision import PRECISIONS, computing_in
from sagpool.errors import SagpoolError
from sagpool.fleet import Outcome, Paused, Training
from sagpool.fleet.checkpoint import identity_in, identity_of, trainings_of
from sagpool.fleet.profile import Profile
from sagpool.fleet.scheduler import Scheduler
from sagpool.fleet.state import MemberState
from sagpool.fleet.work import Work
from sagpool.ops.device import find_device

log = logging.getLogger("sagpool")


class Local:
    """Trains in this process: the fleets of all jobs side by side.

    Args:
        checkpoints: folder for checkpoints of running jobs; created when needed and removed with
            the last of them
        device: where to train
        members: the largest fleet; by default as many as fit
        checkpoint_seconds: time between two checkpoints
        profile: whether to measure where the time goes, see `Local.profile`
    """

    def __init__(
        self,
        checkpoints: Path,
        device: torch.device | str = "cpu",
        members: int | None = None,
        checkpoint_seconds: float = 60.0,
        *,
        profile: bool = False,
    ) -> None:
        self.checkpoints, self.members = checkpoints, members
        self.torch_device, self.checkpoint_seconds = find_device(device), checkpoint_seconds
        self.profile = Profile(self.torch_device, on=profile)

    @property
    def device(self) -> str:
        if self.torch_device.type == "cuda":
            return torch.cuda.get_device_name(self.torch_device)
        return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"

    def run(self, jobs: Iterable[Job], watcher: Watcher) -> None:
        for partial in self.checkpoints.glob(".*.part"):
            partial.unlink()  # left by a process that was killed while writing
        if unfinished := list(self._unfinished(jobs, watcher)):
            self._run(unfinished, watcher)
        if self.checkpoints.is_dir() and not any(self.checkpoints.iterdir()):
            self.checkpoints.rmdir()

    def _run(self, jobs: list[Job], watcher: Watcher) -> None:
        scheduler = Scheduler(self.torch_device, self.checkpoint_seconds, self.profile)
        with ExitStack() as stack:
            # A global setting of torch, so the same for all jobs.
            for precision in dict.fromkeys(job.precision for job in jobs):
                stack.enter_context(computing_in(precision, self.torch_device))
            scheduler.run(work for job in jobs for work in self._works(job, watcher, {}))

    def _unfinished(self, jobs: Iterable[Job], watcher: Watcher) -> Iterator[Job]:
        """The jobs with trainings left; finished jobs end here, and their follow-up jobs begin."""
        for job in jobs:
            if job.done.issuperset(job.trainings):
                self._interrupted(job, [])  # removes checkpoints that are no longer needed
                yield from self._unfinished(watcher.ended(job, ""), watcher)
            else:
                yield job

    def _works(
        self, job: Job, watcher: Watcher, begun: Mapping[Training, MemberState]
    ) -> list[Work]:
        """The works of a job; after an interruption, first the works of its checkpoints."""
        left = [training for training in job.trainings if training not in job.done]
        parts = []
        for file, trainings in self._interrupted(job, left):
            parts.append((file, trainings))
            left = [training for training in left if training not in set(trainings)]
        if left:
            parts.append((self._new_file(job, left), left))
        unfinished = {file for file, _ in parts}
        paused: dict[Training, MemberState] = {}
        problems: list[SagpoolError] = []

        def on_result(outcome: Outcome) -> None:
            if isinstance(outcome, Paused):
                paused[outcome.training] = outcome.state
            watcher.outcome(job, outcome)

        def work(file: Path, trainings: list[Training]) -> Work:
            def on_end(error: SagpoolError | None) -> list[Work]:
                if error is None:
                    for outcome in made.outcomes():
                        # Report again: outcomes that are only in the checkpoint have not been
                        # reported.
                        on_result(outcome)
                    file.unlink(missing_ok=True)
                else:
                    problems.append(error)
                unfinished.discard(file)
                problem = problems[0] if problems else None
                return [] if unfinished else self._following(job, watcher, paused, problem)

            made = Work(
                job.graphs,
                trainings,
                dtype=PRECISIONS[job.precision].dtype,
                members=self.members,
                keep_weights=job.keep_weights,
                keep_predictions=True,
                until=job.until,
                begun=begun,
                checkpoint=file,
                keep_checkpoint=False,  # the run store has all outcomes by then
                on_result=on_result,
                on_progress=lambda progress: watcher.progress(job, progress),
                on_end=on_end,
            )
            return made

        return [work(file, trainings) for file, trainings in parts]

    def _following(
        self,
        job: Job,
        watcher: Watcher,
        paused: Mapping[Training, MemberState],
        problem: SagpoolError | None,
    ) -> list[Work]:
        following = watcher.ended(job, str(problem) if problem else "")
        return [
            work
            for after in self._unfinished(following, watcher)
            for work in self._works(after, watcher, paused)
        ]

    def _interrupted(self, job: Job, left: list[Training]) -> list[tuple[Path, list[Training]]]:
        """The checkpoints of this job, and the trainings in each.

        An interrupted job resumes with all of its trainings, even those whose rows were stored
        after its last checkpoint, so that it takes the same course as without the interruption.
        """
        found: list[tuple[Path, list[Training]]] = []
        for file in sorted(self.checkpoints.glob("*.npz")):
            try:
                identity = identity_in(file)
            except SagpoolError as error:
                log.warning("%s It is ignored.", error)
                continue
            try:
                started = trainings_of(identity)
                if not set(started) <= set(job.trainings):
                    continue
                same = identity == self._identity(job, started)
            except SagpoolError:
                continue  # belongs to a method that is not loaded here
            if not same:
                continue
            if set(started).isdisjoint(left):
                file.unlink()  # the process ended between storing its last row and removing it
                continue
            found.append((file, started))
        return found

    def _new_file(self, job: Job, left: list[Training]) -> Path:
        digest = hashlib.sha256(self._identity(job, left).encode()).hexdigest()[:16]
        stem, number = f"{job.graphs.name}-{digest}", 1
        file = self.checkpoints / f"{stem}.npz"
        while file.exists():  # unreadable, or it would be continued
            number += 1
            file = self.checkpoints / f"{stem}-{number}.npz"
        return file

    def _identity(self, job: Job, trainings: list[Training]) -> str:
        dtype = PRECISIONS[job.precision].dtype
        return identity_of(
            *(job.graphs, trainings, dtype, job.keep_weights, job.until), keep_predictions=True
        )
