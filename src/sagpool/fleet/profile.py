"""Where the time of a device goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from sagpool.ops.compilation import compilations

# What a device can be doing, most useful first: where fleets overlap, the first kind counts.
# Kernels are compiled while a pass is being recorded, so compiling comes before recording.
KINDS = ("steps", "evaluation", "compiling", "recording")
WAITING = "waiting"


class Span(NamedTuple):
    kind: str
    start: float  # seconds
    end: float
    threads: int = 1  # CPU threads that worked on it


@dataclass(eq=False)
class Profile:
    """Collects what the threads of a run were doing, and when.

    Steps and evaluation of a GPU are timed on the device, by events, everything else on the host.
    Without ``on`` it costs nothing.
    """

    device: torch.device
    on: bool = False
    spans: dict[int, list[Span]] = field(default_factory=dict)  # by thread
    events: dict[int, list[tuple[str, torch.cuda.Event, torch.cuda.Event]]] = field(
        default_factory=dict
    )
    # End of each epoch, number of models.
    epochs: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = self.begin = time.perf_counter()
        self.threads = torch.get_num_threads() if self.device.type == "cpu" else 1
        if self.on and self.device.type == "cuda":
            self.base = torch.cuda.Event(enable_timing=True)
            self.base.record(torch.cuda.current_stream(self.device))
            self.base.synchronize()
            self.begin = time.perf_counter()

    @contextmanager
    def spent(self, kind: str) -> Iterator[None]:
        """Count the time of the block as this kind."""
        if not self.on:
            yield
            return
        thread = threading.get_ident()
        if self.device.type == "cuda" and kind in ("steps", "evaluation"):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            yield
            last.record()
            self.events.setdefault(thread, []).append((kind, first, last))
            return
        start = time.perf_counter()
        yield
        self.add(kind, start, time.perf_counter())

    def add(self, kind: str, start: float, end: float) -> None:
        threads = torch.get_num_threads() if self.device.type == "cpu" else 1
        self.spans.setdefault(threading.get_ident(), []).append(Span(kind, start, end, threads))

    def collect(self, models: int) -> None:
        """Note that this many models have trained an epoch. Reads the events of this thread."""
        if not self.on:
            return
        for kind, first, last in self.events.pop(threading.get_ident(), ()):
            last.synchronize()
            start, end = (self.begin + self.base.elapsed_time(e) / 1000 for e in (first, last))
            self.add(kind, start, end)
        self.epochs.append((time.perf_counter(), models))

    def timelines(self) -> list[list[Span]]:
        """One for a GPU, which all threads share; one for each thread of a CPU."""
        threads = list(self.spans.values())
        if self.device.type == "cuda":
            compiling = [Span("compiling", start, end) for _, start, end in compilations()]
            return [[*(span for spans in threads for span in spans), *compiling]]
        return threads

    def fractions(self, edges: np.ndarray) -> dict[str, np.ndarray]:
        """The fraction of the device's time that each kind took, between one edge and the next.

        The fractions of an interval add up to 1, waiting included.
        """
        capacity = np.diff(edges) * self.threads
        used = {kind: np.zeros(len(capacity)) for kind in KINDS}
        for spans in self.timelines():
            for kind, seconds in divide(spans, edges).items():
                used[kind] = used[kind] + seconds / capacity
        # If fleets have more threads than there are processors, they take turns.
        crowd = np.maximum(sum(used.values()), 1)
        used = {kind: used[kind] / crowd for kind in KINDS}
        return used | {WAITING: np.maximum(1 - sum(used.values()), 0)}

    def models_trained(self, edges: np.ndarray) -> np.ndarray:
        """Models × epochs that ended between one edge and the next."""
        times, models = zip(*self.epochs, strict=True) if self.epochs else ((), ())
        return np.histogram(times, edges, weights=models)[0].astype(np.int64)


def divide(spans: Iterable[Span], edges: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of each kind, times threads, between one edge and the next.

    Where spans overlap, the kind that comes first in `KINDS` counts.
    """
    spans, seconds = list(spans), {}
    covered, before = list[_Interval](), np.zeros(len(edges) - 1)
    for kind in KINDS:
        mine = [_Interval(s.start, s.end, s.threads) for s in spans if s.kind == kind]
        covered = _union([*covered, *mine])
        total = np.diff(_lengths(covered, edges))
        seconds[kind], before = total - before, total
    return seconds


class _Interval(NamedTuple):
    start: float
    end: float
    threads: int


def _union(intervals: Sequence[_Interval]) -> list[_Interval]:
    """The same points in disjoint intervals, in their order."""
    merged: list[_Interval] = []
    for start, end, threads in sorted(intervals):
        if merged and start < merged[-1].end:
            last = merged[-1]
            merged[-1] = _Interval(last.start, max(end, last.end), max(threads, last.threads))
        else:
            merged.append(_Interval(start, end, threads))
    return merged


def _lengths(intervals: Sequence[_Interval], edges: np.ndarray) -> np.ndarray:
    """How long the disjoint intervals are before each edge, times their threads."""
    if not intervals:
        return np.zeros(len(edges))
    starts, ends, threads = np.array(intervals, np.float64).T
    times = np.stack([starts, ends], 1).reshape(-1)
    lengths = np.concatenate([[0.0], np.cumsum((ends - starts) * threads)])
    return np.interp(edges, times, np.repeat(lengths, 2)[1:-1])
