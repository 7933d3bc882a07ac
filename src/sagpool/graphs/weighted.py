"""`WeightedAdjacency`: sparse graphs whose edges have weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from sagpool.graphs.adjacency import Structure
from sagpool.graphs.batch import Origin
from sagpool.ops import Layout, edge_rows, propagate, segment_sum


@dataclass(frozen=True, eq=False)
class WeightedAdjacency(Structure):
    """``A + I`` of graphs with weighted edges, in CSR, as poolings that make clusters leave them.

    Args:
        layout: which rows belong to which graph
        row_ptr: ``[total rows + 1]`` int32
        col: ``[entries]`` int32; entries past ``row_ptr[-1]`` belong to no row
        weight: ``[entries]``, 1 for the row itself, which is the first of its entries; the same in
            both directions
        gcn_weight: ``[entries]``, those of D̃^-1/2 (A + I) D̃^-1/2, where D̃ holds sums of weights
        origin: which graphs of a collection these are
    """

    layout: Layout
    row_ptr: Tensor
    col: Tensor
    weight: Tensor
    gcn_weight: Tensor
    origin: Origin | None = None
    _gcn_weights: dict[torch.dtype, Tensor] = field(default_factory=dict, repr=False)

    @cached_property
    def degree(self) -> Tensor:
        """``[total rows]`` sums of weights."""
        row = edge_rows(self.row_ptr, self.col)
        with_self = segment_sum(self.weight[:, None], self.row_ptr, row).view(-1)
        return (with_self - 1).clamp_(min=0)  # rows of fillers have no entry, not even themselves

    def gcn(self, x: Tensor) -> Tensor:
        return propagate(x, self.row_ptr, self.col, self._gcn_weight(x.dtype), symmetric=True)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        return self.sum_with_self(x) - x

    def neighbour_mean(self, x: Tensor) -> Tensor:
        degree = self.degree.to(x.dtype)[:, None]  # weights may add up to less than 1
        return self.neighbour_sum(x) / torch.where(degree > 0, degree, 1)

    def sum_with_self(self, x: Tensor) -> Tensor:
        return propagate(x, self.row_ptr, self.col, self.weight.to(x.dtype), symmetric=True)

    def _gcn_weight(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._gcn_weights:
            self._gcn_weights[dtype] = self.gcn_weight.to(dtype)
        return self._gcn_weights[dtype]
