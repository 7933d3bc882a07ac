"""Graphs of equal size with a dense weighted adjacency, as DiffPool makes them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs.adjacency import Rows


@dataclass(frozen=True, eq=False)
class DenseAdjacency(Rows):
    """Acts as an `Adjacency` for rows that lie graph after graph, all of one size.

    Args:
        matrix: ``[members * graphs, nodes, nodes]`` weights
        count: of the members
    """

    matrix: Tensor
    count: int

    @cached_property
    def sizes(self) -> np.ndarray:  # type: ignore[override]
        graphs, nodes, _ = self.matrix.shape
        return np.full((self.count, graphs // self.count), nodes)

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    @cached_property
    def degree(self) -> Tensor:
        """``[rows]`` row sums."""
        return self.matrix.sum(2).view(-1)

    def gcn(self, x: Tensor) -> Tensor:
        """``D̃^-1/2 (A + I) D̃^-1/2 x``"""
        # Fillers, which have no entries to themselves, come out with less than no neighbours.
        scale = (self.degree.clamp(min=0) + 1).rsqrt()[:, None]
        scaled = scale * x
        return scale * (self.neighbour_sum(scaled) + scaled)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        """``A x``"""
        graphs, nodes, _ = self.matrix.shape
        return torch.bmm(self.matrix, x.view(graphs, nodes, -1)).view(x.shape)
