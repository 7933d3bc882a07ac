"""Pooled graphs whose adjacency stays in factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.graphs import Adjacency
from sagpool.nn.pool.diffpool.congruence import Congruence, congruence, congruence_and_on
from sagpool.nn.pool.diffpool.matmul import inner, outer, segment_apply, segment_matmul
from sagpool.nn.pool.diffpool.pooled_adjacency import PooledAdjacency, kept
from sagpool.nn.pool.diffpool.segments import Blocks, Spans


@dataclass(frozen=True, eq=False)
class LowRankAdjacency(PooledAdjacency):
    """Acts as the `Adjacency` ``A' = Tᵀ A T``, which is not formed.

    The clusters of a graph of N nodes are often far more than N, since their number depends on the
    largest graph of all. A' has as many rows, but a rank of N at most: its factors are smaller, and
    so is the work of multiplying by one after the other.

    Args:
        base: A, the graphs before the first pooling
        blocks: of the rows of ``base``
        share: T, ``[rows of base, clusters]``, how much of each node is in each cluster; a row
            sums to 1. Where there are kernels it may have more columns, which are zero
        count: of the clusters
        handed: T as `coarsen` has handed it on, if it has; for kernels alone
    """

    base: Adjacency
    blocks: Blocks | Spans
    share: Tensor
    count: int
    handed: Tensor | None = None

    @property
    def clusters(self) -> int:
        return self.count

    @property
    def source(self) -> Tensor:
        return self.share

    @property
    def members(self) -> int:
        return self.base.members

    @property
    def graphs(self) -> int:
        return self.base.graphs

    @property
    def device(self) -> torch.device:
        return self.base.device

    @property
    def spans(self) -> Spans:
        """The blocks, where there are kernels."""
        assert isinstance(self.blocks, Spans)
        return self.blocks

    @cached_property
    def own_blocks(self) -> Blocks:
        """Of the rows of this level."""
        return Blocks.equal(self.members * self.graphs, self.clusters)

    @cached_property
    def own_spans(self) -> Spans:
        """Of the rows of this level, for kernels."""
        graphs = self.members * self.graphs
        return Spans(graphs, graphs * self.clusters, self.node_ptr, self.spans.period)

    @kept
    def degree(self) -> Tensor:
        """``[rows]`` row sums, ``Tᵀ A T 1``, where ``T 1 = 1``."""
        degree = self.base.degree.to(self.share.dtype)[:, None]
        return segment_matmul(self._own_share, degree, self.blocks).view(-1)

    def gcn(self, x: Tensor) -> Tensor:
        """``D̃^-1/2 (A' + I) D̃^-1/2 x``"""
        if self.base.symmetric and isinstance(self.blocks, Spans):
            return self._gcn_by_kernels(x, None)
        if self.base.symmetric:
            return _GCN.apply(x, self.share, self._scale, self.base, self.blocks)
        scaled = self._scale * x
        return self._scale * (self.neighbour_sum(scaled) + scaled)

    def gcn_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        if self.base.symmetric and isinstance(self.blocks, Spans):
            return self._gcn_by_kernels(x, bias)
        return super().gcn_relu(x, bias)

    def _gcn_by_kernels(self, x: Tensor, bias: Tensor | None) -> Tensor:
        y, share = _SpansGCN.apply(
            x, self.handed_on, self._found_scale, bias, self.base, self.spans
        )
        self._handed_on.take(share)
        return y

    def neighbour_sum(self, x: Tensor) -> Tensor:
        """``A' x``"""
        share = self._own_share
        spread = segment_apply(share, self._by_graph(x), self.blocks)
        return segment_matmul(share, self.base.neighbour_sum(spread), self.blocks).view_as(x)

    @property
    def trace(self) -> Tensor:
        """The trace of A' of each graph, ``[graphs]``."""
        return self._congruence.trace

    @property
    def squared_norm(self) -> Tensor:
        """‖A'‖² of each graph, ``[graphs]``."""
        return self._congruence.squared_norm

    def shares(self, share: Tensor) -> Tensor:
        """``T S``, for S of ``[rows, clusters]``."""
        return segment_apply(self._own_share, self._by_graph(share), self.blocks)

    @property
    def _own_share(self) -> Tensor:
        """T without columns that are of no cluster."""
        return self.share[:, : self.clusters]

    @property
    def handed_on(self) -> Tensor:
        """T for a kernel that uses it."""
        return self._handed_on.share

    @cached_property
    def _handed_on(self) -> _HandedOn:
        return _HandedOn(self.share if self.handed is None else self.handed)

    @kept
    def _scale(self) -> Tensor:
        """``[rows, 1]``, the diagonal of D̃^-1/2."""
        return (self.degree + 1).rsqrt()[:, None]

    @cached_property
    def _found_scale(self) -> Tensor:
        """`_scale` as ``[rows]`` from a kernel; its gradient is the business of who uses it."""
        spans = self.spans
        with torch.no_grad():
            return spans.kernels.coarse_scale(
                self.share, self.base.row_ptr, spans.ptr, spans.period, self.clusters
            )

    @kept
    def _congruence(self) -> Congruence:
        if self.base.symmetric and isinstance(self.blocks, Spans):
            walk = partial(
                self.blocks.kernels.neighbour_sum, row_ptr=self.base.row_ptr, col=self.base.col
            )
            found, share = congruence_and_on(self.handed_on, self.blocks, walk)
            self._handed_on.take(share)
            return found
        if self.base.symmetric:
            return congruence(self.share, self.blocks, self.base.neighbour_sum)
        spread = self.base.neighbour_sum(self.share)
        matrix = segment_matmul(self.share, spread, self.blocks)
        trace = matrix.diagonal(dim1=1, dim2=2).sum(1)
        return Congruence(trace, matrix.square().sum((1, 2)))


@dataclass
class _HandedOn:
    """T as the last kernel has left it.

    Each hands it on to the next. On the way back each adds its gradient to that of the next one, in
    place: T is large, and to add up all of them takes longer than to compute some.
    """

    share: Tensor

    def take(self, share: Tensor) -> None:
        if torch.is_grad_enabled():  # else it is T without a gradient
            self.share = share


class _GCN(Function):
    """Keeps nothing of the size of x but its input and its output, which others keep as well."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, share: Tensor, scale: Tensor, base: Adjacency, blocks: Blocks
    ) -> Tensor:
        graphs = (blocks.graphs, share.shape[1], x.shape[1])
        scaled = scale * x
        spread = base.neighbour_sum(outer(blocks, (share, scaled.view(graphs))))
        out = scaled.add_(inner(share, spread, blocks).view_as(x)).mul_(scale)
        ctx.save_for_backward(x, share, scale, spread, out)
        ctx.base, ctx.blocks = base, blocks
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, share, scale, spread, out = ctx.saved_tensors
        graphs = (ctx.blocks.graphs, share.shape[1], x.shape[1])
        of_scale = (grads[0] * out).sum(1, keepdim=True) / scale
        grad = scale * grads[0]  # of (A' + I) D̃^-1/2 x
        back = ctx.base.neighbour_sum(outer(ctx.blocks, (share, grad.view(graphs))))
        left = (spread, grad.view(graphs).transpose(1, 2))
        right = (back, (scale * x).view(graphs).transpose(1, 2))
        of_share = outer(ctx.blocks, left, right)
        grad += inner(share, back, ctx.blocks).view_as(x)  # of D̃^-1/2 x
        of_scale += (grad * x).sum(1, keepdim=True)
        return grad.mul_(scale), of_share, of_scale, None, None


class _SpansGCN(Function):
    """As `_GCN`, by kernels; the scale depends on T, which gets the gradient of both.

    With a bias, which is one of each member, it ends in a ReLU. T is handed on.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        share: Tensor,
        scale: Tensor,
        bias: Tensor | None,
        base: Adjacency,
        spans: Spans,
    ) -> tuple[Tensor, Tensor]:
        kernels, x = spans.kernels, x.contiguous()
        ctx.set_materialize_grads(False)
        ctx.base, ctx.spans = base, spans
        spread = _spread(x, share, scale, base, spans)
        out = kernels.segment_inner_gcn(share, spread, scale, x, spans.ptr, spans.period, bias)
        ctx.save_for_backward(x, share, scale, bias, spread, out)
        return out, share.view_as(share)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, of_share = (None if grad is None else grad.contiguous() for grad in grads)
        if grad is None:
            return None, of_share, None, None, None, None
        x, share, scale, bias, spread, out = ctx.saved_tensors
        base, spans, kernels = ctx.base, ctx.spans, ctx.spans.kernels
        graphs, of_bias = (spans.graphs, -1, x.shape[1]), None
        if bias is not None:
            by_member = (len(bias), -1, x.shape[1])
            before, of_bias, *_ = kernels.bias_relu_backward(
                grad.view(by_member), None, out.view(by_member), None
            )
            grad = before.view_as(grad)
        back = _spread(grad, share, scale, base, spans)
        of_x, of_degree = kernels.segment_inner_gcn_backward(
            share, back, scale, x, out, grad, spans.ptr, spans.period, bias
        )
        of_share = kernels.segment_outer(
            spread,
            grad.view(graphs).transpose(1, 2),
            spans.ptr,
            spans.tiles,
            spans.period,
            more=(back, x.view(graphs).transpose(1, 2)),
            scale_out=scale,
            sides=(base.row_ptr, of_degree),
            columns=share.shape[1],
            into=of_share,
        )
        return of_x, of_share, None, of_bias, None, None


def _spread(x: Tensor, share: Tensor, scale: Tensor, base: Adjacency, spans: Spans) -> Tensor:
    """``A T D̃^-1/2 x``, ``[rows of base, channels]``."""
    by_graph = x.view(spans.graphs, -1, x.shape[1])
    applied = spans.kernels.segment_outer(
        share, by_graph, spans.ptr, spans.tiles, spans.period, scale_in=scale
    )
    return spans.kernels.neighbour_sum(applied, base.row_ptr, base.col)
