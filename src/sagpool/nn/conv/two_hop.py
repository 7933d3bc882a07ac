"""A + A² without ever forming A²."""

from functools import cached_property

import torch
from torch import Tensor

from sagpool.graphs import Adjacency, Structure
from sagpool.graphs.adjacency import two_hop_csr


class TwoHop(Structure):
    """The structure A + A² (the paper's Equation 7).

    (A + A²) X = AX + A(AX), and its row sums come from doing that to ones: memory stays linear
    in nodes and edges. A² counts walks, so a node is its own two-hop neighbour as many times as
    it has neighbours; the paper does not say otherwise.
    """

    def __init__(self, one_hop: Structure) -> None:
        self.one_hop, self.layout = one_hop, one_hop.layout

    @cached_property
    def degree(self) -> Tensor:
        ones = torch.ones(self.layout.total_rows, 1, device=self.layout.device)
        return self.neighbour_sum(ones.double()).view(-1)  # integers, exactly

    def neighbour_sum(self, x: Tensor) -> Tensor:
        once = self.one_hop.neighbour_sum(x)
        return once + self.one_hop.neighbour_sum(once)

    def gcn(self, x: Tensor) -> Tensor:
        scale = (self.degree + 1).rsqrt().to(x.dtype)[:, None]
        scaled = scale * x
        return scale * (self.neighbour_sum(scaled) + scaled)

    def csr(self) -> Adjacency:
        return two_hop_pairs(self.one_hop.csr())


def two_hop_pairs(adjacency: Adjacency) -> Adjacency:
    """The graphs in which nodes are joined that are one or two hops apart.

    Attention compares each pair by itself, so it needs the pairs one by one.
    """
    row_ptr, col = two_hop_csr(adjacency.row_ptr, adjacency.col)
    return Adjacency(adjacency.layout, row_ptr, col, symmetric=adjacency.symmetric)
