"""Fleets in the processes of a Ray cluster."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import ray
import torch

from sagpool.bench.engines.chunks import Chunk, Chunks
from sagpool.bench.engines.cluster import alive, choose_needs, describe, slots
from sagpool.bench.engines.engine import Failed, Job, Outcome
from sagpool.bench.engines.pool import Answer, Pool, Remote
from sagpool.bench.engines.worker import Report, Task
from sagpool.bench.precision import precision_on
from sagpool.fleet import Progress, train
from sagpool.fleet.interrupt import interrupt_held_back
from sagpool.fleet.schedule import group_by_shape
from sagpool.graphs import Graphs

log = logging.getLogger("sagpool")

REPORT_SECONDS = 0.25  # between two reports of a worker
REPORTS_PER_SECOND = 500  # of all workers together: with many of them, each reports less often
LOOK_SECONDS = 1.0  # between two looks at the machines that there are
WORRY_SECONDS = 30.0  # without a worker
LAST_SECONDS = 5.0  # for the last rows to arrive, after Ctrl-C


class Ray:
    """Trains in the cluster that this process is part of; see `connected`.

    Args:
        device: ``cpu``, ``cuda``, or ``auto``: the GPUs, if the cluster has any
        members: how many side by side in each worker at the most; by default as many as fit
        train: what a worker calls
        split_seconds: how long a chunk is left in peace before idle workers get a part of it
    """

    def __init__(
        self,
        device: str = "auto",
        members: int | None = None,
        train: Callable[..., object] = train,
        split_seconds: float = 15.0,
    ) -> None:
        self.members, self.split_seconds = members, split_seconds
        self.needs = choose_needs(device, ray.nodes())
        self.pool = Pool(self.needs, train)
        self.data: dict[Graphs, Any] = {}  # what is in the object store

    @property
    def device(self) -> str:
        return describe(ray.nodes(), self.needs)

    def run(
        self,
        job: Job,
        on_result: Callable[[Outcome], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        # Told now: the workers would say so too, of one training after the other.
        precision_on(job.precision, torch.device(self.needs.device))
        if job.graphs not in self.data:
            self.data[job.graphs] = ray.put(job.graphs)
        drive = _Drive(self, job, on_result, on_progress)
        with interrupt_held_back() as raise_if_interrupted:
            try:
                while drive.step():
                    raise_if_interrupted()
            except KeyboardInterrupt:
                drive.last_rows()
                raise
            finally:
                for worker in drive.busy:
                    self.pool.drop(worker)


class _Drive:
    """One job, from the first training to the last."""

    def __init__(
        self,
        engine: Ray,
        job: Job,
        on_result: Callable[[Outcome], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.engine, self.pool, self.job = engine, engine.pool, job
        self.on_result, self.on_progress = on_result, on_progress
        wanted = [training for training in job.trainings if training not in job.done]
        self.trainings = list(dict.fromkeys(wanted))
        self.numbers = {training: number for number, training in enumerate(self.trainings)}
        self.chunks = Chunks(group_by_shape(job.graphs, self.trainings))
        self.running: dict[Remote, int] = {}
        self.epochs, self.start = 0, time.monotonic()
        self.looked, self.nodes, self.alone_since = 0.0, set[str](), self.start

    @property
    def busy(self) -> list[Remote]:
        """Those with work of this job; others may still be starting."""
        return [worker for worker in self.pool.workers if worker in self.chunks.given]

    def step(self) -> bool:
        """Give out work and take in what has come, once; whether there is more to do."""
        if not self.chunks.unfinished and not self.busy:
            return False
        self._look()
        self._give()
        told = False
        for answer in self.pool.answers(REPORT_SECONDS):
            self._take(answer)
            told = True
        if told:
            self.on_progress(self._progress())
        return True

    def last_rows(self) -> None:
        """Take in what the workers have sent already, and nothing more."""
        asked = [w.answer for w in self.busy if w.asked == "poll"]
        ray.wait(asked, num_returns=len(asked), timeout=LAST_SECONDS) if asked else None
        for answer in self.pool.answers(0):
            if answer.asked == "poll" and not answer.error:
                self._rows(answer.worker, answer.value)

    def _look(self) -> None:
        """Machines come and go: have as many workers as they can hold, and there is work for."""
        now = time.monotonic()
        if self.nodes and now - self.looked < LOOK_SECONDS:
            return
        nodes = ray.nodes()
        self.looked, self.nodes = now, {node["NodeID"] for node in alive(nodes)}
        room = slots(nodes, self.engine.needs)
        self.pool.fill(min(room, self.chunks.unfinished), room)
        self._worry(now)

    def _worry(self, now: float) -> None:
        """Tell the person, once, that nothing happens and why."""
        if self.pool.places:
            self.alone_since = now
        elif now - self.alone_since >= WORRY_SECONDS:
            log.warning("All machines of the Ray cluster are taken or gone; waiting for one.")
            self.alone_since = math.inf

    def _give(self) -> None:
        idle = self.pool.idle
        for worker in idle:
            chunk = self.chunks.offer(
                worker, len(self.pool.workers), time.monotonic(), worker.node, self.pool.places
            )
            if chunk is None:
                self._split(len(idle))
                return
            worker.ask("begin", [self.engine.data[self.job.graphs]], self._task(chunk))

    def _split(self, idle: int) -> None:
        straggler = self.chunks.straggler(time.monotonic(), self.engine.split_seconds)
        if straggler is not None:
            assert isinstance(straggler, Remote)
            straggler.actor.split.remote(idle + 1)

    def _task(self, chunk: Chunk) -> Task:
        trainings = tuple(self.trainings[number] for number in chunk.numbers)
        keeps = frozenset(training for training in trainings if self.job.keeps(training))
        return Task(trainings, keeps, self.job.precision, self.engine.members, chunk.state)

    def _take(self, answer: Answer) -> None:
        worker = answer.worker
        if answer.error:
            self._fail(worker, answer.error, died=answer.died)
        elif answer.asked == "begin":
            self.chunks.take(worker, answer.value)
            self._poll(worker)
        else:
            report: Report = answer.value
            self._rows(worker, report)
            if not report.ended:
                self._poll(worker)
            elif report.error:
                self._fail(worker, report.error, died=False)
            else:
                self.chunks.end(worker, [self._chunk(p.trainings, p.state) for p in report.pieces])
                self.running.pop(worker, None)

    def _poll(self, worker: Remote) -> None:
        worker.ask("poll", max(REPORT_SECONDS, len(self.pool.workers) / REPORTS_PER_SECOND))

    def _chunk(self, trainings: Any, state: bytes) -> Chunk:
        return Chunk(tuple(self.numbers[training] for training in trainings), state)

    def _rows(self, worker: Remote, report: Report) -> None:
        self.epochs += report.epochs
        self.running[worker] = report.running
        for result in report.results:
            self.on_result(result)
            self.chunks.finish(worker, self.numbers[result.training])

    def _fail(self, worker: Remote, reason: str, *, died: bool) -> None:
        self.running.pop(worker, None)
        self.nodes = set()  # look at once
        # A machine that is gone says nothing about the trainings that it had.
        gone = died and worker.node not in {node["NodeID"] for node in alive(ray.nodes())}
        for number in self.chunks.fail(worker, blame=not gone, place=worker.node):
            self.on_result(Failed(self.trainings[number], reason))

    def _progress(self) -> Progress:
        total, left = len(self.trainings), self.chunks.unfinished
        passed = max(time.monotonic() - self.start, 1e-9)
        eta = passed / (total - left) * left if left < total else None
        return Progress(
            sum(self.running.values()), total - left, total, self.epochs, self.epochs / passed, eta
        )
