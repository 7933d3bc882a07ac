"""`Adjacency`: who neighbours whom in a packed batch, and which rows belong to which graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.ops import edge_rows, propagate, repeat_each, to_device, with_self_entries


class Rows:
    """Which rows belong to which graph of which member.

    Every member has the same number of graphs and of rows, so that ``x.view(members, rows, -1)``
    is possible. Sizes are on the host: they depend on the graphs alone, so no step ever waits for
    the device to tell them.
    """

    sizes: np.ndarray  # [members, graphs] rows of each graph, at least one, on the host

    @property
    def device(self) -> torch.device:
        raise TypeError(f"{type(self).__name__} must say on which device it is.")

    @property
    def members(self) -> int:
        return self.sizes.shape[0]

    @property
    def graphs(self) -> int:
        """Graphs of one member, the filler included."""
        return self.sizes.shape[1]

    @property
    def rows(self) -> int:
        """Rows of one member, the filler's included."""
        return int(self.sizes[0].sum())

    @cached_property
    def node_ptr(self) -> Tensor:
        """``[members * graphs + 1]`` int64, the first row of each graph, and the end."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        return to_device(offsets, self.device)

    @cached_property
    def graph(self) -> Tensor:
        """``[rows of all members]`` int64, the graph of each row."""
        graphs = torch.arange(self.sizes.size, device=self.device)
        return repeat_each(graphs, self.node_ptr.diff(), self.members * self.rows)


@dataclass(frozen=True, eq=False)
class Adjacency(Rows):
    """Ã = A + I of the graphs of all members of a fleet, end to end, member after member.

    The last graph of each member is a filler, which takes up the difference to the largest member.

    Args:
        sizes: ``[members, graphs]`` nodes of each graph, at least one, on the host
        row_ptr: ``[rows of all members + 1]`` int32
        col: ``[entries]`` int32: row v is joined to ``col[row_ptr[v]:row_ptr[v + 1]]``, itself
            included (only rows of fillers may have no entry)
        filler: whether the last graph of each member is a filler
        symmetric: whether the graphs are undirected; what comes out of `Graphs` always is
    """

    sizes: np.ndarray
    row_ptr: Tensor
    col: Tensor
    filler: bool
    symmetric: bool = True

    def __post_init__(self) -> None:
        self.sizes.setflags(write=False)

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
        return Adjacency(sizes, row_ptr.int(), col.int(), filler=False, symmetric=False)

    @property
    def device(self) -> torch.device:
        return self.col.device

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
        weight = self._gcn_weight(x.dtype)
        return propagate(x, self.row_ptr, self.col, weight, symmetric=self.symmetric)

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
