"""Fleets in this process, on one device."""

import hashlib
import logging
import platform
from collections.abc import Callable
from pathlib import Path

import torch

from sagpool.bench.engines.engine import Job
from sagpool.bench.precision import PRECISIONS, computing_in
from sagpool.errors import SagpoolError
from sagpool.fleet import Progress, Result, Training, train
from sagpool.fleet.checkpoint import identity_in, identity_of, trainings_of
from sagpool.ops.device import find_device

log = logging.getLogger("sagpool")


class Local:
    """Trains in this process.

    Args:
        checkpoints: folder in which running fleets are kept; it is made when needed and goes away
            with the last of them
        device: where to train
        members: how many side by side at the most; by default as many as fit
        checkpoint_seconds: how often a running fleet is kept
    """

    def __init__(
        self,
        checkpoints: Path,
        device: torch.device | str = "cpu",
        members: int | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> None:
        self.checkpoints, self.members = checkpoints, members
        self.where, self.checkpoint_seconds = find_device(device), checkpoint_seconds

    @property
    def device(self) -> str:
        if self.where.type == "cuda":
            return torch.cuda.get_device_name(self.where)
        return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"

    def run(
        self,
        job: Job,
        on_result: Callable[[Result], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        with computing_in(job.precision, self.where):
            self._run(job, on_result, on_progress)

    def _run(
        self,
        job: Job,
        on_result: Callable[[Result], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        left = [training for training in job.trainings if training not in job.done]
        for unfinished in self.checkpoints.glob(".*.part"):
            unfinished.unlink()  # of a process that was killed while it wrote
        while left:
            file, trainings = self._next(job, left)
            results = train(
                job.graphs,
                trainings,
                members=self.members,
                device=self.where,
                dtype=PRECISIONS[job.precision].dtype,
                keep_weights=job.keeps,
                on_result=on_result,
                on_progress=on_progress,
                checkpoint=file,
                checkpoint_seconds=self.checkpoint_seconds,
            )
            for result in results:
                # Again, for those that were done before and are in the checkpoint alone.
                on_result(result)
            file.unlink()
            done = set(trainings)
            left = [training for training in left if training not in done]
        if self.checkpoints.is_dir() and not any(self.checkpoints.iterdir()):
            self.checkpoints.rmdir()

    def _next(self, job: Job, left: list[Training]) -> tuple[Path, list[Training]]:
        """What to do first: a fleet that was begun and never finished, if there is one.

        It goes on with all that it was begun with, those included whose rows were stored after its
        last checkpoint: so it takes the course that it would have taken.
        """
        for file in sorted(self.checkpoints.glob("*.npz")):
            try:
                identity = identity_in(file)
            except SagpoolError as error:
                log.warning("%s It is left where it is.", error)
                continue
            begun = trainings_of(identity)
            if identity != self._identity(job, begun) or not set(begun) <= set(job.trainings):
                continue
            if set(begun).isdisjoint(left):
                file.unlink()  # ended just before it could be removed
                continue
            return file, begun
        digest = hashlib.sha256(self._identity(job, left).encode()).hexdigest()[:16]
        stem, number = f"{job.graphs.name}-{digest}", 1
        file = self.checkpoints / f"{stem}.npz"
        while file.exists():  # and could not be read
            number += 1
            file = self.checkpoints / f"{stem}-{number}.npz"
        return file, left

    def _identity(self, job: Job, trainings: list[Training]) -> str:
        return identity_of(job.graphs, trainings, PRECISIONS[job.precision].dtype, job.keeps)
