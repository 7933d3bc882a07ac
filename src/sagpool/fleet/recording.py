"""Passes through a model recorded as CUDA graphs and replayed.

A pass is some hundred small operations, which the host would otherwise launch one by one.
"""

import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sagpool.errors import is_out_of_memory
from sagpool.fleet.order import DeviceBatches, Padded
from sagpool.fleet.profile import Profile
from sagpool.fleet.recorded_size import GraphSizes, RecordedSize
from sagpool.graphs import Graphs
from sagpool.nn.pool import pools_of
from sagpool.ops.device import kernels_for

log = logging.getLogger("sagpool")

MOST = 24  # most recordings to keep

# A function that computes something from a batch.
Pass = Callable[[Padded], None]


def can_record(model: nn.Module) -> bool:
    """Whether all pooling layers can be part of a recording."""
    dtype = next(model.parameters()).dtype
    return all(pool.can_record(dtype) for pool in pools_of(model))


class _Recording(NamedTuple):
    """One or more passes; those that are equal have the same CUDA graph."""

    graphs: Sequence[torch.cuda.CUDAGraph]
    flat: Tensor
    counters: Tensor | None = None  # which batch comes next, for equal passes

    def replay(self) -> None:
        if self.counters is not None:
            self.counters.zero_()
        # Not one graph of them all, which would be quicker to launch: with thousands of kernels it
        # took seconds to make while several processes shared the GPU.
        for graph in self.graphs:
            graph.replay()


class _Threads:
    """The threads that are recording. The allocator's cache is only emptied while there are none.

    Neither is garbage collected: freeing a recording would invalidate the one being made.
    """

    def __init__(self) -> None:
        self.count, self.changed, self.collects = 0, threading.Condition(), True

    @contextmanager
    def recording(self) -> Iterator[None]:
        with self.changed:
            if not self.count:
                self.collects = gc.isenabled()
                gc.disable()
            self.count += 1
        try:
            yield
        finally:
            with self.changed:
                self.count -= 1
                if not self.count and self.collects:
                    gc.enable()
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
    """The memory that all recordings of a fleet share, since only one of them runs at a time.

    It outlives them, so a fleet that shrinks reuses it for its new recordings.

    Args:
        known: kinds of passes whose kernels are loaded; each new kind that runs here is added
    """

    def __init__(self, known: set[str] | None = None) -> None:
        self._pool: Any = None
        # The default stream cannot be captured. Torch reuses memory only in the same stream.
        self._stream: torch.cuda.Stream | None = None
        # A memory pool lives as long as a graph that uses it, so one graph is always kept.
        self._keeper: torch.cuda.CUDAGraph | None = None
        self._recorders = weakref.WeakSet[Recorder]()
        self.known = set[str]() if known is None else known

    def add(self, recorder: "Recorder") -> None:
        """Let a recorder use the memory."""
        self._recorders.add(recorder)

    def record(self, step: Callable[[], object]) -> torch.cuda.CUDAGraph:
        """Record the step in the current stream.

        Does not use ``torch.cuda.graph``, which waits for the whole device and empties the cache of
        the allocator: other fleets train at the same time.
        """
        with _THREADS.recording():
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
                number = torch.zeros(1, device="cuda")
                self._keeper = self._captured(number.zero_)
            return self._captured(step)

    def _captured(self, step: Callable[[], object]) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.current_stream()
        if stream == torch.cuda.default_stream():
            stream = self._stream = self._stream or torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                step()
            except BaseException:
                with suppress(RuntimeError):  # the capture is invalid; returns the stream to normal
                    graph.capture_end()
                raise
            graph.capture_end()
        return graph

    def renew(self) -> None:
        """Record into new memory from now on; the old memory lives as long as its recordings."""
        self._pool = self._keeper = None
        free_cached_memory()

    def clear(self) -> None:
        """Drop all recordings, and free their memory; they are made again when needed."""
        for recorder in self._recorders:
            recorder.recordings = {}
        self.renew()


def _run_next(one: Pass, batches: Sequence[Padded], counter: Tensor) -> None:
    """Run a pass with the batch that the counter points to; the batches lie end to end."""
    if len(batches) == 1:
        one(batches[0])
        return
    first = batches[0].ids
    together = first.as_strided((len(batches), *first.shape), (first.numel(), *first.stride()))
    ids = together.index_select(0, counter).squeeze(0)
    one(batches[0]._replace(ids=ids))
    counter.add_(1)


class Recorder:
    """Runs passes over batches; replays a recording if one fits.

    Args:
        model: whose pooling layers may have a k that changes between epochs
        graphs: on a device with kernels
        memory: shared by the recordings
        profile: collects where the time goes
        kind: kind of work that replays count as in the profile
        graph_sizes: sizes of the graphs that batches are made of, by default of all graphs
    """

    def __init__(
        self,
        model: nn.Module,
        graphs: Graphs,
        memory: RecordingMemory,
        profile: Profile,
        kind: str = "steps",
        graph_sizes: GraphSizes | None = None,
    ) -> None:
        self.graphs, self.profile, self.kind = graphs, profile, kind
        self.pools = pools_of(model)
        self.graph_sizes = graph_sizes or GraphSizes.of(graphs)
        self.recordings: dict[RecordedSize, _Recording] = {}
        self.sizes: set[RecordedSize] = set()  # of all recordings that were ever made
        self.has_run = False  # whether a pass has run without recording
        self.memory = memory  # set after the recordings, which must be freed first
        memory.add(self)
        self.records = torch.cuda.is_available() and graphs.device.type == "cuda"

    @staticmethod
    def works_for(model: nn.Module, graphs: Graphs) -> bool:
        return kernels_for(graphs.col) is not None and can_record(model)

    def __call__(self, passes: Sequence[Pass], batches: DeviceBatches) -> None:
        """Run these passes, the same in every call, with one batch each.

        Equal passes with batches of one size are recorded once.
        """
        limits = tuple(pool.max_rows() for pool in self.pools)
        needed = RecordedSize(batches.shapes, batches.rows, batches.entries, limits)
        fitting = [size for size in self.sizes if size.fits(needed)]
        if fitting:
            size = min(fitting, key=lambda size: size.total_rows)
        else:
            size = needed.with_spare(self.graph_sizes)
        if (recording := self.recordings.get(size)) is not None:
            with self.profile.spent(self.kind):
                recording.flat.copy_(batches.flat)
                recording.replay()
            return
        with self.profile.spent("recording"):
            self._run_and_record(passes, batches.flat.clone(), needed, size)

    def _run_and_record(
        self, passes: Sequence[Pass], flat: Tensor, needed: RecordedSize, size: RecordedSize
    ) -> None:
        padded = DeviceBatches(flat, size.shapes, size.rows, size.entries).padded()
        # The first pass of its kind compiles kernels, which a recording should not.
        kind = self.kind if len(passes) == 1 else f"whole {self.kind}"
        known = kind in self.memory.known
        if self.records and known and len(self.recordings) < MOST and size.fits(needed):
            if self._outgrows(size):
                self.memory.clear()
            recording = self._try_to_record(partial(self._record, passes, padded, flat))
            if recording is not None:
                self.recordings[size] = recording
                self.sizes.add(size)
                recording.replay()
                return
        for one, batch in zip(passes, padded, strict=True):
            one(batch)
        self.has_run = True
        self.memory.known.add(kind)

    def _outgrows(self, size: RecordedSize) -> bool:
        """Whether a recording would be the largest ever made here, and large enough to matter.

        It would not fit into the gaps of smaller ones and take new memory beside theirs, but
        smaller ones fit into its memory. So it has to come first.
        """
        rows = [known.total_rows for known in self.sizes]
        return size.is_large and size.total_rows > max(rows, default=size.total_rows)

    def _record(self, passes: Sequence[Pass], padded: Sequence[Padded], flat: Tensor) -> _Recording:
        if len(passes) == 1:
            return _Recording([self.memory.record(partial(passes[0], padded[0]))], flat)
        # Equal passes are recorded once. The device counts which of their batches comes next.
        runs = [
            [batch for _, batch in run]
            for _, run in groupby(
                zip(passes, padded, strict=True),
                lambda pair: (passes.index(pair[0]), pair[1].ids.shape, *pair[1][1:]),
            )
        ]
        counters = torch.zeros(len(runs), dtype=torch.int64, device=flat.device)
        graphs: list[torch.cuda.CUDAGraph] = []
        first = 0
        for run, counter in zip(runs, counters.split(1), strict=True):
            step = partial(_run_next, passes[first], run, counter)
            graphs += [self.memory.record(step)] * len(run)
            first += len(run)
        return _Recording(graphs, flat, counters)

    def _try_to_record(self, record: Callable[[], _Recording]) -> _Recording | None:
        """The recording; None if recording failed."""
        problem = ""
        for _ in range(2):
            try:
                return record()
            except RuntimeError as error:
                # Out of memory, or a layer of a plugin waits for the device.
                short = is_out_of_memory(error) or is_out_of_memory(error.__context__)
                problem = str(error)
            # Not inside the handler, which holds references to the memory.
            if not short:
                self.memory.renew()  # after any error, torch cannot record into the old one
                break
            self.memory.clear()
            self.sizes = set()  # a larger recording has to do for smaller batches, too
        if not self.has_run and not short:
            return None  # kernels loaded for other fleets may be missing here: record the next pass
        log.warning("Steps are not recorded, so training is slower: %s", problem)
        self.records = False
        return None
