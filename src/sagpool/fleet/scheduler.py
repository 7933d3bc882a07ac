"""`Scheduler`: fleets of different shapes and data sets, side by side on one device."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.interrupt import interrupt_held_back
from sagpool.fleet.lane import Crew, Ended, Epoch, GpuMemory, Lane, Saved
from sagpool.fleet.memory import MemoryShortageError, planned_memory
from sagpool.fleet.profile import Profile
from sagpool.fleet.work import FleetOfWork, Work
from sagpool.graphs import Graphs
from sagpool.ops.device import wait_for_stream

log = logging.getLogger("sagpool")

# Fleets that train at the same time on a GPU, if there is memory for them: the tail of one, whose
# steps are small, overlaps with the bulk of others.
GPU_FLEETS = 16
# Fleets that may compile their kernels at the same time, so that the first ones train soon.
COMPILING = 3
HIGHEST_PRIORITY = -3  # highest priority of a CUDA stream in torch
SWITCH_SECONDS = 0.0001
WAIT_SECONDS = 0.05  # timeout of waiting for an event, before checking for Ctrl-C
# Checkpoints take at most this fraction of the time.
CHECKPOINT_PART = 0.02


class Scheduler:
    """Runs works. Every fleet trains in a thread of its own, and on a GPU in a stream of its own.

    Fleets wait in one queue, the longest first, and start as soon as there is a free processor
    (on a GPU: enough memory). Members of a fleet depend on nothing outside of it, so the order
    affects only the time.

    Args:
        device: where to train
        checkpoint_seconds: time between two checkpoints of a work
        profile: collects where the time goes
    """

    def __init__(
        self,
        device: torch.device,
        checkpoint_seconds: float = 60.0,
        profile: Profile | None = None,
    ) -> None:
        self.checkpoint_seconds, threads = checkpoint_seconds, torch.get_num_threads()
        self.on_cpu = device.type == "cpu"
        memory = GpuMemory(0 if self.on_cpu else planned_memory(device))
        self.crew = Crew(device, threads, memory, profile or Profile(device))
        self.running, self.events = self.crew.lanes, self.crew.events
        self.limit = self.most = threads if self.on_cpu else GPU_FLEETS
        self.waiting: list[tuple[float, int, FleetOfWork]] = []
        self.numbers = itertools.count()
        self.works: list[Work] = []
        self.saved_at: dict[Work, float] = {}
        # By the id of the given object, which is kept alive so that its id is not reused.
        self.data: dict[int, tuple[Graphs, Graphs]] = {}

    def run(self, works: Iterable[Work]) -> None:
        """Train all works, and the works that their ``on_end`` returns.

        On Ctrl-C, or an error in a callback or a fleet, all fleets stop at the end of their last
        complete epoch, and their state is saved.
        """
        with interrupt_held_back() as raise_if_interrupted, _frequent_thread_switches():
            try:
                for work in works:
                    self._add(work)
                while self.works:
                    raise_if_interrupted()
                    self._start()
                    self._handle()
            finally:
                self._stop()

    def _add(self, work: Work) -> None:
        source = work.graphs
        if id(source) not in self.data:
            self.data[id(source)] = source, source.to(self.crew.device)
        work.graphs = self.data[id(source)][1]
        _compute_shared_values(work)
        work.prepare(self.crew.threads if self.on_cpu else 1)
        self.works.append(work)
        self.saved_at[work] = time.monotonic()
        for fleet in work.fleets:
            self._queue(fleet)
        self._end_if_done(work)

    def _queue(self, fleet: FleetOfWork) -> None:
        # On a CPU each fleet has one processor, so its time is the sum over its trainings.
        length = fleet.cost if self.on_cpu else fleet.duration
        heapq.heappush(self.waiting, (-length, next(self.numbers), fleet))

    def _start(self) -> None:
        while self.waiting and len(self.running) < self.most:
            if not self.on_cpu and self._compiling() >= COMPILING:
                return
            fleet = heapq.heappop(self.waiting)[-1]
            fleet.priority = self._priority(fleet)
            thread = threading.Thread(target=Lane(fleet, self.crew).run, daemon=True)
            self.running[fleet] = thread
            thread.start()

    def _compiling(self) -> int:
        """Number of fleets of a shape that has not trained yet."""
        return sum(not self.crew.known_shape(fleet).has_trained for fleet in self.running)

    def _priority(self, fleet: FleetOfWork) -> int:
        """The longest fleets go first, so that the others do not wait for them in the end."""
        others = [*self.running, *(entry[-1] for entry in self.waiting)]
        longer = {other.duration for other in others if other.duration > fleet.duration}
        return min(0, HIGHEST_PRIORITY + len(longer))

    def _handle(self) -> None:
        """Wait a moment for an event, and handle it.

        Handles only one event: with slow callbacks there is always another, and Ctrl-C would wait.
        """
        try:
            event = self.events.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            return
        self._handle_one(event)
        self._save_from_time_to_time()
        event.fleet.handled.set()

    def _handle_one(self, event: Epoch | Saved | Ended) -> None:
        work = event.fleet.work
        if isinstance(event, Ended):
            self._after(event.fleet, event.error)
        elif isinstance(event, Saved):
            self._save_if_complete(work)
        else:
            work.add(event.outcomes)
            work.watch.count(event.fleet, event.count, event.running, event.epochs, event.seconds)
            for outcome in event.outcomes.values():
                work.on_result(outcome)
            work.on_progress(work.watch.progress())

    def _after(self, task: FleetOfWork, error: BaseException | None) -> None:
        """Handle the end of a fleet."""
        self.running.pop(task).join()
        if not _save_state(task) and error is None:
            error = SagpoolError("The state of a fleet cannot be read from the device.")
        task.fleet, task.wanted = None, False
        work = task.work
        work.watch.fleets.pop(task, None)
        if self.saved_at[work] == float("inf"):
            # The states of its other fleets may have been saved already.
            self._save_if_complete(work)
        if isinstance(error, MemoryShortageError) and work in self.works:
            if self.running:
                # Other fleets use the memory; this one continues when they are done.
                self.most = max(1, len(self.running))
                task.slots = task.saved_slots.without(work.saved.results)
                self._queue(task)
            else:
                self._give_up(work, error)
            return
        if error is not None:
            raise error
        self._end_if_done(work)

    def _end_if_done(self, work: Work) -> None:
        if work.left or work not in self.works:
            return
        if work.keep_checkpoint:
            work.save()
        self.works.remove(work)
        self.most = self.limit  # the remaining fleets may need less memory
        for following in work.on_end(None):
            self._add(following)

    def _give_up(self, work: Work, error: MemoryShortageError) -> None:
        work.save()
        self.works.remove(work)
        self.waiting = [entry for entry in self.waiting if entry[-1].work is not work]
        heapq.heapify(self.waiting)
        for following in work.on_end(error):
            self._add(following)

    def _save_from_time_to_time(self) -> None:
        """Ask the fleets of a work for their states, at the end of their epochs."""
        for work in self.works:
            if (
                work.checkpoint
                and time.monotonic() >= self.saved_at[work] + self.checkpoint_seconds
            ):
                self.saved_at[work] = float("inf")
                for fleet in work.fleets:
                    # Fleets that wait for memory have no new state.
                    fleet.wanted = fleet in self.running and fleet.fleet is not None
                self._save_if_complete(work)

    def _save_if_complete(self, work: Work) -> None:
        if any(fleet.wanted for fleet in work.fleets) or work not in self.works:
            return
        begin = time.monotonic()
        work.save()
        end = time.monotonic()
        # Large checkpoints are written less often; with 0 seconds, after each epoch in any case.
        wait = (end - begin) / CHECKPOINT_PART - self.checkpoint_seconds
        self.saved_at[work] = end + max(0.0, wait) * bool(self.checkpoint_seconds)

    def _stop(self) -> None:
        """Stop all fleets, and save their states."""
        if not self.running and not self.works:
            self._restore_threads()
            return
        self.crew.stopping.set()
        for fleet in self.running:
            fleet.handled.set()
        for thread in self.running.values():
            thread.join()
        while not self.events.empty():
            event = self.events.get()
            if isinstance(event, Epoch):
                # Add all outcomes, even if a callback has failed
                event.fleet.work.add(event.outcomes)
        for fleet in self.running:
            _save_state(fleet)
        self._restore_threads()
        failures = [error for work in self.works if (error := _failure(work.save)) is not None]
        if failures:
            raise failures[0]

    def _restore_threads(self) -> None:
        torch.set_num_threads(self.crew.threads)  # BLAS has one setting for all threads


def _save_state(fleet: FleetOfWork) -> bool:
    """Read the state of the fleet; False if that fails, for example after a device error."""
    error = _failure(fleet.take_down)
    if error is not None:
        log.warning("A fleet cannot be saved; it will resume from its last checkpoint: %s", error)
    return error is None


def _failure(action: Callable[[], None]) -> Exception | None:
    try:
        action()
    except Exception as error:
        return error
    return None


@contextmanager
def _frequent_thread_switches() -> Iterator[None]:
    """Switch threads more often: some only need a moment, to send a short command to the device."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _compute_shared_values(work: Work) -> None:
    """Compute lazy values now, before several threads and streams need them."""
    source = work.graphs.batch_source
    _ = source.row_ptr, source.starts, source.sizes
    source.propagated(work.dtype)
    if work.graphs.device.type == "cuda":  # not of the device: other fleets may be recording
        wait_for_stream(torch.cuda.current_stream(work.graphs.device))
