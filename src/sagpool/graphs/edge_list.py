"""`EdgeList`: the structure of a PyG batch, whose edges are sorted only if that is needed."""

from functools import cached_property

import torch
from torch import Tensor

from sagpool.graphs.adjacency import Adjacency, Structure, layout_of_batch
from sagpool.ops import Layout


class EdgeList(Structure):
    """The graphs of a PyG batch on the CPU as one member, without a filler.

    A score sums one number over each edge, in any order: sorting the edges into CSR rows would
    take longer than the rest of a pooling layer.

    Args:
        edge_index: ``[2, edges]`` int64 from source to target; self-loops are ignored
        batch: ``[rows]`` int64, the graph of each row, ascending from 0, none left out
    """

    def __init__(self, edge_index: Tensor, batch: Tensor) -> None:
        loops = edge_index[0] == edge_index[1]
        self.edge_index = edge_index[:, ~loops] if bool(loops.any()) else edge_index
        self.batch = batch

    @cached_property
    def layout(self) -> Layout:  # type: ignore[override]
        layout = layout_of_batch(self.batch)
        vars(layout)["graph"] = self.batch  # the cached property, known already
        return layout

    def csr(self) -> Adjacency:
        return self._sorted

    @cached_property
    def _sorted(self) -> Adjacency:
        return Adjacency.from_edge_index(self.edge_index, self.batch)

    @cached_property
    def degree(self) -> Tensor:
        return torch.bincount(self.edge_index[1], minlength=len(self.batch))

    def gcn(self, x: Tensor) -> Tensor:
        if x.shape[1] > 1:
            return self._sorted.gcn(x)
        scale = (self.degree.to(x.dtype) + 1).rsqrt_()
        scaled = scale * x.view(-1)
        return (scale * self._add_neighbours(scaled, scaled))[:, None]

    def neighbour_sum(self, x: Tensor) -> Tensor:
        if x.shape[1] > 1:
            return self._sorted.neighbour_sum(x)
        return self._add_neighbours(torch.zeros_like(x).view(-1), x.view(-1))[:, None]

    def _add_neighbours(self, start: Tensor, x: Tensor) -> Tensor:
        """``start + A x`` for one number per row."""
        source, target = self.edge_index
        return start.index_add(0, target, x.index_select(0, source))
