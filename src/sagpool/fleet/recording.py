"""Steps that are recorded once as CUDA graphs, and then replayed.

A step is some hundred small operations, which the host would otherwise have to launch one by one.
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

# A recording has some spare rows and entries, so that it serves many batches; not so many that
# the empty rows would take longer than another recording.
SPARE, MAX_SPARE = 1.015, 1.04
MAX_RECORDINGS = 24

# Trains on graphs by number, given the capacity for rows and entries.
Step = Callable[[Tensor, int, int], None]


def can_record(model: nn.Module) -> bool:
    """Whether all pooling layers say that a step with them can be recorded."""
    dtype = next(model.parameters()).dtype
    return all(pool.can_record(dtype) for pool in pools_of(model))


class _Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    ids: Tensor
    rows: int
    entries: int
    limits: tuple[int | None, ...]

    def serves(
        self, ids: np.ndarray, rows: int, entries: int, limits: tuple[int | None, ...]
    ) -> bool:
        return (
            self.ids.shape == ids.shape
            and self.limits == limits
            and rows <= self.rows <= MAX_SPARE * rows + 64
            and entries <= self.entries
        )


class Recorder:
    """Runs training steps, by replaying a recording where one fits the batch.

    Holds no reference to the step: a reference cycle would keep CUDA memory until garbage
    collection.

    Args:
        model: whose pooling layers may have a k that changes between epochs
        graphs: on a device that has kernels
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
            step: always the same function
            ids: graph numbers
        """
        real = ids != NO_GRAPH
        rows = int(np.where(real, self.graphs.node_counts[ids], 1).sum(axis=1).max()) + 1
        entries = int(self.graphs.batch_source.counts[ids].sum())  # -1 is the last, which has none
        limits = tuple(pool.max_rows() for pool in self.pools)
        numbers = to_device(ids.astype(np.int32), self.graphs.device)
        fitting = [r for r in self.recordings if r.serves(ids, rows, entries, limits)]
        if fitting:
            tightest = min(fitting, key=lambda recording: recording.rows)
            tightest.ids.copy_(numbers)
            tightest.graph.replay()
            return
        rows, entries = (-(-int(SPARE * count) // 64) * 64 for count in (rows, entries))
        step(numbers, rows, entries)
        if self.records and len(self.recordings) < MAX_RECORDINGS:
            self._record(step, numbers, rows, entries, limits)

    def _record(
        self,
        step: Step,
        numbers: Tensor,
        rows: int,
        entries: int,
        limits: tuple[int | None, ...],
    ) -> None:
        ids = numbers.clone()
        for again in (True, False):
            try:
                graph = self._captured(partial(step, ids, rows, entries))
            except RuntimeError as error:
                # Out of memory; or a layer from a plugin waits for the device.
                short = any(
                    isinstance(e, torch.OutOfMemoryError) for e in (error, error.__context__)
                )
                problem = str(error)
            else:
                self.recordings.append(_Recording(graph, ids, rows, entries, limits))
                return
            # Outside of the handler, which holds references to the memory. All recordings share
            # one pool, but a larger one does not fit into the gaps that smaller ones left.
            if short:
                self._forget()
            if not (short and again):
                break
        log.info("Steps are not recorded: %s", problem)
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
