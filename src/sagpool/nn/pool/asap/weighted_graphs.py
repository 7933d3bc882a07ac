"""Weighted graphs of different sizes, with a dense matrix for each: in blocks, or for kernels."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.pool.asap.buckets import Buckets
from sagpool.nn.pool.asap.matrices import GraphRows
from sagpool.nn.pool.asap.matrix_ops import gcn, times_rows
from sagpool.ops import Layout


class WeightedGraphs(Structure):
    """Symmetric weights A between all pairs of nodes of a graph, 0 for no edge and for self-loops.

    The number of edges after a pooling depends on scores; the shape of a matrix for each graph does
    not.
    """

    @property
    @abstractmethod
    def degree(self) -> Tensor: ...

    def gcn(self, x: Tensor) -> Tensor:
        scale = (self.degree + 1).rsqrt()[:, None]
        scaled = scale * x
        return scale * (self.neighbour_sum(scaled) + scaled)

    def neighbour_mean(self, x: Tensor) -> Tensor:
        degree = self.degree.to(x.dtype)[:, None]  # weights may add up to less than 1
        return self.neighbour_sum(x) / torch.where(degree > 0, degree, 1)


@dataclass(frozen=True, eq=False)
class BlockAdjacency(WeightedGraphs):
    """In blocks of graphs of similar size. Fillers have no edges.

    Args:
        buckets: buckets of the rows
        make_blocks: computes `blocks`; not called after the last pooling of a network
    """

    buckets: Buckets
    make_blocks: Callable[[], tuple[Tensor, ...]]

    @cached_property
    def blocks(self) -> tuple[Tensor, ...]:
        """A, ``[graphs, nodes, nodes]`` of each group of the buckets."""
        return self.make_blocks()

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        return self.buckets.layout

    @property
    def degree(self) -> Tensor:
        return self.buckets.unpad([block.sum(2, keepdim=True) for block in self.blocks]).view(-1)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        padded = zip(self.blocks, self.buckets.pad(x), strict=True)
        return self.buckets.unpad([torch.bmm(block, rows) for block, rows in padded])


@dataclass(frozen=True, eq=False)
class RowAdjacency(WeightedGraphs):
    """For kernels, with the matrices of all graphs one below the other.

    The host need not know the sizes of graphs, so a step can be recorded.

    Args:
        layout: which rows belong to which graph
        make_weight: computes `weight`; not called after the last pooling of a network
    """

    layout: Layout
    make_weight: Callable[[], Tensor]

    @cached_property
    def weight(self) -> Tensor:
        """A, ``[rows, columns]``, a column for each row of the same graph; see `GraphMatrices`."""
        return self.make_weight()

    @cached_property
    def rows(self) -> GraphRows:
        return GraphRows.of(self.layout)

    @cached_property
    def degree(self) -> Tensor:
        ones = self.weight.new_ones(len(self.weight), 1)
        return self.neighbour_sum(ones).view(-1)

    @cached_property
    def _scale(self) -> Tensor:
        return (self.degree + 1).rsqrt()

    def gcn(self, x: Tensor) -> Tensor:
        return gcn(self.weight, self._scale, x, self.rows)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        return times_rows(self.weight, x, self.rows)
