"""`Lane`: the thread in which one fleet trains."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import torch

from sagpool.fleet.fleet import Fleet
from sagpool.fleet.memory import (
    KnownShape,
    MemoryShortageError,
    choose_fleet_size,
    out_of_memory_suppressed,
)
from sagpool.fleet.profile import Profile
from sagpool.fleet.recording import RecordingMemory, free_cached_memory
from sagpool.fleet.schedule import Slots
from sagpool.fleet.training import Outcome
from sagpool.fleet.work import FleetOfWork
from sagpool.ops.device import wait_for_stream

T = TypeVar("T")

# A fleet gets at most this fraction (1 / GPU_SHARES) of the memory of a GPU.
GPU_SHARES = 4
SCARCE = 0.15  # fraction of the memory
REPORT_SECONDS = 0.1  # least time between two reports of a fleet on a GPU


@dataclass(frozen=True, eq=False)
class Epoch:
    """A fleet has trained for one or more epochs."""

    fleet: FleetOfWork
    count: int  # epochs since the last report, summed over all members
    running: np.ndarray  # numbers of the trainings that continue
    epochs: np.ndarray  # epochs that each running training has had so far
    seconds: float  # duration of one epoch
    outcomes: Mapping[int, Outcome]


@dataclass(frozen=True, eq=False)
class Saved:
    """The state of a fleet has been saved for a checkpoint."""

    fleet: FleetOfWork


@dataclass(frozen=True, eq=False)
class Ended:
    """A fleet trains no longer: it is done, was stopped, or raised an error."""

    fleet: FleetOfWork
    error: BaseException | None


class StoppedError(Exception):
    """Raised inside an epoch to stop a fleet; the epoch is undone."""


class GpuMemory:
    """The memory of a GPU. Fleets reserve memory, and wait until it is free."""

    def __init__(self, total: float) -> None:
        self.total = self.free = total
        self.changed = threading.Condition()

    @contextmanager
    def reserving(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that reserves bytes until the end of the block."""
        reserved = 0.0

        def reserve(count: int) -> None:
            nonlocal reserved
            wanted = min(count, self.total)
            with self.changed:
                self.changed.wait_for(lambda: self.free >= wanted)
                self.free -= wanted
                reserved = wanted

        try:
            yield reserve
        finally:
            with self.changed:
                self.free += reserved
                self.changed.notify_all()


@dataclass(eq=False)
class Crew:
    """State that all lanes share."""

    device: torch.device
    threads: int  # number of torch threads on a CPU
    memory: GpuMemory
    profile: Profile
    events: queue.SimpleQueue[Epoch | Saved | Ended] = field(default_factory=queue.SimpleQueue)
    stopping: threading.Event = field(default_factory=threading.Event)
    lanes: dict[FleetOfWork, threading.Thread] = field(default_factory=dict)
    # Unused streams, by priority. Torch caches memory per stream, which the next lane reuses.
    free_streams: dict[int, list[torch.cuda.Stream]] = field(default_factory=dict)
    shapes: dict[Hashable, KnownShape] = field(default_factory=dict)

    @property
    def on_cpu(self) -> bool:
        return self.device.type == "cpu"

    def known_shape(self, task: FleetOfWork) -> KnownShape:
        """What is known of fleets of the same shape."""
        return self.shapes.setdefault(task.shape, KnownShape())

    def share(self) -> float:
        """The fraction of the device that each fleet has."""
        return 1 / max(1, len(self.lanes))

    def raise_if_stopping(self) -> None:
        if self.stopping.is_set():
            raise StoppedError

    @contextmanager
    def stream(self, priority: int) -> Iterator[torch.cuda.Stream]:
        """A stream that no other lane uses in the meantime."""
        free = self.free_streams.setdefault(priority, [])
        stream = free.pop() if free else torch.cuda.Stream(self.device, priority=priority)
        try:
            yield stream
        finally:
            wait_for_stream(stream)
            free.append(stream)

    def free_memory_if_scarce(self) -> None:
        """Free the memory of ended fleets, which torch keeps while a step is recorded.

        This stalls all fleets until the device has finished its queue, so it is done late.
        """
        free, total = torch.cuda.mem_get_info(self.device)
        if free < SCARCE * total:
            free_cached_memory()


@dataclass(eq=False)
class Lane:
    """Trains a fleet, on a GPU in a stream of its own."""

    task: FleetOfWork
    crew: Crew

    def run(self) -> None:
        """Train the fleet until all of its trainings have an outcome; runs in its own thread."""
        task, crew = self.task, self.crew
        error: BaseException | None = None
        try:
            with self._on_own_stream(), crew.memory.reserving() as reserve:
                fleet = task.fleet = self._build(reserve)
                while fleet.slots.active.any():
                    self._train_epoch(fleet)
        except StoppedError:
            pass
        except BaseException as raised:
            error = raised
        crew.events.put(Ended(task, error))

    @contextmanager
    def _on_own_stream(self) -> Iterator[None]:
        task, crew = self.task, self.crew
        if crew.on_cpu:
            # With more threads for a fleet, the parts of small operations would mostly wait.
            torch.set_num_threads(max(1, crew.threads // len(task.work.fleets)))
            yield
            return
        # Otherwise all backward passes would run in one thread.
        with (
            torch.autograd.set_multithreading_enabled(False),
            torch.cuda.device(crew.device),
            crew.stream(task.priority) as stream,
            torch.cuda.stream(stream),
        ):
            # Every thread needs its own handle, which cannot be created while recording.
            torch.zeros(1, device=crew.device)
            torch.cuda.current_blas_handle()
            crew.free_memory_if_scarce()
            yield

    def _build(self, reserve: Callable[[int], None]) -> Fleet:
        """The fleet, with as many of its slots as fit into memory."""
        task, crew = self.task, self.crew
        work, slots = task.work, task.slots.copy()
        known = crew.known_shape(task)
        begun = len(slots.running)
        size = choose_fleet_size(
            work.graphs,
            task.trainings,
            work.dtype,
            begun or task.share,
            crew.threads if crew.on_cpu else GPU_SHARES,
            known,
        )
        if not begun:
            slots = Slots.fill(slots.waiting, size.members)
        slots.release(~slots.active)  # in case the saved run ended during a refill
        reserve(size.bytes)
        while True:
            crew.raise_if_stopping()
            with out_of_memory_suppressed():
                return Fleet(
                    work.graphs,
                    work.trainings,
                    slots,
                    work.dtype,
                    task.members,
                    work.keep_weights,
                    size.parts,
                    work.until,
                    crew.profile,
                    crew.share,
                    work.keep_predictions,
                    RecordingMemory(known.passes),
                )
            if len(slots.running) == 1:
                raise MemoryShortageError(crew.device)
            slots.halve()

    def _train_epoch(self, fleet: Fleet) -> None:
        task, begin = self.task, time.perf_counter()
        before = fleet.epochs_trained
        outcomes: Mapping[int, Outcome] | None = {}
        try:
            outcomes = self._run_or_shrink(
                fleet, partial(fleet.advance, self.crew.raise_if_stopping)
            )
            task.unreported += fleet.epochs_trained - before
            self._run_or_shrink(fleet, fleet.refill)
        except StoppedError:
            with out_of_memory_suppressed():
                outcomes = fleet.evaluate()
            raise
        finally:
            # Report outcomes even after an error, so that none is lost.
            self._report(fleet, outcomes or {}, time.perf_counter() - begin)
        self.crew.known_shape(task).has_trained = True
        if task.wanted:
            if late := self._run_or_shrink(fleet, fleet.evaluate):
                self._report(fleet, late, 0.0)
            task.take_down()
            task.wanted = False
            self._send(Saved(task))

    def _report(self, fleet: Fleet, outcomes: Mapping[int, Outcome], seconds: float) -> None:
        task = self.task
        now, active, epoch = time.perf_counter(), fleet.slots.active, fleet.state.stopping.epoch
        if len(epoch) != len(active):  # not even the smallest fleet could be built
            epoch, active = epoch[:0], active[:0]
        # Short epochs are reported together.
        if outcomes or self.crew.on_cpu or now - task.reported_at >= REPORT_SECONDS:
            count, task.unreported, task.reported_at = task.unreported, 0, now
            running = fleet.slots.running[: len(active)][active]
            self._send(Epoch(task, count, running, epoch[active], seconds, outcomes))

    def _send(self, event: Epoch | Saved) -> None:
        """Report to the scheduler. On a CPU, wait for it, so that no fleet gets ahead of the
        callbacks; on a GPU that would take longer than an epoch.
        """
        event.fleet.handled.clear()
        self.crew.events.put(event)
        if self.crew.on_cpu and not self.crew.stopping.is_set():
            event.fleet.handled.wait()

    def _run_or_shrink(self, fleet: Fleet, action: Callable[[], T]) -> T | None:
        """The result of the action; None if memory ran out, and then the fleet is smaller."""
        for _ in range(1 if self.crew.on_cpu else 2):
            with out_of_memory_suppressed():
                return action()
            if not self.crew.on_cpu:
                free_cached_memory()  # torch does not do so while a step is recorded
        self._run_or_shrink(fleet, fleet.shrink)
        return None
