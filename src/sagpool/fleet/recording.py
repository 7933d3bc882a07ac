"""Training steps recorded as CUDA graphs and replayed.

A step is some hundred small operations, which the host would otherwise launch one by one.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.graphs import Graphs
from sagpool.graphs.batch import NO_GRAPH
from sagpool.nn.pool import pools_of
from sagpool.ops import to_device
from sagpool.ops.device import kernels_for

log = logging.getLogger("sagpool")

# A recording has some spare rows and entries, so that it fits many batches; with more of them, the
# padding would take longer than another recording.
SPARE, MAX_SPARE = 1.015, 1.04
MAX_RECORDINGS = 24

# Trains on the graphs with these numbers, padded to so many rows and entries.
Step = Callable[[Tensor, int, int], None]


def can_record(model: nn.Module) -> bool:
    """Whether all pooling layers can be part of a recording."""
    dtype = next(model.parameters()).dtype
    return all(pool.can_record(dtype) for pool in pools_of(model))


class _Size(NamedTuple):
    rows: int  # of each member
    entries: int
    limits: tuple[int | None, ...]  # largest k of each pooling layer, None without a k


class _Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    ids: Tensor
    size: _Size

    def fits(self, ids: np.ndarray, needed: _Size) -> bool:
        return (
            self.ids.shape == ids.shape
            and self.size.limits == needed.limits
            and needed.rows <= self.size.rows <= MAX_SPARE * needed.rows + 64
            and needed.entries <= self.size.entries
        )


class Recorder:
    """Runs training steps; replays a recording if one fits the batch.

    Holds no reference to the step: a reference cycle would keep CUDA memory until garbage
    collection.

    Args:
        model: whose pooling layers may have a k that changes between epochs
        graphs: on a device with kernels
    """

    def __init__(self, model: nn.Module, graphs: Graphs) -> None:
        self.graphs = graphs
        self.pools = pools_of(model)
        self.recordings: list[_Recording] = []
        self.pool: Any = None
        self.records = torch.cuda.is_available() and graphs.device.type == "cuda"

    @staticmethod
    def works_for(model: nn.Module, graphs: Graphs) -> bool:
        return kernels_for(graphs.col) is not None and can_record(model)

    def __call__(self, step: Step, ids: np.ndarray) -> None:
        """Train on the graphs ``ids``, ``[members, graphs]``, -1 for none.

        Args:
            step: the same function in every call
            ids: graph numbers
        """
        real = ids != NO_GRAPH
        rows = int(np.where(real, self.graphs.node_counts[ids], 1).sum(axis=1).max()) + 1
        entries = int(
            self.graphs.batch_source.counts[ids].sum()
        )  # -1 is the last graph, which has none
        needed = _Size(rows, entries, tuple(pool.max_rows() for pool in self.pools))
        numbers = to_device(ids.astype(np.int32), self.graphs.device)
        fitting = [recording for recording in self.recordings if recording.fits(ids, needed)]
        if fitting:
            tightest = min(fitting, key=lambda recording: recording.size.rows)
            tightest.ids.copy_(numbers)
            tightest.graph.replay()
            return
        rows, entries = (-(-int(SPARE * count) // 64) * 64 for count in (rows, entries))
        step(numbers, rows, entries)
        if self.records and len(self.recordings) < MAX_RECORDINGS:
            self._record(step, numbers, _Size(rows, entries, needed.limits))

    def _record(self, step: Step, numbers: Tensor, size: _Size) -> None:
        ids = numbers.clone()
        for again in (True, False):
            try:
                graph = self._captured(partial(step, ids, size.rows, size.entries))
            except RuntimeError as error:
                # Out of memory, or a layer of a plugin waits for the device.
                short = any(
                    isinstance(e, torch.OutOfMemoryError) for e in (error, error.__context__)
                )
                problem = str(error)
            else:
                self.recordings.append(_Recording(graph, ids, size))
                return
            # Outside the handler, which holds references to the memory. All recordings use one
            # pool, but a larger recording does not fit into the gaps that smaller ones left.
            if short:
                self._forget()
            if not (short and again):
                break
        log.warning("Steps are not recorded, so training is slower: %s", problem)
        self.records = False

    def _captured(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        if self.pool is None:
            self.pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            step()
        return graph

    def _forget(self) -> None:
        self.recordings, self.pool = [], None
        torch.cuda.empty_cache()
