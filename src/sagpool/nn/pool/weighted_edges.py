"""`WeightedEdges`: graphs as a list of edges with weights."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from sagpool.graphs import Structure
from sagpool.ops import Layout


@dataclass(frozen=True, eq=False)
class WeightedEdges(Structure):
    """Sparse or dense graphs, as returned by a pooling layer from outside this package.

    Args:
        layout: which rows belong to which graph
        pairs: ``[2, edges]`` int64 rows, from source to target; an edge may join a row to itself
        weight: ``[edges]``, at least 0; gradients flow through it
        real: ``[members * graphs]`` bool, False for fillers
    """

    layout: Layout
    pairs: Tensor
    weight: Tensor
    real: Tensor

    @cached_property
    def degree(self) -> Tensor:
        return self.weight.new_zeros(self.layout.total_rows).index_add(
            0, self.pairs[1], self.weight
        )

    def gcn(self, x: Tensor) -> Tensor:
        scale = (self.degree + 1).rsqrt()[:, None]
        return scale * self.sum_with_self(scale * x)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        source, target = self.pairs
        return x.new_zeros(x.shape).index_add(0, target, self.weight[:, None] * x[source])
