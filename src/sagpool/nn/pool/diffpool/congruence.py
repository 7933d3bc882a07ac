"""Trace and norm of Tᵀ A T, which is never formed where it is larger than T."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.diffpool.segments import Blocks, Spans

Multiply = Callable[[Tensor], Tensor]


class Congruence(NamedTuple):
    trace: Tensor  # [graphs]
    squared_norm: Tensor  # [graphs]


def congruence(t: Tensor, blocks: Blocks | Spans, multiply: Multiply | None = None) -> Congruence:
    """Trace and squared Frobenius norm of ``Tᵀ A T`` for each graph, A symmetric.

    Both are the same for P = Tᵀ A T and for P = A T Tᵀ: tr P, and tr P². So P is the one of the
    two that is smaller, and never larger than T.

    Args:
        t: ``[rows, channels]``
        blocks: of the rows
        multiply: gives A times ``[rows, channels]``; without it A is the identity
    """
    if isinstance(blocks, Spans):
        return congruence_and_on(t, blocks, multiply)[0]
    return Congruence(*_Congruence.apply(t, blocks, multiply))


def congruence_and_on(
    t: Tensor, spans: Spans, multiply: Multiply | None = None
) -> tuple[Congruence, Tensor]:
    """`congruence` by kernels, and T itself for its next use.

    The gradient of T is added to the one that comes from there, in place: it must be of the making
    of a single function, as of this one.
    """
    trace, norm, t = _SpansCongruence.apply(t, spans, multiply)
    return Congruence(trace, norm), t


class _Congruence(Function):
    @staticmethod
    def forward(
        ctx: Any, t: Tensor, blocks: Blocks, multiply: Multiply | None
    ) -> tuple[Tensor, Tensor]:
        traces, norms, products = [], [], []
        left, right = _spread(t, blocks, multiply), blocks.lay(t)
        for run in blocks.runs:
            a, b = run.of(left), run.of(right)
            if _rows_are_fewer(a):
                p = torch.bmm(a, b.transpose(1, 2))  # A T Tᵀ, [graphs, width, width]
            else:
                p = torch.bmm(a.transpose(1, 2), b)  # Tᵀ A T, [graphs, channels, channels]
            traces.append(p.diagonal(dim1=1, dim2=2).sum(1))
            norms.append((p * p.transpose(1, 2)).sum((1, 2)))
            products.append(p)
        ctx.save_for_backward(t, *products)
        ctx.set_materialize_grads(False)
        ctx.blocks, ctx.multiply = blocks, multiply
        return blocks.unlay_graphs(torch.cat(traces)), blocks.unlay_graphs(torch.cat(norms))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """4 P A T, or 4 A T P for the other P, from the norm, and 2 A T from the trace."""
        t, *products = ctx.saved_tensors
        blocks: Blocks = ctx.blocks
        of_trace, of_norm = (
            None if grad is None else blocks.lay_graphs(grad)[:, None, None] for grad in grads
        )
        # To multiply again is cheap, and A T is as large as T.
        spread, room = _spread(t, blocks, ctx.multiply), blocks.room(t, t.shape[1])
        for run, p in zip(blocks.runs, products, strict=True):
            a, grad = run.of(spread), run.of(room)
            if of_trace is None:
                grad.zero_()
            else:
                torch.mul(a, 2 * of_trace[run.graphs], out=grad)
            if of_norm is not None:
                p = p * (4 * of_norm[run.graphs])
                grad.baddbmm_(*((p, a) if _rows_are_fewer(a) else (a, p)))
        return blocks.unlay(room), None, None


def _spread(t: Tensor, blocks: Blocks, multiply: Multiply | None) -> Tensor:
    """A T, laid out; its zeros keep the padding out of all sums."""
    return blocks.lay_with_zeros(t if multiply is None else multiply(t))


def _rows_are_fewer(blocks: Tensor) -> bool:
    return blocks.shape[1] < blocks.shape[2]


class _SpansCongruence(Function):
    """As `_Congruence`, by kernels."""

    @staticmethod
    def forward(
        ctx: Any, t: Tensor, spans: Spans, multiply: Multiply | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        t = t.contiguous()
        spread = t if multiply is None else multiply(t)
        p = spans.kernels.gram(spread, t, spans.ptr, spans.tiles, spans.period)
        ctx.save_for_backward(spread, p)
        ctx.set_materialize_grads(False)
        ctx.spans = spans
        return *spans.kernels.trace_and_norm(p, spans.ptr, spans.period), t.view_as(t)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        of_trace, of_norm, of_t = (None if grad is None else grad.contiguous() for grad in grads)
        if of_trace is not None or of_norm is not None:
            (spread, p), spans = ctx.saved_tensors, ctx.spans
            where = (spans.ptr, spans.tiles, spans.period)
            of_t = spans.kernels.gram_backward(p, spread, of_trace, of_norm, *where, into=of_t)
        return of_t, None, None
