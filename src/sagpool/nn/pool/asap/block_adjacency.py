"""Weighted graphs of different sizes, with a dense matrix for each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.pool.asap.buckets import Buckets
from sagpool.ops import Layout


@dataclass(frozen=True, eq=False)
class BlockAdjacency(Structure):
    """Symmetric weights A between all pairs of nodes of a graph, 0 for no edge.

    The number of edges after a pooling depends on scores; the shape of a matrix for each graph is
    known on the host. Fillers have no edges.

    Args:
        buckets: buckets of the rows
        make_blocks: computes `blocks`; not called after the last pooling of a network
    """

    buckets: Buckets
    make_blocks: Callable[[], tuple[Tensor, ...]]

    @cached_property
    def blocks(self) -> tuple[Tensor, ...]:
        """A without self-loops, ``[graphs, nodes, nodes]`` of each group of the buckets."""
        return self.make_blocks()

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        return self.buckets.layout

    @property
    def degree(self) -> Tensor:
        return self.buckets.unpad([block.sum(2, keepdim=True) for block in self.blocks]).view(-1)

    def gcn(self, x: Tensor) -> Tensor:
        scale = (self.degree + 1).rsqrt()[:, None]
        scaled = scale * x
        return scale * (self.neighbour_sum(scaled) + scaled)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        padded = zip(self.blocks, self.buckets.pad(x), strict=True)
        return self.buckets.unpad([torch.bmm(block, rows) for block, rows in padded])

    def neighbour_mean(self, x: Tensor) -> Tensor:
        degree = self.degree.to(x.dtype)[:, None]  # weights may add up to less than 1
        return self.neighbour_sum(x) / torch.where(degree > 0, degree, 1)
