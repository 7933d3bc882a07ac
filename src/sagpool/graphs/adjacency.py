"""`Adjacency`: who neighbours whom in a packed batch, and which rows belong to which graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.ops import Layout, Rows, edge_rows, gcn_propagate, propagate, with_self_entries


@dataclass(frozen=True, eq=False)
class Adjacency(Rows):
    """Ã = A + I of the graphs of all members of a fleet, end to end, member after member.

    The last graph of each member is a filler, which takes up the difference to the largest member.

    Args:
        layout: which rows belong to which graph
        row_ptr: ``[rows of all members + 1]`` int32
        col: ``[entries]`` int32: row v is joined to ``col[row_ptr[v]:row_ptr[v + 1]]``, itself
            included (only rows of fillers may have no entry)
        symmetric: whether the graphs are undirected; what comes out of `Graphs` always is
    """

    layout: Rows
    row_ptr: Tensor
    col: Tensor
    symmetric: bool = True

    @staticmethod
    def from_edge_index(edge_index: Tensor, batch: Tensor) -> Adjacency:
        """The graphs of a PyG batch as one member, without a filler.

        Args:
            edge_index: ``[2, edges]`` int64 from source to target; self-loops are ignored
            batch: ``[rows]`` int64, the graph of each row, ascending from 0, none left out
        """
        rows = len(batch)
        sizes = torch.bincount(batch).cpu().numpy()[None]
        if not sizes.all():
            raise SagpoolError(f"Graph {int(np.argmin(sizes))} of the batch has no node.")
        source, target = edge_index[:, edge_index[0] != edge_index[1]]
        if not bool((target[1:] >= target[:-1]).all()):
            order = _argsort(target, rows)
            source, target = source[order], target[order]
        row_ptr = torch.searchsorted(target.contiguous(), torch.arange(rows + 1).to(target))
        row_ptr, col = with_self_entries(row_ptr, source, torch.arange(rows).to(source))
        layout = Layout(sizes, filler=False, place=col.device)
        return Adjacency(layout, row_ptr.int(), col.int(), symmetric=False)

    @property
    def device(self) -> torch.device:
        return self.col.device

    @property
    def sizes(self) -> np.ndarray:  # type: ignore[override]
        return self.layout.sizes

    @property
    def filler(self) -> bool:  # type: ignore[override]
        return self.layout.filler

    @property
    def members(self) -> int:
        return self.layout.members

    @property
    def graphs(self) -> int:
        return self.layout.graphs

    @property
    def rows(self) -> int:
        return self.layout.rows

    @property
    def node_ptr(self) -> Tensor:
        return self.layout.node_ptr

    @property
    def graph(self) -> Tensor:
        return self.layout.graph

    @cached_property
    def entry_row(self) -> Tensor:
        """``[entries]`` int64, the row of each entry."""
        return edge_rows(self.row_ptr, self.col)

    @cached_property
    def degree(self) -> Tensor:
        """``[rows of all members]`` int32, neighbours of each row, itself not counted."""
        return (self.row_ptr.diff() - 1).clamp_(min=0)

    def gcn(self, x: Tensor) -> Tensor:
        """``D̃^-1/2 Ã D̃^-1/2 x``, ``[rows, channels]``."""
        return gcn_propagate(
            x,
            self.row_ptr,
            self.col,
            lambda: self._gcn_weight(x.dtype),
            symmetric=self.symmetric,
        )

    def neighbour_sum(self, x: Tensor) -> Tensor:
        """``A x``, ``[rows, channels]``."""
        return propagate(x, self.row_ptr, self.col, symmetric=self.symmetric) - x

    @cached_property
    def _gcn_weights(self) -> dict[torch.dtype, Tensor]:
        return {}

    def _gcn_weight(self, dtype: torch.dtype) -> Tensor:
        """The entries of D̃^-1/2 Ã D̃^-1/2, ``[entries]``.

        Made once for a level and shared by its convolution and its score (paper, section 5.2).
        """
        if dtype not in self._gcn_weights:
            scale = (self.degree.to(dtype) + 1).rsqrt()
            self._gcn_weights[dtype] = scale.index_select(0, self.entry_row).mul_(
                scale.index_select(0, self.col)
            )
        return self._gcn_weights[dtype]


def _argsort(values: Tensor, limit: int) -> Tensor:
    """Stable argsort of whole numbers below ``limit``."""
    if values.device.type != "cpu":
        return torch.sort(values, stable=True).indices
    # NumPy sorts 16-bit integers by radix: two passes beat any comparison sort here.
    low = (values & 0xFFFF).numpy().astype(np.uint16)
    order = np.argsort(low, kind="stable")
    for shift in range(16, max(limit - 1, 1).bit_length(), 16):
        part = ((values >> shift) & 0xFFFF).numpy().astype(np.uint16)
        order = order[np.argsort(part[order], kind="stable")]
    return torch.from_numpy(order)
