"""`EdgeList`: the structure of a PyG batch, whose edges are sorted only if that is needed."""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs.adjacency import Adjacency, Structure
from sagpool.ops import HostLayout, Layout, attention_of_edges, gcn_of_edges, sum_over_edges
from sagpool.ops.device import on_cpu


class EdgeList(Structure):
    """The edges of a PyG batch.

    A score sums one number over each edge, in any order: sorting the edges into CSR rows would
    take longer than the rest of a pooling layer.

    Args:
        edge_index: ``[2, edges]`` int64 from source to target; self-loops are ignored
        rows: number of nodes
    """

    def __init__(self, edge_index: Tensor, rows: int) -> None:
        self.edge_index, self.rows = edge_index, rows
        self.source, self.target = edge_index.unbind(0)

    @cached_property
    def counted(self) -> Tensor | None:
        """``[edges]`` bool, False for self-loops; None if it is known that there are none."""
        if on_cpu(self.source) and not (self.source.numpy() == self.target.numpy()).any():
            return None
        return self.source != self.target

    @cached_property
    def degree(self) -> Tensor:
        """``[rows]`` float32: a half-precision sum of ones stops growing at 256 or 2,048."""
        counted = None if self.counted is None else self.counted.float()
        if on_cpu(self.target):
            return torch.bincount(self.target, counted, self.rows).float()
        # torch.bincount would wait for the device.
        counted = self.target.new_ones((), dtype=torch.float32) if counted is None else counted
        zeros = counted.new_zeros(self.rows)
        return zeros.scatter_add(0, self.target, counted.expand_as(self.target))

    def gcn(self, x: Tensor) -> Tensor:
        if x.shape[1] > 1:
            return self.csr().gcn(x)
        return self._gcn(x.view(-1))[:, None]

    def gcn_score(self, x: Tensor, bias: Tensor) -> Tensor:
        return self._gcn(x.view(-1)) + bias.view(1)

    def _gcn(self, x: Tensor) -> Tensor:
        return gcn_of_edges(x, self.degree, self.source, self.target, self.counted)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        if x.shape[1] > 1:
            return self.csr().neighbour_sum(x)
        return sum_over_edges(x.view(-1), self.source, self.target, self.counted)[:, None]

    def attention(self, to_target: Tensor, from_source: Tensor, values: Tensor) -> Tensor:
        if values.shape != to_target.shape:
            return self.csr().attention(to_target, from_source, values)
        edges = self.source, self.target, self.counted
        return attention_of_edges(to_target, from_source, values, *edges)

    @cached_property
    def layout(self) -> Layout:  # type: ignore[override]
        """All rows as one graph: no edge leaves its graph, so sums need not know the graphs."""
        sizes = np.array([[self.rows]])
        return HostLayout(sizes, filler=False, device=self.source.device)

    def csr(self) -> Adjacency:
        return self._sorted

    @cached_property
    def _sorted(self) -> Adjacency:
        return Adjacency.from_edge_index(self.edge_index, self.source.new_zeros(self.rows))
