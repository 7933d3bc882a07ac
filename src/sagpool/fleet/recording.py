"""Passes through a model recorded as CUDA graphs and replayed.

A pass is some hundred small operations, which the host would otherwise launch one by one.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sagpool.fleet.order import DeviceBatches, Padded
from sagpool.fleet.profile import Profile
from sagpool.graphs import Graphs
from sagpool.nn.pool import pools_of
from sagpool.ops.device import kernels_for

log = logging.getLogger("sagpool")

# A recording has spare rows and entries, so that it fits most later batches: padding takes less
# time than another recording. The fewer rows all members have together, the less time it takes.
SPARE = ((2**15, 2.5), (2**17, 1.4), (2**62, 1.05))  # up to so many rows, this multiple
# A recording that is larger than this multiple of a batch with many rows is not worth replaying.
MAX_SPARE = 1.2
FEW_ROWS = 2**19
MOST = 24  # recordings

# Computes something from one batch after another.
Pass = Callable[[Sequence[Padded]], None]


def can_record(model: nn.Module) -> bool:
    """Whether all pooling layers can be part of a recording."""
    dtype = next(model.parameters()).dtype
    return all(pool.can_record(dtype) for pool in pools_of(model))


class _Size(NamedTuple):
    """Of the batches of a recording; see `DeviceBatches`."""

    shapes: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]
    entries: tuple[int, ...]
    limits: tuple[int | None, ...]  # largest k of each pooling layer, None without a k

    @property
    def total_rows(self) -> int:
        return sum(
            rows * members for rows, (members, _) in zip(self.rows, self.shapes, strict=True)
        )

    def fits(self, needed: "_Size") -> bool:
        """Whether the padding is enough, and not too much."""
        return (
            self.shapes == needed.shapes
            and self.limits == needed.limits
            and all(a >= b for a, b in zip(self.rows, needed.rows, strict=True))
            and all(a >= b for a, b in zip(self.entries, needed.entries, strict=True))
            and (
                self.total_rows <= FEW_ROWS * len(self.shapes)
                or self.total_rows <= MAX_SPARE * needed.total_rows
            )
        )

    def with_spare(self) -> "_Size":
        """Larger, and the same for all batches of one shape."""
        rows, entries = [], []
        for shape in self.shapes:
            same = [place for place, other in enumerate(self.shapes) if other == shape]
            most = max(self.rows[place] for place in same)
            factor = next(factor for limit, factor in SPARE if shape[0] * most <= limit)
            rows.append(_rounded(factor * most))
            entries.append(_rounded(factor * max(self.entries[place] for place in same)))
        return self._replace(rows=tuple(rows), entries=tuple(entries))


def _rounded(count: float) -> int:
    return -(-int(count) // 64) * 64


class _Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    flat: Tensor
    size: _Size


class _Threads:
    """Those that record at the moment. The allocator's cache is emptied while none does."""

    def __init__(self) -> None:
        self.count, self.changed = 0, threading.Condition()

    @contextmanager
    def recording(self) -> Iterator[None]:
        with self.changed:
            self.count += 1
        try:
            yield
        finally:
            with self.changed:
                self.count -= 1
                self.changed.notify_all()

    @contextmanager
    def none_recording(self) -> Iterator[None]:
        with self.changed:
            self.changed.wait_for(lambda: not self.count)
            yield


_THREADS = _Threads()


def free_cached_memory() -> None:
    """Give unused memory back to the GPU."""
    with _THREADS.none_recording():
        torch.cuda.empty_cache()


class RecordingMemory:
    """The memory that all recordings of a fleet use, since only one of them runs at a time.

    It outlives them, so the recordings of a smaller fleet use that of the larger one before.
    """

    def __init__(self) -> None:
        self._pool: Any = None
        # Memory lives as long as a recording that uses it, so one is always there.
        self._keeper: torch.cuda.CUDAGraph | None = None
        self.known: set[str] = set()  # kinds of passes whose kernels are there

    def record(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """The step as a graph of the current stream.

        Not with ``torch.cuda.graph``, which waits for the whole device and empties the cache of
        the allocator: other fleets train at the same time.
        """
        with _THREADS.recording():
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
                number = torch.zeros(1, device="cuda")
                self._keeper = _captured(self._pool, number.zero_)
            return _captured(self._pool, step)

    def forget(self) -> None:
        """Free it; there must be no recording."""
        self._pool = self._keeper = None
        free_cached_memory()


def _captured(pool: Any, step: Callable[[], object]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.current_stream()
    if stream == torch.cuda.default_stream():  # which cannot be captured, but can replay
        stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            step()
        except BaseException:
            with suppress(RuntimeError):  # the capture is invalid; returns the stream to normal
                graph.capture_end()
            raise
        graph.capture_end()
    return graph


class Recorder:
    """Runs a pass for one batch after another; replays a recording if one fits.

    Holds no reference to the pass: a reference cycle would keep CUDA memory until garbage
    collection.

    Args:
        model: whose pooling layers may have a k that changes between epochs
        graphs: on a device with kernels
        memory: for the recordings
        profile: where the time is noted
        kind: of the time that replays take
    """

    def __init__(
        self,
        model: nn.Module,
        graphs: Graphs,
        memory: RecordingMemory,
        profile: Profile,
        kind: str = "steps",
    ) -> None:
        self.graphs, self.profile, self.kind = graphs, profile, kind
        self.pools = pools_of(model)
        self.recordings: list[_Recording] = []
        self.memory = memory  # after the recordings, which have to be freed before it
        self.records = torch.cuda.is_available() and graphs.device.type == "cuda"

    @staticmethod
    def works_for(model: nn.Module, graphs: Graphs) -> bool:
        return kernels_for(graphs.col) is not None and can_record(model)

    def __call__(self, step: Pass, batches: DeviceBatches) -> None:
        """Run the step, which is the same function in every call."""
        limits = tuple(pool.max_rows() for pool in self.pools)
        needed = _Size(batches.shapes, batches.rows, batches.entries, limits)
        fitting = [one for one in self.recordings if one.size.fits(needed)]
        if fitting:
            tightest = min(fitting, key=lambda recording: recording.size.total_rows)
            with self.profile.spent(self.kind):
                tightest.flat.copy_(batches.flat)
                tightest.graph.replay()
            return
        with self.profile.spent("recording"):
            self._run_and_record(step, batches.flat.clone(), needed.with_spare())

    def _run_and_record(self, step: Pass, flat: Tensor, size: _Size) -> None:
        padded = DeviceBatches(flat, size.shapes, size.rows, size.entries).padded()
        # The first pass of its kind compiles kernels, which a recording should not.
        if self.records and self.kind in self.memory.known and len(self.recordings) < MOST:
            graph = self._recorded(partial(step, padded))
            if graph is not None:
                self.recordings.append(_Recording(graph, flat, size))
                graph.replay()
                return
        step(padded)
        self.memory.known.add(self.kind)

    def _recorded(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """None if that is not possible."""
        problem = ""
        for _ in range(2):
            try:
                return self.memory.record(step)
            except RuntimeError as error:
                # Out of memory, or a layer of a plugin waits for the device.
                short = any(
                    isinstance(e, torch.OutOfMemoryError) for e in (error, error.__context__)
                )
                problem = str(error)
            # Outside the handler, which holds references to the memory. A larger recording does
            # not fit into the gaps that smaller ones left.
            if not short:
                break
            self.recordings = []
            self.memory.forget()
        log.warning("Steps are not recorded, so training is slower: %s", problem)
        self.records = False
        return None
