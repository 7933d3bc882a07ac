"""The engine that trains in the processes of a Ray cluster."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import ray
import torch

from sagpool.bench.engines.chunks import Chunk, Chunks
from sagpool.bench.engines.cluster import alive, choose_resources, describe, slots
from sagpool.bench.engines.engine import FailedTraining, Job, OnProgress, OnResult
from sagpool.bench.engines.pool import Answer, RemoteWorker, WorkerPool
from sagpool.bench.engines.suspended import FleetPart
from sagpool.bench.engines.worker import Report, Task
from sagpool.bench.precision import precision_on
from sagpool.errors import SagpoolError
from sagpool.fleet import Progress, train
from sagpool.fleet.interrupt import interrupt_held_back
from sagpool.fleet.schedule import group_by_shape
from sagpool.graphs import Graphs
from sagpool.models import method_version

log = logging.getLogger("sagpool")

REPORT_SECONDS = 0.25  # between two reports of a worker
REPORTS_PER_SECOND = 500  # of all workers together: if there are many, each reports less often
NODES_SECONDS = 1.0  # between two checks of which machines are in the cluster
WARN_SECONDS = 30.0  # without a worker
LAST_SECONDS = 5.0  # to wait for the last rows after Ctrl-C


class Ray:
    """Trains in the cluster that this process is connected to; see `connected`.

    Args:
        device: ``cpu``, ``cuda``, or ``auto``: GPUs if the cluster has any
        members: the largest fleet of a worker; by default as many as fit
        train: the function that a worker calls
        split_seconds: how long a chunk runs before it may be split among idle workers
    """

    def __init__(
        self,
        device: str = "auto",
        members: int | None = None,
        train: Callable[..., object] = train,
        split_seconds: float = 15.0,
    ) -> None:
        self.members, self.split_seconds = members, split_seconds
        self.resources = choose_resources(device, ray.nodes())
        self.pool = WorkerPool(self.resources, train)
        self.data: dict[Graphs, Any] = {}  # references to graphs in Ray's object store

    @property
    def device(self) -> str:
        return describe(ray.nodes(), self.resources)

    def run(self, job: Job, on_result: OnResult, on_progress: OnProgress) -> None:
        # Checked here: a worker would report it for each training separately.
        precision_on(job.precision, torch.device(self.resources.device))
        if job.graphs not in self.data:
            self.data[job.graphs] = ray.put(job.graphs)
        run = _JobRun(self, job, on_result, on_progress)
        with interrupt_held_back() as raise_if_interrupted:
            try:
                while run.step():
                    raise_if_interrupted()
            except KeyboardInterrupt:
                run.collect_last_rows()
                raise
            finally:
                for worker in run.busy:
                    self.pool.drop(worker)


class _JobRun:
    """One job, from its first training to its last."""

    def __init__(self, engine: Ray, job: Job, on_result: OnResult, on_progress: OnProgress) -> None:
        self.engine, self.pool, self.job = engine, engine.pool, job
        self.on_result, self.on_progress = on_result, on_progress
        unfinished = [training for training in job.trainings if training not in job.done]
        self.trainings = list(dict.fromkeys(unfinished))
        self.numbers = {training: number for number, training in enumerate(self.trainings)}
        self.chunks = Chunks(group_by_shape(job.graphs, self.trainings))
        self.running: dict[RemoteWorker, int] = {}
        self.epochs, self.start = 0, time.monotonic()
        self.nodes_known, self.nodes_at, self.without_since = False, 0.0, self.start

    @property
    def busy(self) -> list[RemoteWorker]:
        """Workers with a chunk of this job; others may still be starting."""
        return [worker for worker in self.pool.workers if worker in self.chunks.assigned]

    def step(self) -> bool:
        """Hand out work and collect answers, once; whether there is more to do."""
        if not self.chunks.unfinished and not self.busy:
            return False
        self._adjust_workers()
        self._hand_out()
        answered = False
        for answer in self.pool.answers(REPORT_SECONDS):
            self._handle(answer)
            answered = True
        if answered:
            self.on_progress(self._progress())
        return True

    def collect_last_rows(self) -> None:
        """Store what the workers have already sent."""
        polled = [worker.answer for worker in self.busy if worker.pending == "poll"]
        if polled:
            ray.wait(polled, num_returns=len(polled), timeout=LAST_SECONDS)
        for answer in self.pool.answers(0):
            if answer.called == "poll" and not answer.error:
                self._store(answer.worker, answer.value)

    def _adjust_workers(self) -> None:
        """Machines join and leave: have as many workers as fit and as have work."""
        now = time.monotonic()
        if self.nodes_known and now - self.nodes_at < NODES_SECONDS:
            return
        self.nodes_known, self.nodes_at = True, now
        capacity = slots(ray.nodes(), self.engine.resources)
        self.pool.fill(min(capacity, self.chunks.unfinished), capacity)
        if self.pool.nodes:
            self.without_since = now
        elif now - self.without_since >= WARN_SECONDS:
            log.warning("All machines of the Ray cluster are busy or gone; waiting for one.")
            self.without_since = math.inf  # warn once

    def _hand_out(self) -> None:
        idle = self.pool.idle
        for worker in idle:
            chunk = self.chunks.offer(
                worker, len(self.pool.workers), time.monotonic(), worker.node, self.pool.nodes
            )
            if chunk is None:
                straggler = self.chunks.straggler(time.monotonic(), self.engine.split_seconds)
                if isinstance(straggler, RemoteWorker):
                    straggler.actor.split.remote(len(idle) + 1)
                return
            worker.call("begin", [self.engine.data[self.job.graphs]], self._task(worker, chunk))

    def _task(self, worker: RemoteWorker, chunk: Chunk) -> Task:
        trainings = tuple(self.trainings[number] for number in chunk.numbers)
        method = trainings[0].method  # trainings of one shape have one method
        if worker.methods.get(method) != method_version(method):
            raise SagpoolError(
                f"The workers of the cluster lack the method '{method}' or have another version of "
                "it; put it into a file or module that all machines have, and load it as a plugin."
            )
        keep = frozenset(training for training in trainings if self.job.keep_weights(training))
        return Task(trainings, keep, self.job.precision, self.engine.members, chunk.state)

    def _handle(self, answer: Answer) -> None:
        worker = answer.worker
        if answer.error:
            self._fail(worker, answer.error, died=answer.died)
        elif answer.called == "begin":
            self.chunks.accept(worker, answer.value)
            self._poll(worker)
        else:
            report: Report = answer.value
            self._store(worker, report)
            if not report.ended:
                self._poll(worker)
            elif report.error:
                self._fail(worker, report.error, died=False)
            else:
                self.chunks.end(worker, [self._chunk(part) for part in report.parts])
                self.running.pop(worker, None)

    def _poll(self, worker: RemoteWorker) -> None:
        worker.call("poll", max(REPORT_SECONDS, len(self.pool.workers) / REPORTS_PER_SECOND))

    def _chunk(self, part: FleetPart) -> Chunk:
        return Chunk(tuple(self.numbers[training] for training in part.trainings), part.state)

    def _store(self, worker: RemoteWorker, report: Report) -> None:
        self.epochs += report.epochs
        self.running[worker] = report.running
        for result in report.results:
            self.on_result(result)
            self.chunks.finish(worker, self.numbers[result.training])

    def _fail(self, worker: RemoteWorker, reason: str, *, died: bool) -> None:
        self.running.pop(worker, None)
        self.nodes_known = False
        # A machine that has left says nothing about its trainings.
        left = died and worker.node not in {node["NodeID"] for node in alive(ray.nodes())}
        for number in self.chunks.fail(worker, blame=not left, node=worker.node):
            self.on_result(FailedTraining(self.trainings[number], reason))

    def _progress(self) -> Progress:
        total, left = len(self.trainings), self.chunks.unfinished
        passed = max(time.monotonic() - self.start, 1e-9)
        eta = passed / (total - left) * left if left < total else None
        return Progress(
            sum(self.running.values()), total - left, total, self.epochs, self.epochs / passed, eta
        )
