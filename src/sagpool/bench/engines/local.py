"""The engine that trains in this process, on one device."""

import hashlib
import logging
import platform
from pathlib import Path

import torch

from sagpool.bench.engines.engine import Job, OnProgress, OnResult
from sagpool.bench.precision import PRECISIONS, computing_in
from sagpool.errors import SagpoolError
from sagpool.fleet import Training, train
from sagpool.fleet.checkpoint import identity_in, identity_of, trainings_of
from sagpool.ops.device import find_device

log = logging.getLogger("sagpool")


class Local:
    """Trains in this process.

    Args:
        checkpoints: folder for checkpoints of running fleets; created when needed and removed with
            the last of them
        device: to train on
        members: the largest fleet; by default as many as fit
        checkpoint_seconds: between two checkpoints
    """

    def __init__(
        self,
        checkpoints: Path,
        device: torch.device | str = "cpu",
        members: int | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> None:
        self.checkpoints, self.members = checkpoints, members
        self.torch_device, self.checkpoint_seconds = find_device(device), checkpoint_seconds

    @property
    def device(self) -> str:
        if self.torch_device.type == "cuda":
            return torch.cuda.get_device_name(self.torch_device)
        return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"

    def run(self, job: Job, on_result: OnResult, on_progress: OnProgress) -> None:
        with computing_in(job.precision, self.torch_device):
            self._run(job, on_result, on_progress)

    def _run(self, job: Job, on_result: OnResult, on_progress: OnProgress) -> None:
        left = [training for training in job.trainings if training not in job.done]
        for partial in self.checkpoints.glob(".*.part"):
            partial.unlink()  # of a process that was killed while writing
        while left:
            file, trainings = self._next(job, left)
            results = train(
                job.graphs,
                trainings,
                members=self.members,
                device=self.torch_device,
                dtype=PRECISIONS[job.precision].dtype,
                keep_weights=job.keep_weights,
                on_result=on_result,
                on_progress=on_progress,
                checkpoint=file,
                checkpoint_seconds=self.checkpoint_seconds,
            )
            for result in results:
                # Again: results that are only in the checkpoint have not been reported yet.
                on_result(result)
            file.unlink()
            done = set(trainings)
            left = [training for training in left if training not in done]
        if self.checkpoints.is_dir() and not any(self.checkpoints.iterdir()):
            self.checkpoints.rmdir()

    def _next(self, job: Job, left: list[Training]) -> tuple[Path, list[Training]]:
        """The checkpoint and the trainings of the next fleet: an interrupted one, if there is any.

        An interrupted fleet resumes with all of its trainings, even those whose rows were stored
        after its last checkpoint, so that it takes the same course as without the interruption.
        """
        for file in sorted(self.checkpoints.glob("*.npz")):
            try:
                identity = identity_in(file)
            except SagpoolError as error:
                log.warning("%s It is ignored.", error)
                continue
            try:
                started = trainings_of(identity)
                same = identity == self._identity(job, started)
            except SagpoolError:
                continue  # of a method that is not loaded here
            if not same or not set(started) <= set(job.trainings):
                continue
            if set(started).isdisjoint(left):
                file.unlink()  # its last row was stored just before it could be removed
                continue
            return file, started
        digest = hashlib.sha256(self._identity(job, left).encode()).hexdigest()[:16]
        stem, number = f"{job.graphs.name}-{digest}", 1
        file = self.checkpoints / f"{stem}.npz"
        while file.exists():  # an unreadable one
            number += 1
            file = self.checkpoints / f"{stem}-{number}.npz"
        return file, left

    def _identity(self, job: Job, trainings: list[Training]) -> str:
        return identity_of(job.graphs, trainings, PRECISIONS[job.precision].dtype, job.keep_weights)
