"""The engine that trains in the processes of a Ray cluster."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import ray
import torch

from sagpool.bench.engines.chunks import Chunk, Chunks
from sagpool.bench.engines.cluster import alive, choose_resources, describe, slots
from sagpool.bench.engines.engine import FailedTraining, Job, Watcher
from sagpool.bench.engines.pool import Answer, RemoteWorker, WorkerPool
from sagpool.bench.engines.running_job import RunningJob, States
from sagpool.bench.engines.suspended import FleetPart
from sagpool.bench.engines.worker import Report, Task
from sagpool.bench.precision import precision_on
from sagpool.errors import SagpoolError
from sagpool.fleet.interrupt import interrupt_held_back
from sagpool.fleet.train import train_until
from sagpool.graphs import Graphs
from sagpool.models import method_version

log = logging.getLogger("sagpool")

REPORT_SECONDS = 0.25  # time between two reports of a worker
REPORTS_PER_SECOND = 500  # of all workers together: with many workers, each reports less often
NODES_SECONDS = 1.0  # time between two checks of the machines in the cluster
WARN_SECONDS = 30.0  # time without a worker before a warning
# Jobs are taken when fewer trainings than this wait for each worker: four fleets on a GPU. So the
# driver never holds all trainings, or the states of all paused ones, of a large experiment.
AHEAD = 2000
LAST_SECONDS = 5.0  # time to wait for the last rows after Ctrl-C


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
        train: Callable[..., object] = train_until,
        split_seconds: float = 15.0,
    ) -> None:
        self.members, self.split_seconds = members, split_seconds
        self.resources = choose_resources(device, ray.nodes())
        self.pool = WorkerPool(self.resources, train)
        self.data: dict[Graphs, Any] = {}  # references to graphs in Ray's object store

    @property
    def device(self) -> str:
        return describe(ray.nodes(), self.resources)

    def run(self, jobs: Iterable[Job], watcher: Watcher) -> None:
        run = _Run(self, jobs, watcher)
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


class _Run:
    """All jobs of a call of `Ray.run`, and their follow-up jobs."""

    def __init__(self, engine: Ray, jobs: Iterable[Job], watcher: Watcher) -> None:
        self.engine, self.pool, self.watcher = engine, engine.pool, watcher
        self.next_jobs, self.job_numbers = iter(jobs), count()
        self.jobs: dict[int, RunningJob] = {}
        self.chunks = Chunks()
        self.nodes_known, self.nodes_at, self.without_since = False, 0.0, time.monotonic()

    @property
    def busy(self) -> list[RemoteWorker]:
        """Workers with a chunk; the others may still be starting."""
        return [worker for worker in self.pool.workers if worker in self.chunks.assigned]

    def step(self) -> bool:
        """Hand out work and collect answers, once; returns whether there is more to do."""
        while self._end_jobs() or self._take_job():
            pass
        if not self.jobs:
            return False
        self._adjust_workers()
        self._hand_out()
        answered: set[int] = set()
        for answer in self.pool.answers(REPORT_SECONDS):
            answered.add(self.chunks.assigned[answer.worker].chunk.job)
            self._handle(answer)
        for number in sorted(answered):
            running = self.jobs[number]
            progress = running.progress(self.chunks.unfinished[number])
            self.watcher.progress(running.job, progress)
        return True

    def collect_last_rows(self) -> None:
        """Store the rows that workers have already sent."""
        polled = [worker.answer for worker in self.busy if worker.pending == "poll"]
        if polled:
            ray.wait(polled, num_returns=len(polled), timeout=LAST_SECONDS)
        for answer in self.pool.answers(0):
            if answer.called == "poll" and not answer.error:
                self._store(answer.worker, answer.value)

    def _end_jobs(self) -> bool:
        """End finished jobs and queue their follow-up jobs; returns whether any has ended."""
        ended = self.chunks.remove_ended()
        for number in ended:
            running = self.jobs.pop(number)
            for job in self.watcher.ended(running.job, ""):
                self._add(job, running.paused)
        return bool(ended)

    def _take_job(self) -> bool:
        """Queue the next job if few trainings wait; returns whether there was one."""
        if self.chunks.waiting >= AHEAD * max(1, len(self.pool.workers)):
            return False
        for job in self.next_jobs:
            self._add(job, {})
            return True
        return False

    def _add(self, job: Job, paused: States) -> None:
        # Checked here: a worker would report it for each training separately.
        precision_on(job.precision, torch.device(self.engine.resources.device))
        if job.graphs not in self.engine.data:
            self.engine.data[job.graphs] = ray.put(job.graphs)
        number, running = next(self.job_numbers), RunningJob(job, paused)
        self.jobs[number] = running
        self.chunks.add(number, running.groups())

    def _adjust_workers(self) -> None:
        """Machines join and leave: keep as many workers as fit and have work."""
        now = time.monotonic()
        if self.nodes_known and now - self.nodes_at < NODES_SECONDS:
            return
        self.nodes_known, self.nodes_at = True, now
        capacity = slots(ray.nodes(), self.engine.resources)
        self.pool.fill(min(capacity, sum(self.chunks.unfinished.values())), capacity)
        if self.pool.nodes:
            self.without_since = now
        elif now - self.without_since >= WARN_SECONDS:
            log.warning("All machines of the Ray cluster are busy or gone; waiting for one.")
            self.without_since = math.inf  # so that it warns once

    def _hand_out(self) -> None:
        for worker in self.pool.idle:
            chunk = self.chunks.offer(
                worker, len(self.pool.workers), time.monotonic(), worker.node, self.pool.nodes
            )
            if chunk is None:
                continue  # another worker may take the chunk that this worker must avoid
            running = self.jobs[chunk.job]
            if running.start is None:
                running.start = time.monotonic()
            graphs = self.engine.data[running.job.graphs]
            worker.call("begin", [graphs], self._task(worker, running, chunk))
        if idle := self.pool.idle:
            straggler = self.chunks.straggler(time.monotonic(), self.engine.split_seconds)
            if isinstance(straggler, RemoteWorker):
                straggler.actor.split.remote(len(idle) + 1)

    def _task(self, worker: RemoteWorker, running: RunningJob, chunk: Chunk) -> Task:
        job = running.job
        trainings = tuple(running.trainings[number] for number in chunk.numbers)
        method = trainings[0].method  # trainings of one shape have one method
        if worker.methods.get(method) != method_version(method):
            raise SagpoolError(
                f"The workers of the cluster lack the method '{method}' or have another version of "
                "it; put it into a file or module that all machines have, and load it as a plugin."
            )
        return Task(
            trainings,
            frozenset(training for training in trainings if job.keep_weights(training)),
            job.precision,
            self.engine.members,
            job.until,
            {one: running.begun[one] for one in trainings if one in running.begun},
        )

    def _job_of(self, worker: RemoteWorker) -> RunningJob:
        return self.jobs[self.chunks.assigned[worker].chunk.job]

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
                self._end(worker, report.parts)

    def _poll(self, worker: RemoteWorker) -> None:
        worker.call("poll", max(REPORT_SECONDS, len(self.pool.workers) / REPORTS_PER_SECOND))

    def _end(self, worker: RemoteWorker, parts: Sequence[FleetPart]) -> None:
        running = self._job_of(worker)
        running.running.pop(worker, None)
        for part in parts:
            running.go_on_from(part.states)
        numbers = [tuple(running.numbers[one] for one in part.trainings) for part in parts]
        self.chunks.end(worker, numbers)

    def _store(self, worker: RemoteWorker, report: Report) -> None:
        running = self._job_of(worker)
        running.epochs += report.epochs
        running.running[worker] = report.running
        for outcome in report.outcomes:
            self.watcher.outcome(running.job, outcome)
            running.finish(outcome)
            self.chunks.finish(worker, running.numbers[outcome.training])

    def _fail(self, worker: RemoteWorker, reason: str, *, died: bool) -> None:
        running = self._job_of(worker)
        running.running.pop(worker, None)
        self.nodes_known = False
        # If the machine has left, the trainings are not to blame.
        left = died and worker.node not in {node["NodeID"] for node in alive(ray.nodes())}
        for number in self.chunks.fail(worker, blame=not left, node=worker.node):
            failed = FailedTraining(running.trainings[number], reason)
            self.watcher.outcome(running.job, failed)
            running.finish(failed)
