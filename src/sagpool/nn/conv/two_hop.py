"""A + A² without ever forming A²."""

import torch
from torch import Tensor

from sagpool.graphs import Adjacency, Structure
from sagpool.graphs.adjacency import two_hop_csr
from sagpool.ops import Layout


class TwoHop(Structure):
    """The structure A + A² (the paper's Equation 7).

    (A + A²) X = AX + A(AX), and its row sums come from applying this to ones: memory stays linear
    in nodes and edges. A² counts walks, so a node is its own two-hop neighbour as many times as it
    has neighbours; the paper does not say otherwise.
    """

    def __init__(self, one_hop: Structure) -> None:
        self.one_hop = one_hop

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        return self.one_hop.layout

    @property
    def degree(self) -> Tensor:
        ones = torch.ones_like(self.one_hop.degree, dtype=torch.float64)[:, None]
        return self.neighbour_sum(ones).view(-1)  # integers, exactly

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
    """The graphs in which nodes one or two hops apart are joined.

    Attention compares each pair separately, so it needs a list of pairs.
    """
    row_ptr, col = two_hop_csr(adjacency.row_ptr, adjacency.col)
    return Adjacency(adjacency.layout, row_ptr, col, symmetric=adjacency.symmetric)
