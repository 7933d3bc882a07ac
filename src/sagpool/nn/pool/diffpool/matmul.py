"""Products of two blocks for each graph, where graphs differ in size."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.diffpool.segments import Blocks, Spans


def segment_matmul(a: Tensor, b: Tensor, blocks: Blocks | Spans) -> Tensor:
    """``a_gᵀ b_g`` for the rows of each graph g.

    Args:
        a: ``[rows, m]``
        b: ``[rows, n]``
        blocks: of the rows

    Returns:
        ``[graphs, m, n]``
    """
    return _SegmentMatmul.apply(a, b, blocks)


def segment_apply(a: Tensor, x: Tensor, blocks: Blocks | Spans) -> Tensor:
    """``a_g x_g`` for the rows of each graph g.

    Args:
        a: ``[rows, m]``
        x: ``[graphs, m, n]``
        blocks: of the rows

    Returns:
        ``[rows, n]``, zero for rows that are in no block
    """
    return _SegmentApply.apply(a, x, blocks)


def inner(a: Tensor, b: Tensor, blocks: Blocks | Spans) -> Tensor:
    """`segment_matmul`, not differentiable."""
    if isinstance(blocks, Spans):
        return blocks.kernels.segment_inner(
            a.contiguous(), b.contiguous(), blocks.ptr, blocks.period
        )
    out = a.new_empty(blocks.graphs, a.shape[1], b.shape[1])
    # Zeros in one of the two are enough, and less work in the narrower one.
    if a.shape[1] < b.shape[1]:
        a, b = blocks.lay_with_zeros(a), blocks.lay(b)
    else:
        a, b = blocks.lay(a), blocks.lay_with_zeros(b)
    for run in blocks.runs:
        torch.bmm(run.of(a).transpose(1, 2), run.of(b), out=out[run.graphs])
    return blocks.unlay_graphs(out)


def outer(blocks: Blocks | Spans, *pairs: tuple[Tensor, Tensor]) -> Tensor:
    """The sum of `segment_apply` over pairs of ``a`` and ``x``, not differentiable."""
    if isinstance(blocks, Spans):
        total = None
        for a, x in pairs:
            total = blocks.kernels.segment_outer(
                a.contiguous(), x, blocks.ptr, blocks.tiles, blocks.period, into=total
            )
        assert total is not None
        return total
    (a, x), *more = [(blocks.lay(a), blocks.lay_graphs(x)) for a, x in pairs]
    room = blocks.room(a, x.shape[2])
    for run in blocks.runs:
        product = torch.bmm(run.of(a), x[run.graphs], out=run.of(room))
        for b, y in more:
            product.baddbmm_(run.of(b), y[run.graphs])
    return blocks.unlay(room)


class _SegmentMatmul(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, blocks: Blocks) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.blocks = blocks
        return inner(a, b, blocks)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (a, b) = grads, ctx.saved_tensors
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = outer(ctx.blocks, (b, grad.transpose(1, 2)))
        if ctx.needs_input_grad[1]:
            grad_b = outer(ctx.blocks, (a, grad))
        return grad_a, grad_b, None


class _SegmentApply(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, blocks: Blocks) -> Tensor:
        ctx.save_for_backward(a, x)
        ctx.blocks = blocks
        return outer(blocks, (a, x))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (a, x) = grads, ctx.saved_tensors
        grad_a = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_a = outer(ctx.blocks, (grad, x.transpose(1, 2)))
        if ctx.needs_input_grad[1]:
            grad_x = inner(a, grad, ctx.blocks)
        return grad_a, grad_x, None
