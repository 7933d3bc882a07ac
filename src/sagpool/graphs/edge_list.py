"""`EdgeList`: the structure of a PyG batch, whose edges are sorted only if that is needed."""

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs.adjacency import Adjacency, Structure
from sagpool.ops import HostLayout, Layout, attention_of_edges, gcn_of_edges, sum_over_edges
from sagpool.ops.device import on_cpu, tracing
from sagpool.ops.edges import attention_by_kernels, edge_kernels_for, gcn_by_kernels


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
        # Not cached properties: torch.compile cannot enter their lock.
        self._counted: Tensor | None = None
        self._degree: Tensor | None = None
        self._csr: Adjacency | None = None

    @property
    def counted(self) -> Tensor | None:
        """``[edges]`` bool, False for self-loops; None if there are known to be none."""
        if self._counted is None:
            if on_cpu(self.source) and not (self.source.numpy() == self.target.numpy()).any():
                return None
            self._counted = self.source != self.target
        return self._counted

    @property
    def degree(self) -> Tensor:
        """``[rows]`` float32: a half-precision sum of ones stops growing at 256 or 2,048."""
        if self._degree is None:
            counted = self.counted
            if on_cpu(self.target):
                weights = None if counted is None else counted.float()
                self._degree = torch.bincount(self.target, weights, self.rows).float()
            else:  # torch.bincount would wait for the device
                ones = (self.source != self.target if counted is None else counted).float()
                self._degree = ones.new_zeros(self.rows).scatter_add(0, self.target, ones)
        return self._degree

    def gcn(self, x: Tensor) -> Tensor:
        if x.shape[1] > 1 and not tracing():
            return self.csr().gcn(x)
        return gcn_of_edges(x, self.degree, self.source, self.target, self.counted)

    def gcn_score(self, x: Tensor, bias: Tensor) -> Tensor:
        rows = x.view(-1)
        if kernels := edge_kernels_for(x):
            edges = self.edge_index.contiguous()
            if self._degree is None:
                self._degree = kernels.degrees_of_edges(edges, self.rows)
            return gcn_by_kernels(rows, self._degree, edges) + bias.view(1)
        received = gcn_of_edges(rows, self.degree, self.source, self.target, self.counted)
        return received + bias.view(1)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        if x.shape[1] > 1 and not tracing():
            return self.csr().neighbour_sum(x)
        return sum_over_edges(x, self.source, self.target, self.counted)

    def attention(self, to_target: Tensor, from_source: Tensor, values: Tensor) -> Tensor:
        if values.shape != to_target.shape:
            return self.csr().attention(to_target, from_source, values)
        parts = to_target, from_source, values
        if edge_kernels_for(values) is not None:
            return attention_by_kernels(*parts, self.edge_index.contiguous())
        return attention_of_edges(*parts, self.source, self.target, self.counted)

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """All rows as one graph: no edge leaves its graph, so sums need not know the graphs."""
        sizes = np.array([[self.rows]])
        return HostLayout(sizes, filler=False, device=self.source.device)

    def csr(self) -> Adjacency:
        if self._csr is None:
            graph = self.source.new_zeros(self.rows)
            self._csr = Adjacency.from_edge_index(self.edge_index, graph)
        return self._csr
