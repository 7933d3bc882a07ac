"""`EdgeList`: an adjacency that sorts its edges only for those who need them sorted."""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs.adjacency import Adjacency
from sagpool.ops import Layout


class EdgeList(Adjacency):
    """The graphs of a PyG batch on the CPU as one member, without a filler.

    A score sums one number over each edge, and that in any order: sorting the edges into CSR rows
    would take longer than all the rest of a pooling layer.

    Args:
        edge_index: ``[2, edges]`` int64 from source to target; self-loops are ignored
        batch: ``[rows]`` int64, the graph of each row, ascending from 0, none left out
    """

    symmetric = False

    def __init__(self, edge_index: Tensor, batch: Tensor) -> None:
        loops = edge_index[0] == edge_index[1]
        self.edge_index = edge_index[:, ~loops] if bool(loops.any()) else edge_index
        self.batch = batch

    @cached_property
    def layout(self) -> Layout:
        sizes = torch.bincount(self.batch).numpy()[None]
        if not sizes.all():
            raise SagpoolError(f"Graph {int(np.argmin(sizes))} of the batch has no node.")
        return Layout(sizes, filler=False, place=self.device)

    @cached_property
    def _sorted(self) -> Adjacency:
        return Adjacency.from_edge_index(self.edge_index, self.batch)

    @property
    def row_ptr(self) -> Tensor:
        return self._sorted.row_ptr

    @property
    def col(self) -> Tensor:
        return self._sorted.col

    @property
    def device(self) -> torch.device:
        return self.batch.device

    @property
    def graph(self) -> Tensor:
        return self.batch

    @cached_property
    def degree(self) -> Tensor:
        return torch.bincount(self.edge_index[1], minlength=len(self.batch))

    def gcn(self, x: Tensor) -> Tensor:
        if x.shape[1] > 1:
            return super().gcn(x)
        scale = (self.degree.to(x.dtype) + 1).rsqrt_()
        scaled = scale * x.view(-1)
        return (scale * self._add_neighbours(scaled, scaled))[:, None]

    def neighbour_sum(self, x: Tensor) -> Tensor:
        if x.shape[1] > 1:
            return super().neighbour_sum(x)
        return self._add_neighbours(torch.zeros_like(x).view(-1), x.view(-1))[:, None]

    def _add_neighbours(self, start: Tensor, x: Tensor) -> Tensor:
        """``start + A x`` for one number per row."""
        source, target = self.edge_index
        return start.index_add(0, target, x.index_select(0, source))
