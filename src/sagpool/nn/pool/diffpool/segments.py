"""The rows of each graph as blocks, a few batches of them, where graphs differ in size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from sagpool.nn.pool.diffpool.device import kernels_for
from sagpool.ops.device import on_cpu
from sagpool.ops.rows import Rows
from sagpool.ops.transfer import to_device

# On a CPU, where blocks have at least so many numbers on average, each is a batch of its own: to
# call a product for it alone takes less time than to copy it.
OWN_BATCH = 4096


@dataclass(frozen=True)
class Run:
    """Blocks of one size that follow each other."""

    graphs: slice
    rows: slice
    width: int

    def of(self, laid: Tensor) -> Tensor:
        """``[laid rows, channels]`` to ``[graphs of the run, width, channels]``, a view."""
        return laid[self.rows].view(-1, self.width, laid.shape[1])


@dataclass(frozen=True, eq=False)
class Padding:
    """How rows are laid out anew: graphs by their size, those of a run filled up to the largest.

    Args:
        index: ``[laid rows]``, the row at each place; for padding, any row of the same graph
        empty: ``[laid rows, 1]`` bool, True for padding
        place: ``[rows]``, where each row is; for a row of no block, behind the last
        order: ``[graphs]``, the graph at each place
        rank: ``[graphs]``, where each graph is
    """

    index: Tensor
    empty: Tensor
    place: Tensor
    order: Tensor
    rank: Tensor


@dataclass(frozen=True, eq=False)
class Blocks:
    """Which rows belong to which graph, for products of the blocks of each graph.

    Graphs of about the same size share a run, with at most as many rows of padding as there are
    rows: no graph is padded to the size of the largest. All shapes are known on the host.

    Args:
        graphs: how many there are
        rows: how many there are, those included that are in no block
        runs: of blocks, once they are laid out
        padding: the layout; without it, rows and graphs stay where they are
        all_rows: whether each row is in a block
    """

    graphs: int
    rows: int
    runs: tuple[Run, ...]
    padding: Padding | None = None
    all_rows: bool = True

    @staticmethod
    def equal(graphs: int, width: int) -> Blocks:
        """The blocks of graphs of one size, end to end."""
        rows = graphs * width
        return Blocks(graphs, rows, (Run(slice(0, graphs), slice(0, rows), width),))

    @staticmethod
    def of(a: Tensor, starts: np.ndarray, sizes: np.ndarray) -> Blocks:
        """The blocks of the rows of ``a``, and of what else has as many rows.

        Args:
            a: ``[rows, channels]``
            starts: ``[graphs]`` first row of each graph, on the host
            sizes: ``[graphs]`` rows of each graph, at least one, on the host
        """
        if not on_cpu(a) or sizes.mean() * a.shape[1] < OWN_BATCH:
            return _padded(len(a), starts, sizes, a.device)
        runs = [
            Run(slice(graph, graph + 1), slice(start, start + size), size)
            for graph, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True))
        ]
        return Blocks(len(sizes), len(a), tuple(runs), all_rows=int(sizes.sum()) == len(a))

    def lay(self, a: Tensor) -> Tensor:
        """``[rows, channels]`` to ``[laid rows, channels]``; what is padded with, is not said."""
        return a.contiguous() if self.padding is None else a.index_select(0, self.padding.index)

    def lay_with_zeros(self, a: Tensor) -> Tensor:
        """As `lay`, padded with zeros: one of the factors of a sum over rows."""
        laid = self.lay(a)
        return laid if self.padding is None else laid.masked_fill_(self.padding.empty, 0)

    def room(self, a: Tensor, channels: int) -> Tensor:
        """Laid rows to be written to, and then to be given to `unlay`; of the type of ``a``."""
        laid = self.rows if self.padding is None else len(self.padding.index) + 1
        if self.all_rows:
            return a.new_empty(laid, channels)
        return a.new_zeros(laid, channels)

    def unlay(self, room: Tensor) -> Tensor:
        """``[laid rows, channels]`` to ``[rows, channels]``, zero for rows of no block."""
        return room if self.padding is None else room.index_select(0, self.padding.place)

    def lay_graphs(self, x: Tensor) -> Tensor:
        """``[graphs, ...]``, in the order of the runs."""
        return x if self.padding is None else x.index_select(0, self.padding.order)

    def unlay_graphs(self, x: Tensor) -> Tensor:
        """``[graphs, ...]``, from the order of the runs."""
        return x if self.padding is None else x.index_select(0, self.padding.rank)


@dataclass(frozen=True, eq=False)
class Spans:
    """As `Blocks`, for kernels that read rows where they lie: the host need not know any size.

    Args:
        graphs: how many there are
        rows: how many there are
        ptr: ``[graphs + 1]`` int64, the first row of each graph, and the end
        period: the last of so many graphs is a filler, of which only the first row is in a block
    """

    graphs: int
    rows: int
    ptr: Tensor
    period: int

    @staticmethod
    def of(layout: Rows) -> Spans:
        graphs = layout.members * layout.graphs
        # A period that is never full leaves no graph for a filler.
        period = layout.graphs if layout.filler else graphs + 1
        return Spans(graphs, layout.members * layout.rows, layout.node_ptr, period)

    @cached_property
    def kernels(self) -> ModuleType:
        kernels = kernels_for(self.ptr)
        assert kernels is not None
        return kernels

    @cached_property
    def tiles(self) -> Tensor:
        """The graph of each tile of rows, for kernels that make rows."""
        return self.kernels.row_tiles(self.ptr, self.rows)


def _padded(rows: int, starts: np.ndarray, sizes: np.ndarray, device: torch.device) -> Blocks:
    """One run for each power of two that sizes are rounded up to."""
    power = np.ceil(np.log2(sizes)).astype(np.int64)
    order = np.argsort(power, kind="stable")
    laid, indices, insides = 0, [], []
    runs: list[Run] = []
    for bucket in np.split(order, np.flatnonzero(np.diff(power[order])) + 1):
        width = int(sizes[bucket].max())
        column = np.arange(width)
        inside = column < sizes[bucket][:, None]  # [graphs of the run, width]
        # Padding is a row of the same graph, so that one graph's NaN stays its own.
        indices.append((starts[bucket][:, None] + np.where(inside, column, 0)).ravel())
        insides.append(inside.ravel())
        first = runs[-1].graphs.stop if runs else 0
        end = laid + inside.size
        runs.append(Run(slice(first, first + len(bucket)), slice(laid, end), width))
        laid = end
    index, inside = np.concatenate(indices), np.concatenate(insides)
    place = np.full(rows, laid)
    place[index[inside]] = np.flatnonzero(inside)
    # One copy to the device, for all of them.
    parts = [index, ~inside, place, order, np.argsort(order)]
    index, empty, place, order, rank = to_device(np.concatenate(parts), device).split(
        [len(part) for part in parts]
    )
    padding = Padding(index, empty.bool()[:, None], place, order, rank)
    return Blocks(len(sizes), rows, tuple(runs), padding, int(sizes.sum()) == rows)
