"""Weighted graphs of different sizes, with a dense matrix for each."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.pool.asap.buckets import Buckets
from sagpool.ops import Layout


@dataclass(frozen=True, eq=False)
class BlockAdjacency(Structure):
    """Symmetric weights A between all pairs of nodes of a graph, 0 for no edge.

    How many edges a pooling leaves depends on scores; a matrix for each graph has a shape that the
    host knows. Fillers have no edges.

    Args:
        buckets: of the rows
        blocks: A without self-loops, ``[graphs, nodes, nodes]`` of each group of the buckets
    """

    buckets: Buckets
    blocks: tuple[Tensor, ...]

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
