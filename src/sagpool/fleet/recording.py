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
from sagpool.nn import AttentionScore, DiffPool, ScorePool, Selection
from sagpool.ops import to_device
from sagpool.ops.device import kernels_for

log = logging.getLogger("sagpool")

# What is recorded has some room to spare, so that it serves many batches; not so much that its
# empty rows would take longer than a recording.
SPARE, MOST_SPARE = 1.015, 1.04
MOST_RECORDINGS = 24

# Trains on graphs by number, given the room for rows and entries.
Step = Callable[[Tensor, int, int], None]


def can_record(model: nn.Module) -> bool:
    """Whether the host never has to wait for the device, or to know how large each graph is."""
    exact = next(model.parameters()).dtype == torch.float64
    return not any(
        (isinstance(layer, DiffPool) and exact)  # its kernels are for float32
        or (isinstance(layer, ScorePool) and layer.min_score is not None)
        or (isinstance(layer, AttentionScore) and layer.pairwise and layer.augmentation)
        for layer in model.modules()
    )


def selections_of(model: nn.Module) -> list[Selection]:
    """How many nodes the layers of the model keep."""
    found = (getattr(layer, "selection", None) for layer in model.modules())
    return [selection for selection in found if isinstance(selection, Selection)]


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
            and rows <= self.rows <= MOST_SPARE * rows + 64
            and entries <= self.entries
        )


class Recorder:
    """Does a step for batches of any graphs, by replay where one was recorded that fits.

    It does not hold the step, which is its owner's: in a circle, what was recorded would keep its
    memory until Python looks for circles.

    Args:
        model: whose layers may keep numbers of nodes that change
        graphs: on a device that has kernels
    """

    def __init__(self, model: nn.Module, graphs: Graphs) -> None:
        self.graphs = graphs
        self.selections = selections_of(model)
        self.recordings: list[_Recording] = []
        self.pool: Any = None
        self.records = torch.cuda.is_available() and graphs.device.type == "cuda"

    @staticmethod
    def works_for(model: nn.Module, graphs: Graphs) -> bool:
        return kernels_for(graphs.col) is not None and can_record(model)

    def __call__(self, step: Step, ids: np.ndarray) -> None:
        """A step with the graphs ``ids``, ``[members, graphs]``, -1 for none; always the same."""
        real = ids != NO_GRAPH
        rows = int(np.where(real, self.graphs.node_counts[ids], 1).sum(axis=1).max()) + 1
        entries = int(self.graphs.batch_source.counts[ids].sum())  # of -1, the last, there are none
        limits = tuple(selection.largest_k for selection in self.selections)
        numbers = to_device(ids.astype(np.int32), self.graphs.device)
        fitting = [r for r in self.recordings if r.serves(ids, rows, entries, limits)]
        if fitting:
            tightest = min(fitting, key=lambda recording: recording.rows)
            tightest.ids.copy_(numbers)
            tightest.graph.replay()
            return
        rows, entries = (-(-int(SPARE * room) // 64) * 64 for room in (rows, entries))
        step(numbers, rows, entries)
        if self.records and len(self.recordings) < MOST_RECORDINGS:
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
                # There is no memory for it; or a layer of somebody's own waits for the device.
                short = any(
                    isinstance(e, torch.OutOfMemoryError) for e in (error, error.__context__)
                )
                problem = str(error)
            else:
                self.recordings.append(_Recording(graph, ids, rows, entries, limits))
                return
            # Outside of the handler, which holds on to what it has to let go of. All recordings
            # share their memory, but a larger one finds no place in what smaller ones left.
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
