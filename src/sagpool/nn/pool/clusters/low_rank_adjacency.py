"""Pooled graphs whose adjacency stays in factors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.graphs import Adjacency
from sagpool.nn.pool.clusters.cluster_adjacency import ClusterAdjacency, grad_cached_property
from sagpool.nn.pool.clusters.coarsen import Coarsened, coarsen_again
from sagpool.nn.pool.clusters.congruence import Congruence, congruence, congruence_chained
from sagpool.nn.pool.clusters.gradient_chain import GradientChain
from sagpool.nn.pool.clusters.segment_matmul import segment_apply, segment_matmul
from sagpool.nn.pool.clusters.segments import PaddedSegments, SegmentPtr, Segments


@dataclass(frozen=True, eq=False)
class LowRankAdjacency(ClusterAdjacency):
    """``A' = Tᵀ A T``, which is not formed.

    The number of clusters depends on the largest graph of the data set, so a graph of N nodes often
    has far more clusters than nodes. A' has a row for each cluster but a rank of at most N: its
    factors are smaller, and multiplying by one after the other is less work.

    Args:
        segments: segments of the rows of ``base``
        assignment: T, ``[rows of base, clusters]``, the probability of each cluster for each node;
            rows sum to 1. For kernels it may have more columns, which are zero
        _chain: gradient chain of T; used only by kernels
    """

    segments: Segments
    assignment: Tensor
    _chain: GradientChain = field(repr=False)

    @property
    def source(self) -> Tensor:
        return self.assignment

    @property
    def segment_ptr(self) -> SegmentPtr:
        """The segments in the form for kernels."""
        assert isinstance(self.segments, SegmentPtr)
        return self.segments

    @grad_cached_property
    def degree(self) -> Tensor:
        # Tᵀ A T 1, where T 1 = 1.
        degree = self.base.degree.to(self.assignment.dtype)[:, None]
        return segment_matmul(self._own_columns, degree, self.segments).view(-1)

    def gcn(self, x: Tensor) -> Tensor:
        if self._has_symmetric_kernels:
            return self._gcn_by_kernels(x, None)
        if self.base.symmetric:
            return _GCN.apply(x, self.assignment, self._scale, self.base, self.segments)
        scaled = self._scale * x
        return self._scale * (self.neighbour_sum(scaled) + scaled)

    def gcn_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        if self._has_symmetric_kernels:
            return self._gcn_by_kernels(x, bias)
        return super().gcn_relu(x, bias)

    def _gcn_by_kernels(self, x: Tensor, bias: Tensor | None) -> Tensor:
        y, assignment = _ChainedGCN.apply(
            x, self._chain.latest, self._kernel_scale, bias, self.base, self.segment_ptr
        )
        self._chain.advance(assignment)
        return y

    def neighbour_sum(self, x: Tensor) -> Tensor:
        t = self._own_columns
        spread = self.base.neighbour_sum(segment_apply(t, self._by_graph(x), self.segments))
        return segment_matmul(t, spread, self.segments).view_as(x)

    @property
    def trace(self) -> Tensor:
        return self._congruence.trace

    @property
    def squared_norm(self) -> Tensor:
        return self._congruence.squared_norm

    def compose(self, assignment: Tensor) -> Tensor:
        """``T S``, ``[rows of base, clusters]``, for S of ``[rows, clusters]``."""
        return segment_apply(self._own_columns, self._by_graph(assignment), self.segments)

    def coarsen(self, assignment: Tensor, clusters: int, x: Tensor) -> Coarsened:
        """`coarsen_again` by kernels, for S, ``[rows, clusters]``, and x, ``[rows, channels]``."""
        layout, period = self.layout, self.segment_ptr.period
        graphs = layout.members * layout.graphs
        own = SegmentPtr(graphs, layout.total_rows, layout.node_ptr, period)
        return coarsen_again(assignment, clusters, x, self._chain, self.segment_ptr, own)

    @property
    def _own_columns(self) -> Tensor:
        """T without additional columns."""
        return self.assignment[:, : self.clusters]

    @property
    def _has_symmetric_kernels(self) -> bool:
        return self.base.symmetric and isinstance(self.segments, SegmentPtr)

    @grad_cached_property
    def _scale(self) -> Tensor:
        """``[rows, 1]``, the diagonal of D̃^-1/2."""
        return (self.degree + 1).rsqrt()[:, None]

    @cached_property
    def _kernel_scale(self) -> Tensor:
        """`_scale` as ``[rows]`` from a kernel; `_ChainedGCN` computes its gradient."""
        with torch.no_grad():
            return self.segment_ptr.kernels.coarse_scale(
                self.assignment, self.base.row_ptr, self.segment_ptr, self.clusters
            )

    @grad_cached_property
    def _congruence(self) -> Congruence:
        if self._has_symmetric_kernels:
            multiply = partial(
                self.segment_ptr.kernels.neighbour_sum, row_ptr=self.base.row_ptr, col=self.base.col
            )
            return congruence_chained(self._chain, self.segment_ptr, multiply)
        if self.base.symmetric:
            return congruence(self.assignment, self.segments, self.base.neighbour_sum)
        spread = self.base.neighbour_sum(self.assignment)
        matrix = segment_matmul(self.assignment, spread, self.segments)
        trace = matrix.diagonal(dim1=1, dim2=2).sum(1)
        return Congruence(trace, matrix.square().sum((1, 2)))


class _GCN(Function):
    """Saves no tensor of the size of x except its input and output, which others save as well."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        assignment: Tensor,
        scale: Tensor,
        base: Adjacency,
        segments: PaddedSegments,
    ) -> Tensor:
        graphs = (segments.graphs, assignment.shape[1], x.shape[1])
        scaled = scale * x
        spread = base.neighbour_sum(segments.outer((assignment, scaled.view(graphs))))
        out = scaled.add_(segments.inner(assignment, spread).view_as(x)).mul_(scale)
        ctx.save_for_backward(x, assignment, scale, spread, out)
        ctx.base, ctx.segments = base, segments
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, assignment, scale, spread, out), segments = ctx.saved_tensors, ctx.segments
        graphs = (segments.graphs, assignment.shape[1], x.shape[1])
        grad_scale = (grads[0] * out).sum(1, keepdim=True) / scale
        grad = scale * grads[0]  # gradient of (A' + I) D̃^-1/2 x
        back = ctx.base.neighbour_sum(segments.outer((assignment, grad.view(graphs))))
        left = (spread, grad.view(graphs).transpose(1, 2))
        right = (back, (scale * x).view(graphs).transpose(1, 2))
        grad_assignment = segments.outer(left, right)
        grad += segments.inner(assignment, back).view_as(x)  # gradient of D̃^-1/2 x
        grad_scale += (grad * x).sum(1, keepdim=True)
        return grad.mul_(scale), grad_assignment, grad_scale, None, None


class _ChainedGCN(Function):
    """`_GCN` by kernels, as a link of the chain of T.

    The scale depends on T, whose gradient includes that of the scale. If there is a bias (per
    member), the result ends with a ReLU.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        assignment: Tensor,
        scale: Tensor,
        bias: Tensor | None,
        base: Adjacency,
        segments: SegmentPtr,
    ) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        ctx.set_materialize_grads(False)
        ctx.base, ctx.segments = base, segments
        spread = _spread(x, assignment, scale, base, segments)
        out = segments.kernels.segment_inner_gcn(assignment, spread, scale, x, segments, bias)
        ctx.save_for_backward(x, assignment, scale, bias, spread, out)
        return out, assignment.view_as(assignment)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, grad_assignment = (None if grad is None else grad.contiguous() for grad in grads)
        if grad is None:
            return None, grad_assignment, None, None, None, None
        x, assignment, scale, bias, spread, out = ctx.saved_tensors
        base, segments, kernels = ctx.base, ctx.segments, ctx.segments.kernels
        graphs, grad_bias = (segments.graphs, -1, x.shape[1]), None
        if bias is not None:
            by_member = (len(bias), -1, x.shape[1])
            before_relu, grad_bias, *_ = kernels.bias_relu_backward(
                grad.view(by_member), None, out.view(by_member), None
            )
            grad = before_relu.view_as(grad)
        back = _spread(grad, assignment, scale, base, segments)
        grad_x, grad_degree = kernels.segment_inner_gcn_backward(
            assignment, back, scale, x, out, grad, segments, bias
        )
        grad_assignment = kernels.segment_outer(
            spread,
            grad.view(graphs).transpose(1, 2),
            segments,
            more=(back, x.view(graphs).transpose(1, 2)),
            scale_out=scale,
            degrees=(base.row_ptr, grad_degree),
            columns=assignment.shape[1],
            into=grad_assignment,
        )
        return grad_x, grad_assignment, None, grad_bias, None, None


def _spread(
    x: Tensor, assignment: Tensor, scale: Tensor, base: Adjacency, segments: SegmentPtr
) -> Tensor:
    """``A T D̃^-1/2 x``, ``[rows of base, channels]``."""
    by_graph = x.view(segments.graphs, -1, x.shape[1])
    applied = segments.kernels.segment_outer(assignment, by_graph, segments, scale_in=scale)
    return segments.kernels.neighbour_sum(applied, base.row_ptr, base.col)
