"""Differentiable products over the rows of each graph."""

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.clusters.segments import Segments


def segment_matmul(a: Tensor, b: Tensor, segments: Segments) -> Tensor:
    """``a_gᵀ b_g`` for the rows of each graph g.

    Args:
        a: ``[rows, m]``
        b: ``[rows, n]``
        segments: segments of the rows

    Returns:
        ``[graphs, m, n]``
    """
    return _SegmentMatmul.apply(a, b, segments)


def segment_apply(a: Tensor, x: Tensor, segments: Segments) -> Tensor:
    """``a_g x_g`` for the rows of each graph g.

    Args:
        a: ``[rows, m]``
        x: ``[graphs, m, n]``
        segments: segments of the rows

    Returns:
        ``[rows, n]``, zero for rows in no segment
    """
    return _SegmentApply.apply(a, x, segments)


class _SegmentMatmul(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, segments: Segments) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.segments = segments
        return segments.inner(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (a, b) = grads, ctx.saved_tensors
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = ctx.segments.outer((b, grad.transpose(1, 2)))
        if ctx.needs_input_grad[1]:
            grad_b = ctx.segments.outer((a, grad))
        return grad_a, grad_b, None


class _SegmentApply(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, segments: Segments) -> Tensor:
        ctx.save_for_backward(a, x)
        ctx.segments = segments
        return segments.outer((a, x))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (a, x) = grads, ctx.saved_tensors
        grad_a = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_a = ctx.segments.outer((grad, x.transpose(1, 2)))
        if ctx.needs_input_grad[1]:
            grad_x = ctx.segments.inner(a, grad)
        return grad_a, grad_x, None
