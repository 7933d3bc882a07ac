"""Everything that follows from the assignment S of one level, with a single backward pass."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.clusters.gradient_chain import GradientChain
from sagpool.nn.pool.clusters.segments import SegmentPtr


class Coarsened(NamedTuple):
    x: Tensor  # [graphs, clusters, channels], Sᵀ X
    gram_norm: Tensor  # [graphs], ‖Sᵀ S‖²
    assignment: Tensor  # [rows of the first level, as S], T S, or S itself at the first level
    chain: GradientChain  # gradient chain of that assignment
    readout: Tensor | None = None  # [graphs, 2 * channels], readout of Sᵀ X


def coarsen(
    assignment: Tensor,
    clusters: int,
    x: Tensor,
    segments: SegmentPtr,
    product: Tensor | None = None,
) -> Coarsened:
    """``Sᵀ X`` and ``‖Sᵀ S‖²`` for the graphs of the first level.

    Args:
        assignment: S, ``[rows, clusters]``, or more columns, which are zero. It must come from a
            softmax: its rows sum to 1, so the mean does not depend on it, and has no gradient
        clusters: number of clusters
        x: ``[rows, channels]``
        segments: segments of the rows
        product: ``X W``, to compute ``Sᵀ X W`` and the readout mean ‖ maximum of ``Sᵀ X``
            without storing ``Sᵀ X``
    """
    outputs = _Coarsen.apply(assignment, clusters, x, product, segments)
    pooled, gram_norm, chained, readout = outputs
    return Coarsened(pooled, gram_norm, assignment, GradientChain(chained), readout)


def coarsen_again(
    assignment: Tensor,
    clusters: int,
    x: Tensor,
    before: GradientChain,
    segments: SegmentPtr,
    own: SegmentPtr,
) -> Coarsened:
    """``Sᵀ X``, ``‖Sᵀ S‖²`` and ``T S`` for graphs that were made by pooling.

    Args:
        assignment: S, ``[graphs * nodes, clusters]``, or more columns, which are zero
        clusters: number of clusters
        x: ``[graphs * nodes, channels]``
        before: T, ``[rows of the first level, nodes]``, or more columns, which are zero
        segments: segments of the rows of the first level
        own: segments of the rows of this level
    """
    pooled, gram_norm, product = _CoarsenAgain.apply(
        assignment, clusters, x, before.latest, segments, own
    )
    return Coarsened(pooled, gram_norm, product, GradientChain(product))


class _Coarsen(Function):
    """The start of the assignment's gradient chain."""

    @staticmethod
    def forward(
        ctx: Any,
        assignment: Tensor,
        clusters: int,
        x: Tensor,
        product: Tensor | None,
        segments: SegmentPtr,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        kernels, readout, arg = segments.kernels, None, None
        assignment, factor = assignment.contiguous(), x.contiguous()
        gram = kernels.gram(assignment, assignment, segments)
        if product is not None:
            x, factor = factor, product.contiguous()
            readout, arg = kernels.pooled_mean_max(assignment, x, segments, clusters)
        ctx.save_for_backward(assignment, factor, gram, None if arg is None else x, arg)
        ctx.segments, ctx.clusters = segments, clusters
        pooled = kernels.segment_inner(assignment, factor, segments, clusters)
        gram_norm = kernels.trace_and_norm(gram, segments)[1]
        return pooled, gram_norm, assignment.view_as(assignment), readout

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (assignment, factor, gram, x, arg), segments = ctx.saved_tensors, ctx.segments
        grad_pooled, grad_norm, grad, grad_readout = (
            None if g is None else g.contiguous() for g in grads
        )
        assert grad_pooled is not None
        kernels = segments.kernels
        kernels.gram_backward(gram, assignment, None, grad_norm, segments, into=grad)
        kernels.segment_outer(factor, grad_pooled.transpose(1, 2), segments, into=grad)
        grad_factor = kernels.segment_outer(assignment, grad_pooled, segments)
        if arg is None:
            return grad, None, grad_factor, None, None
        grad_x = kernels.pooled_mean_max_backward(
            grad_readout, arg, assignment, x, segments, ctx.clusters, into=grad
        )
        return grad, None, grad_x, grad_factor, None


class _CoarsenAgain(Function):
    @staticmethod
    def forward(
        ctx: Any,
        assignment: Tensor,
        clusters: int,
        x: Tensor,
        before: Tensor,
        segments: SegmentPtr,
        own: SegmentPtr,
    ) -> tuple[Tensor, Tensor, Tensor]:
        kernels = segments.kernels
        assignment, x, before = assignment.contiguous(), x.contiguous(), before.contiguous()
        gram = kernels.segment_inner(assignment, assignment, own)
        ctx.save_for_backward(assignment, x, before, gram)
        ctx.segments, ctx.own = segments, own
        s = assignment.view(own.graphs, -1, assignment.shape[1])  # [graphs, nodes, columns]
        product = kernels.segment_outer(before, s, segments)
        norm = torch.linalg.vector_norm(gram, dim=(1, 2)).square_()
        return kernels.segment_inner(assignment, x, own, clusters), norm, product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (assignment, x, before, gram), segments, own = ctx.saved_tensors, ctx.segments, ctx.own
        kernels, columns = segments.kernels, assignment.shape[1]
        grad_pooled, grad_norm, grad_product = (grad.contiguous() for grad in grads)
        # The three gradients of S are accumulated in one buffer.
        grad = kernels.segment_outer(x, grad_pooled.transpose(1, 2), own, columns=columns)
        by_norm = gram * (4 * grad_norm)[:, None, None]
        kernels.segment_outer(assignment, by_norm, own, into=grad)
        s = assignment.view(own.graphs, -1, columns)
        kernels.segment_inner(before, grad_product, segments, into=grad.view_as(s))
        grad_before = kernels.segment_outer(
            grad_product, s.transpose(1, 2), segments, columns=before.shape[1]
        )
        grad_x = kernels.segment_outer(assignment, grad_pooled, own)
        return grad, None, grad_x, grad_before, None, None
