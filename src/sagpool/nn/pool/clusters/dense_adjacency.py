"""Pooled graphs whose adjacency is a matrix in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.graphs import Adjacency
from sagpool.nn.pool.clusters.cluster_adjacency import ClusterAdjacency, grad_cached_property
from sagpool.nn.pool.clusters.segment_matmul import segment_matmul
from sagpool.nn.pool.clusters.segments import SegmentPtr, Segments


@dataclass(frozen=True, eq=False)
class DenseAdjacency(ClusterAdjacency):
    """A' as a tensor.

    Args:
        matrix: A', ``[members * graphs, clusters, clusters]``
    """

    matrix: Tensor

    @staticmethod
    def of(
        base: Adjacency, assignment: Tensor, clusters: int, segments: Segments
    ) -> DenseAdjacency:
        """``Tᵀ A T``.

        Args:
            base: A, the graphs before the first pooling
            assignment: T, ``[rows of base, clusters]``; for kernels it may have more columns,
                which are zero
            clusters: number of clusters
            segments: segments of the rows of ``base``
        """
        if base.symmetric:
            matrix = _Congruent.apply(assignment, clusters, base, segments)
        else:
            assignment = assignment[:, :clusters]
            matrix = segment_matmul(assignment, base.neighbour_sum(assignment), segments)
        return DenseAdjacency(base, clusters, matrix)

    @property
    def source(self) -> Tensor:
        return self.matrix

    @grad_cached_property
    def degree(self) -> Tensor:
        # A filler's row may have no entry in A + I, not even on the diagonal; minus I, its sum is
        # negative.
        return self.matrix.sum(2).clamp(min=0).view(-1)

    @property
    def trace(self) -> Tensor:
        return self.matrix.diagonal(dim1=1, dim2=2).sum(1)

    @property
    def squared_norm(self) -> Tensor:
        return self.matrix.square().sum((1, 2))

    def gcn(self, x: Tensor) -> Tensor:
        return torch.bmm(self._normalised, self._by_graph(x)).view_as(x)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        return torch.bmm(self.matrix, self._by_graph(x)).view_as(x)

    def pool(self, assignment: Tensor) -> DenseAdjacency:
        """``Sᵀ A' S``, for S of ``[rows, clusters]``."""
        s = self._by_graph(assignment)
        matrix = torch.bmm(s.transpose(1, 2), torch.bmm(self.matrix, s))
        return DenseAdjacency(self.base, assignment.shape[1], matrix)

    @grad_cached_property
    def _normalised(self) -> Tensor:
        """``D̃^-1/2 (A' + I) D̃^-1/2``"""
        scale = (self.degree + 1).rsqrt().view(-1, self.clusters)
        loops = torch.eye(self.clusters, dtype=scale.dtype, device=self.matrix.device)
        return scale[:, :, None] * (self.matrix + loops) * scale[:, None, :]


class _Congruent(Function):
    """``Tᵀ A T`` for a symmetric A: both factors get their gradients from the same product."""

    @staticmethod
    def forward(
        ctx: Any, assignment: Tensor, clusters: int, base: Adjacency, segments: Segments
    ) -> Tensor:
        if isinstance(segments, SegmentPtr):
            assignment = assignment.contiguous()
            spread = segments.kernels.neighbour_sum(assignment, base.row_ptr, base.col)
        else:
            spread = base.neighbour_sum(assignment)
        ctx.save_for_backward(spread)
        ctx.segments = segments
        return segments.inner(assignment, spread)[:, :clusters, :clusters]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (spread,), segments = ctx.saved_tensors, ctx.segments
        both = grads[0] + grads[0].transpose(1, 2)
        if isinstance(segments, SegmentPtr):
            columns = spread.shape[1]
            grad = segments.kernels.segment_outer(spread, both, segments, columns=columns)
        else:
            grad = segments.outer((spread, both))
        return grad, None, None, None
