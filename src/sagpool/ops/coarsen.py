"""All that an assignment S makes of a level, where there are kernels: one pass back for all."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.blocks import Spans
from sagpool.ops.device import kernels_for

# Rounding may leave less than nothing, and the root has no slope at zero.
LEAST_SQUARE = 1e-12


class Coarsened(NamedTuple):
    x: Tensor  # [graphs, clusters, channels], Sᵀ X
    gram_norm: Tensor  # [graphs], ‖Sᵀ S‖²
    share: Tensor  # [rows of the first level, clusters], T S, or S itself at the first level


def coarsen(share: Tensor, x: Tensor, spans: Spans) -> Coarsened:
    """``Sᵀ X`` and ``‖Sᵀ S‖²`` for the graphs of the first level.

    Args:
        share: S, ``[rows, clusters]``
        x: ``[rows, channels]``
        spans: of the rows
    """
    pooled, gram_norm = _CoarsenFirst.apply(share, x, spans)
    return Coarsened(pooled, gram_norm, share)


def coarsen_again(share: Tensor, x: Tensor, before: Tensor, spans: Spans) -> Coarsened:
    """``Sᵀ X``, ``‖Sᵀ S‖²`` and ``T S`` for graphs that were made by pooling.

    Args:
        share: S, ``[graphs * nodes, clusters]``
        x: ``[graphs * nodes, channels]``
        before: T, ``[rows of the first level, nodes]``
        spans: of the rows of the first level
    """
    return Coarsened(*_CoarsenAgain.apply(share, x, before, spans))


def link_loss(
    norm: Tensor | None, trace: Tensor, gram_norm: Tensor, ptr: Tensor, row_ptr: Tensor
) -> Tensor:
    """``‖A - S Sᵀ‖ / N²`` of each graph, ``[graphs]``, from ``‖A‖² - 2 tr(Sᵀ A S) + ‖Sᵀ S‖²``.

    Args:
        norm: ``‖A‖²``, ``[graphs]``; None at the first level, where entries are counted
        trace: ``[graphs]``
        gram_norm: ``[graphs]``
        ptr: ``[graphs + 1]``, the first row of each graph, and the end
        row_ptr: ``[rows of the first level + 1]``, of A + I
    """
    return _LinkLoss.apply(norm, trace, gram_norm, ptr, row_ptr)


class _LinkLoss(Function):
    @staticmethod
    def forward(
        ctx: Any,
        norm: Tensor | None,
        trace: Tensor,
        gram_norm: Tensor,
        ptr: Tensor,
        row_ptr: Tensor,
    ) -> Tensor:
        ctx.kernels = kernels_for(trace)
        loss, square = ctx.kernels.link_loss(norm, trace, gram_norm, ptr, row_ptr, LEAST_SQUARE)
        ctx.save_for_backward(square, ptr)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        of_norm, of_trace = ctx.kernels.link_loss_backward(
            grads[0].contiguous(), *ctx.saved_tensors, LEAST_SQUARE
        )
        return of_norm if ctx.needs_input_grad[0] else None, of_trace, of_norm, None, None


class _CoarsenFirst(Function):
    @staticmethod
    def forward(ctx: Any, share: Tensor, x: Tensor, spans: Spans) -> tuple[Tensor, Tensor]:
        kernels, where = spans.kernels, (spans.ptr, spans.period)
        share, x = share.contiguous(), x.contiguous()
        gram = kernels.gram(share, share, spans.ptr, spans.tiles, spans.period)
        ctx.save_for_backward(share, x, gram)
        ctx.spans = spans
        return kernels.segment_inner(share, x, *where), kernels.trace_and_norm(gram, *where)[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (share, x, gram), spans = ctx.saved_tensors, ctx.spans
        where = (spans.ptr, spans.tiles, spans.period)
        of_norm = grads[1].contiguous()
        of_share = spans.kernels.gram_backward(gram, share, None, of_norm, *where)
        spans.kernels.segment_outer(x, grads[0].transpose(1, 2), *where, into=of_share)
        of_x = spans.kernels.segment_outer(share, grads[0], *where)
        return of_share, of_x, None


class _CoarsenAgain(Function):
    @staticmethod
    def forward(
        ctx: Any, share: Tensor, x: Tensor, before: Tensor, spans: Spans
    ) -> tuple[Tensor, Tensor, Tensor]:
        s = share.view(spans.graphs, -1, share.shape[1])  # [graphs, nodes, clusters]
        h = x.view(spans.graphs, -1, x.shape[1])  # [graphs, nodes, channels]
        back = s.transpose(1, 2)
        before = before.contiguous()
        gram = torch.bmm(back, s)
        ctx.save_for_backward(s, h, before, gram)
        ctx.spans = spans
        product = spans.kernels.segment_outer(before, s, spans.ptr, spans.tiles, spans.period)
        norm = torch.linalg.vector_norm(gram, dim=(1, 2)).square_()
        return torch.bmm(back, h), norm, product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (s, h, before, gram), spans, kernels = ctx.saved_tensors, ctx.spans, ctx.spans.kernels
        of_x, of_norm, of_product = grads
        of_product = of_product.contiguous()
        # What S gets back from three sides is added up where it is written.
        of_share = torch.bmm(h, of_x.transpose(1, 2))
        of_share.baddbmm_(s, gram * (4 * of_norm)[:, None, None])
        kernels.segment_inner(before, of_product, spans.ptr, spans.period, into=of_share)
        of_before = kernels.segment_outer(
            of_product, s.transpose(1, 2), spans.ptr, spans.tiles, spans.period
        )
        return of_share.flatten(0, 1), torch.bmm(s, of_x).flatten(0, 1), of_before, None
