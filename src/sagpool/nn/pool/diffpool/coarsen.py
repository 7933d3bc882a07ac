"""All that an assignment S makes of a level, where there are kernels: one pass back for all."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.diffpool.device import kernels_for
from sagpool.nn.pool.diffpool.segments import Spans

# Rounding may leave less than nothing, and the root has no slope at zero.
LEAST_SQUARE = 1e-12


class Coarsened(NamedTuple):
    x: Tensor  # [graphs, clusters, channels], Sᵀ X
    gram_norm: Tensor  # [graphs], ‖Sᵀ S‖²
    share: Tensor  # [rows of the first level, as S], T S, or S itself at the first level
    handed: Tensor | None = None  # the same as the share, for its next use alone
    readout: Tensor | None = None  # [graphs, 2 * channels], of Sᵀ X


def coarsen(
    share: Tensor, clusters: int, x: Tensor, spans: Spans, product: Tensor | None = None
) -> Coarsened:
    """``Sᵀ X`` and ``‖Sᵀ S‖²`` for the graphs of the first level.

    S is handed on. Its gradient is added to the one that comes from its next use, in place: that
    must be of the making of a single function, as of `congruence_and_on`.

    Args:
        share: S, ``[rows, clusters]``, or more columns, which are zero; from a softmax: as its
            rows sum to 1, the mean does not depend on it, and sends nothing back
        clusters: how many there are
        x: ``[rows, channels]``
        spans: of the rows
        product: ``X W``, if what is wanted is ``Sᵀ X W`` and mean ‖ maximum of ``Sᵀ X``, which
            need not be in memory for that
    """
    if product is None:
        pooled, gram_norm, handed = _CoarsenFirst.apply(share, clusters, x, spans)
        return Coarsened(pooled, gram_norm, share, handed)
    pooled, gram_norm, handed, readout = _CoarsenProduct.apply(share, clusters, x, product, spans)
    return Coarsened(pooled, gram_norm, share, handed, readout)


def coarsen_again(
    share: Tensor, clusters: int, x: Tensor, before: Tensor, spans: Spans, own: Spans
) -> Coarsened:
    """``Sᵀ X``, ``‖Sᵀ S‖²`` and ``T S`` for graphs that were made by pooling.

    Args:
        share: S, ``[graphs * nodes, clusters]``, or more columns, which are zero
        clusters: how many there are
        x: ``[graphs * nodes, channels]``
        before: T, ``[rows of the first level, nodes]``, or more columns, which are zero
        spans: of the rows of the first level
        own: of the rows of this level
    """
    return Coarsened(*_CoarsenAgain.apply(share, clusters, x, before, spans, own))


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
    def forward(
        ctx: Any, share: Tensor, clusters: int, x: Tensor, spans: Spans
    ) -> tuple[Tensor, Tensor, Tensor]:
        kernels, where = spans.kernels, (spans.ptr, spans.period)
        share, x = share.contiguous(), x.contiguous()
        gram = kernels.gram(share, share, spans.ptr, spans.tiles, spans.period)
        ctx.save_for_backward(share, x, gram)
        ctx.spans = spans
        pooled = kernels.segment_inner(share, x, *where, clusters)
        return pooled, kernels.trace_and_norm(gram, *where)[1], share.view_as(share)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (share, x, gram), spans = ctx.saved_tensors, ctx.spans
        where = (spans.ptr, spans.tiles, spans.period)
        of_pooled, of_norm, of_share = (grad.contiguous() for grad in grads)
        spans.kernels.gram_backward(gram, share, None, of_norm, *where, into=of_share)
        spans.kernels.segment_outer(x, of_pooled.transpose(1, 2), *where, into=of_share)
        of_x = spans.kernels.segment_outer(share, of_pooled, *where)
        return of_share, None, of_x, None


class _CoarsenProduct(Function):
    @staticmethod
    def forward(
        ctx: Any, share: Tensor, clusters: int, x: Tensor, product: Tensor, spans: Spans
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        kernels, where = spans.kernels, (spans.ptr, spans.period)
        share, x, product = share.contiguous(), x.contiguous(), product.contiguous()
        gram = kernels.gram(share, share, spans.ptr, spans.tiles, spans.period)
        readout, arg = kernels.pooled_mean_max(share, x, *where, clusters)
        ctx.save_for_backward(share, product, gram, x, arg)
        ctx.spans, ctx.clusters = spans, clusters
        pooled = kernels.segment_inner(share, product, *where, clusters)
        gram_norm = kernels.trace_and_norm(gram, *where)[1]
        return pooled, gram_norm, share.view_as(share), readout

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (share, product, gram, x, arg), spans = ctx.saved_tensors, ctx.spans
        kernels, where = spans.kernels, (spans.ptr, spans.tiles, spans.period)
        of_pooled, of_norm, of_share, of_readout = (grad.contiguous() for grad in grads)
        kernels.gram_backward(gram, share, None, of_norm, *where, into=of_share)
        kernels.segment_outer(product, of_pooled.transpose(1, 2), *where, into=of_share)
        of_x = kernels.pooled_mean_max_backward(
            of_readout, arg, share, x, *where, ctx.clusters, into=of_share
        )
        return of_share, None, of_x, kernels.segment_outer(share, of_pooled, *where), None


class _CoarsenAgain(Function):
    @staticmethod
    def forward(
        ctx: Any,
        share: Tensor,
        clusters: int,
        x: Tensor,
        before: Tensor,
        spans: Spans,
        own: Spans,
    ) -> tuple[Tensor, Tensor, Tensor]:
        kernels, here = spans.kernels, (own.ptr, own.period)
        share, x, before = share.contiguous(), x.contiguous(), before.contiguous()
        gram = kernels.segment_inner(share, share, *here)
        ctx.save_for_backward(share, x, before, gram)
        ctx.spans, ctx.own = spans, own
        s = share.view(own.graphs, -1, share.shape[1])  # [graphs, nodes, columns]
        product = kernels.segment_outer(before, s, spans.ptr, spans.tiles, spans.period)
        norm = torch.linalg.vector_norm(gram, dim=(1, 2)).square_()
        return kernels.segment_inner(share, x, *here, clusters), norm, product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (share, x, before, gram), spans, own = ctx.saved_tensors, ctx.spans, ctx.own
        kernels, here = spans.kernels, (own.ptr, own.tiles, own.period)
        of_x, of_norm, of_product = (grad.contiguous() for grad in grads)
        # What S gets back from three sides is added up where it is written.
        columns = share.shape[1]
        of_share = kernels.segment_outer(x, of_x.transpose(1, 2), *here, columns=columns)
        by_norm = gram * (4 * of_norm)[:, None, None]
        kernels.segment_outer(share, by_norm, *here, into=of_share)
        s = (own.graphs, -1, columns)
        kernels.segment_inner(before, of_product, spans.ptr, spans.period, into=of_share.view(s))
        of_before = kernels.segment_outer(
            of_product,
            share.view(s).transpose(1, 2),
            spans.ptr,
            spans.tiles,
            spans.period,
            columns=before.shape[1],
        )
        return of_share, None, kernels.segment_outer(share, of_x, *here), of_before, None, None
