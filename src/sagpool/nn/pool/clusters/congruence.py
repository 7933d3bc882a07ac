"""Trace and norm of Tᵀ A T, which is never formed where it is larger than T."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.clusters.gradient_chain import GradientChain
from sagpool.nn.pool.clusters.segments import PaddedSegments, SegmentPtr, Segments

Multiply = Callable[[Tensor], Tensor]


class Congruence(NamedTuple):
    trace: Tensor  # [graphs]
    squared_norm: Tensor  # [graphs]


def congruence(t: Tensor, segments: Segments, multiply: Multiply | None = None) -> Congruence:
    """Trace and squared Frobenius norm of ``Tᵀ A T`` for each graph, A symmetric.

    P = Tᵀ A T and P = A T Tᵀ have the same tr P and tr P². The smaller matrix is computed, which is
    never larger than T.

    Args:
        t: ``[rows, channels]``
        segments: segments of the rows
        multiply: returns A times ``[rows, channels]``; None if A is the identity
    """
    if isinstance(segments, SegmentPtr):
        return congruence_chained(GradientChain(t), segments, multiply)
    return Congruence(*_Congruence.apply(t, segments, multiply))


def congruence_chained(
    chain: GradientChain, segments: SegmentPtr, multiply: Multiply | None = None
) -> Congruence:
    """`congruence` by kernels, as the next link of the chain."""
    trace, norm, t = _ChainedCongruence.apply(chain.latest, segments, multiply)
    chain.advance(t)
    return Congruence(trace, norm)


class _Congruence(Function):
    @staticmethod
    def forward(
        ctx: Any, t: Tensor, segments: PaddedSegments, multiply: Multiply | None
    ) -> tuple[Tensor, Tensor]:
        traces, norms, products = [], [], []
        left, right = _padded_product(t, segments, multiply), segments.pad(t)
        for bucket in segments.buckets:
            a, b = bucket.of(left), bucket.of(right)
            if _rows_are_fewer(a):
                p = torch.bmm(a, b.transpose(1, 2))  # A T Tᵀ, [graphs, width, width]
            else:
                p = torch.bmm(a.transpose(1, 2), b)  # Tᵀ A T, [graphs, channels, channels]
            traces.append(p.diagonal(dim1=1, dim2=2).sum(1))
            norms.append((p * p.transpose(1, 2)).sum((1, 2)))
            products.append(p)
        ctx.save_for_backward(t, *products)
        ctx.set_materialize_grads(False)
        ctx.segments, ctx.multiply = segments, multiply
        trace, norm = (segments.unsort_graphs(torch.cat(parts)) for parts in (traces, norms))
        return trace, norm

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """4 P A T, or 4 A T P for the other P, from the norm, and 2 A T from the trace."""
        t, *products = ctx.saved_tensors
        segments: PaddedSegments = ctx.segments
        grad_trace, grad_norm = (
            None if grad is None else segments.sort_graphs(grad)[:, None, None] for grad in grads
        )
        # A T is as large as T, and cheap to recompute.
        spread, grad_t = (
            _padded_product(t, segments, ctx.multiply),
            segments.new_padded(t, t.shape[1]),
        )
        for bucket, p in zip(segments.buckets, products, strict=True):
            a, grad = bucket.of(spread), bucket.of(grad_t)
            if grad_trace is None:
                grad.zero_()
            else:
                torch.mul(a, 2 * grad_trace[bucket.graphs], out=grad)
            if grad_norm is not None:
                p = p * (4 * grad_norm[bucket.graphs])
                grad.baddbmm_(*((p, a) if _rows_are_fewer(a) else (a, p)))
        return segments.unpad(grad_t), None, None


def _padded_product(t: Tensor, segments: PaddedSegments, multiply: Multiply | None) -> Tensor:
    """A T, padded with zeros, which keep the padding out of all sums."""
    return segments.pad_with_zeros(t if multiply is None else multiply(t))


def _rows_are_fewer(padded: Tensor) -> bool:
    return padded.shape[1] < padded.shape[2]


class _ChainedCongruence(Function):
    """Like `_Congruence`, by kernels."""

    @staticmethod
    def forward(
        ctx: Any, t: Tensor, segments: SegmentPtr, multiply: Multiply | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        t = t.contiguous()
        spread = t if multiply is None else multiply(t)
        p = segments.kernels.gram(spread, t, segments)
        ctx.save_for_backward(spread, p)
        ctx.set_materialize_grads(False)
        ctx.segments = segments
        return *segments.kernels.trace_and_norm(p, segments), t.view_as(t)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_trace, grad_norm, grad_t = (None if g is None else g.contiguous() for g in grads)
        if grad_trace is not None or grad_norm is not None:
            (spread, p), segments = ctx.saved_tensors, ctx.segments
            grad_t = segments.kernels.gram_backward(
                p, spread, grad_trace, grad_norm, segments, into=grad_t
            )
        return grad_t, None, None
