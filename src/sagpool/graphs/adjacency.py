"""`Structure`: which nodes of a packed batch are joined; `Adjacency`: its sparse form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs.edge_triangles import triangles_of_entries
from sagpool.ops import (
    HostLayout,
    Layout,
    edge_attention,
    edge_rows,
    gcn_propagate,
    gcn_score_and_gate,
    propagate,
    ragged_arange,
    repeat_each,
    scaled_propagate,
    with_self_entries,
)
from sagpool.ops.device import kernels_for

if TYPE_CHECKING:
    from sagpool.graphs.batch import Origin


class Structure(ABC):
    """Which nodes of the graphs of a packed batch are joined, and how strongly.

    `Adjacency` is the sparse form. Pooling layers that make clusters have forms of their own.
    """

    layout: Layout  # which rows belong to which graph

    @property
    @abstractmethod
    def degree(self) -> Tensor:
        """``[rows]`` row sums of A."""

    @abstractmethod
    def gcn(self, x: Tensor) -> Tensor:
        """``D̃^-1/2 (A + I) D̃^-1/2 x``, ``[rows, channels]``."""

    @abstractmethod
    def neighbour_sum(self, x: Tensor) -> Tensor:
        """``A x``, ``[rows, channels]``."""

    def neighbour_mean(self, x: Tensor) -> Tensor:
        """``D^-1 A x``, ``[rows, channels]``; where D is below 1, it counts as 1."""
        return self.neighbour_sum(x) / self.degree.to(x.dtype).clamp(min=1)[:, None]

    def sum_with_self(self, x: Tensor) -> Tensor:
        """``(A + I) x``, ``[rows, channels]``."""
        return x + self.neighbour_sum(x)

    def gcn_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        """``relu(gcn(x) + b)`` for b of ``[members, 1, channels]``."""
        return (self.gcn(x).view(len(bias), -1, x.shape[1]) + bias).relu().view_as(x)

    def gcn_score(self, x: Tensor, bias: Tensor) -> Tensor:
        """``gcn(x) + b``, ``[rows]``, for x of one channel and b of ``[members, 1, 1]``."""
        return (self.gcn(x).view(len(bias), -1, 1) + bias).view(-1)

    def gcn_score_and_gate(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """`gcn_score`, and its tanh."""
        score = self.gcn_score(x, bias)
        return score, score.tanh()

    def attention(self, to_target: Tensor, from_source: Tensor, values: Tensor) -> Tensor:
        """Attention of each row over its neighbours and itself; see `edge_attention`."""
        return self.csr().attention(to_target, from_source, values)

    def csr(self) -> Adjacency:
        """The same as a sparse `Adjacency`, for layers that compare node with node."""
        raise SagpoolError(
            "A layer that needs single edges, such as that of conv=gat, cannot work on the "
            f"weighted graphs of this pooling method ({type(self).__name__})."
        )


@dataclass(frozen=True, eq=False)
class Adjacency(Structure):
    """Ã = A + I of the graphs of all members of a fleet, end to end, member after member.

    Args:
        layout: which rows belong to which graph; the last graph of each member is a filler, which
            pads the member to the largest one
        row_ptr: ``[total rows + 1]`` int32
        col: ``[entries]`` int32: row v is joined to ``col[row_ptr[v]:row_ptr[v + 1]]``, itself
            included (only rows of fillers may have no entry)
        symmetric: whether the graphs are undirected, as in a `Graphs`
        make_two_hop: returns `two_hop`; None if it has to be computed from these graphs
        make_triangles: returns `triangles`; None likewise
        origin: which graphs of a collection these are; None after a pooling
    """

    layout: Layout
    row_ptr: Tensor
    col: Tensor
    symmetric: bool = True
    make_two_hop: Callable[[], Adjacency | None] = lambda: None
    make_triangles: Callable[[], Tensor | None] = lambda: None
    origin: Origin | None = None
    _gcn_weights: dict[torch.dtype, Tensor] = field(default_factory=dict, repr=False)

    @staticmethod
    def from_edge_index(edge_index: Tensor, batch: Tensor) -> Adjacency:
        """The graphs of a PyG batch as one member, without a filler.

        Args:
            edge_index: ``[2, edges]`` int64 from source to target; self-loops are ignored
            batch: ``[rows]`` int64, the graph of each row, ascending from 0 without gaps
        """
        rows = len(batch)
        layout = layout_of_batch(batch)
        source, target = edge_index[:, edge_index[0] != edge_index[1]]
        if not bool((target[1:] >= target[:-1]).all()):
            order = _argsort(target, rows)
            source, target = source[order], target[order]
        row_ptr = torch.searchsorted(target.contiguous(), torch.arange(rows + 1).to(target))
        row_ptr, col = with_self_entries(row_ptr, source, torch.arange(rows).to(source))
        return Adjacency(layout, row_ptr.int(), col.int(), symmetric=False)

    @cached_property
    def entry_row(self) -> Tensor:
        """``[entries]`` int64, the row of each entry."""
        return edge_rows(self.row_ptr, self.col)

    @cached_property
    def degree(self) -> Tensor:
        """``[total rows]`` int32, neighbours of each row, itself not counted."""
        return (self.row_ptr.diff() - 1).clamp_(min=0)

    @cached_property
    def two_hop(self) -> Adjacency:
        """The graphs in which nodes one or two hops apart in the input are joined.

        Computed at the first use. After a pooling two kept nodes stay joined even if the node
        between them was dropped.
        """
        made = self.make_two_hop()
        if made is not None:
            return made
        row_ptr, col = two_hop_csr(self.row_ptr, self.col)
        return Adjacency(self.layout, row_ptr, col, symmetric=self.symmetric)

    @cached_property
    def triangles(self) -> Tensor:
        """``[entries]`` float32, in how many triangles each edge is; 0 between a row and itself.

        Computed at the first use.
        """
        made = self.make_triangles()
        return triangles_of_entries(self.row_ptr, self.col) if made is None else made

    def gcn(self, x: Tensor) -> Tensor:
        return gcn_propagate(
            x,
            self.row_ptr,
            self.col,
            lambda: self._gcn_weight(x.dtype),
            symmetric=self.symmetric,
        )

    def gcn_score_and_gate(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        if self.symmetric and kernels_for(x) is not None:
            return gcn_score_and_gate(x, self.row_ptr, self.col, bias)
        return super().gcn_score_and_gate(x, bias)

    def attention(self, to_target: Tensor, from_source: Tensor, values: Tensor) -> Tensor:
        rows = self.row_ptr, self.col
        return edge_attention(to_target, from_source, values, *rows, symmetric=self.symmetric)

    def csr(self) -> Adjacency:
        return self

    def neighbour_sum(self, x: Tensor) -> Tensor:
        return self.scaled_sum(x, with_self=False)

    def neighbour_mean(self, x: Tensor) -> Tensor:
        share = 1 / self.degree.to(x.dtype).clamp(min=1)
        return self.scaled_sum(x, of_row=share, with_self=False)

    def scaled_sum(
        self,
        x: Tensor,
        of_row: Tensor | None = None,
        of_source: Tensor | None = None,
        *,
        with_self: bool,
    ) -> Tensor:
        """``diag(r) (A + I) diag(c) x``, or with A in place of A + I; see `scaled_propagate`."""
        matrix, kind = (self.row_ptr, self.col), self.symmetric
        return scaled_propagate(x, *matrix, of_row, of_source, with_self=with_self, symmetric=kind)

    def sum_with_self(self, x: Tensor) -> Tensor:
        return propagate(x, self.row_ptr, self.col, symmetric=self.symmetric)

    def _gcn_weight(self, dtype: torch.dtype) -> Tensor:
        """The entries of D̃^-1/2 Ã D̃^-1/2, ``[entries]``.

        Computed once for a level and used by its convolution and its score (paper, section 5.2).
        """
        if dtype not in self._gcn_weights:
            scale = (self.degree.to(dtype) + 1).rsqrt()
            self._gcn_weights[dtype] = scale.index_select(0, self.entry_row).mul_(
                scale.index_select(0, self.col)
            )
        return self._gcn_weights[dtype]


@dataclass(frozen=True, eq=False)
class InducedGraphs(Structure):
    """The subgraphs induced by some of the nodes, computed when they are first needed.

    After the last pooling of a network they are never needed.

    Args:
        layout: which rows belong to which graph
        make: computes them
    """

    layout: Layout
    make: Callable[[], Adjacency]

    @cached_property
    def _made(self) -> Adjacency:
        return self.make()

    def csr(self) -> Adjacency:
        return self._made

    @property
    def degree(self) -> Tensor:
        return self._made.degree

    def gcn(self, x: Tensor) -> Tensor:
        return self._made.gcn(x)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        return self._made.neighbour_sum(x)

    def neighbour_mean(self, x: Tensor) -> Tensor:
        return self._made.neighbour_mean(x)

    def sum_with_self(self, x: Tensor) -> Tensor:
        return self._made.sum_with_self(x)

    def gcn_score_and_gate(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return self._made.gcn_score_and_gate(x, bias)


def two_hop_csr(row_ptr: Tensor, col: Tensor) -> tuple[Tensor, Tensor]:
    """``row_ptr`` and ``col`` of the graphs in which nodes one or two hops apart are joined.

    The entries of a row, itself included, are in ascending order; waits for the device.

    Args:
        row_ptr: ``[rows + 1]`` int32, of A + I
        col: ``[entries]`` int32
    """
    row_ptr, col = row_ptr.long(), col.long()
    rows = len(row_ptr) - 1
    length = row_ptr.diff()
    # Ã² has an entry wherever A + A² + I has one: from each entry, walk to all entries
    # of its column.
    walks = length[col]
    total = int(walks.sum())
    start = repeat_each(edge_rows(row_ptr, col), walks, total)
    end = col[ragged_arange(row_ptr[col], walks, total)]
    pairs = torch.unique(start * rows + end)  # sorted by row, then by column
    wider = torch.searchsorted(pairs, torch.arange(rows + 1, device=col.device) * rows)
    return wider.int(), (pairs % rows).int()


def layout_of_batch(batch: Tensor) -> HostLayout:
    """The layout of a PyG batch, as one member without a filler."""
    sizes = torch.bincount(batch).cpu().numpy()[None]
    if not sizes.all():
        raise SagpoolError(f"Graph {int(np.argmin(sizes))} of the batch has no node.")
    return HostLayout(sizes, filler=False, device=batch.device)


def _argsort(values: Tensor, limit: int) -> Tensor:
    """Stable argsort of integers below ``limit``."""
    if values.device.type != "cpu":
        return torch.sort(values, stable=True).indices
    # NumPy sorts 16-bit integers by radix: two passes beat any comparison sort here.
    low = (values & 0xFFFF).numpy().astype(np.uint16)
    order = np.argsort(low, kind="stable")
    for shift in range(16, max(limit - 1, 1).bit_length(), 16):
        part = ((values >> shift) & 0xFFFF).numpy().astype(np.uint16)
        order = order[np.argsort(part[order], kind="stable")]
    return torch.from_numpy(order)
