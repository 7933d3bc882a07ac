"""Softmax together with the entropy of its rows."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.diffpool.device import kernels_for
from sagpool.nn.pool.diffpool.segments import Spans
from sagpool.ops.device import on_cpu

CACHED = 2**16  # numbers


class SoftAssignment(NamedTuple):
    share: Tensor  # [rows, clusters], or as many columns as the logits have
    entropy: Tensor  # [rows]


def soft_assignment(logits: Tensor, bias: Tensor | None = None) -> SoftAssignment:
    """Softmax over the channels, and the entropy of each row.

    Only the shares are kept for the backward pass, not their logarithms as well.

    Args:
        logits: ``[members * rows, channels]``; where there are kernels, they may have more
            columns than the bias has, of which zeros are made
        bias: ``[members, 1, channels]``, added to the logits
    """
    if kernels_for(logits) is not None:
        return SoftAssignment(*_KernelAssignment.apply(logits, bias))
    if bias is not None:
        logits = (logits.view(len(bias), -1, logits.shape[1]) + bias).view_as(logits)
    return SoftAssignment(*_SoftAssignment.apply(logits))


def mean_of_graphs(x: Tensor, spans: Spans) -> Tensor:
    """The mean of ``[rows]`` over the rows of each graph, ``[graphs]``, by a kernel."""
    return _MeanOfGraphs.apply(x, spans)


class _SoftAssignment(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> tuple[Tensor, Tensor]:
        share = logits.softmax(1)
        entropy = torch.cat([_entropies(part).sum(1) for part in share.split(_at_once(share))])
        ctx.save_for_backward(share, entropy)
        return share, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``s (g - Σ s g)`` from the shares, ``- s (log s + H)`` from the entropy H."""
        share, entropy = ctx.saved_tensors
        out = torch.empty_like(share)
        parts = (tensor.split(_at_once(share)) for tensor in (out, share, entropy, *grads))
        for grad, s, H, of_share, of_entropy in zip(*parts, strict=True):
            torch.mul(s, of_share, out=grad)
            common = grad.sum(1) + of_entropy * H
            grad.addcmul_(s, common[:, None], value=-1)
            grad.addcmul_(_entropies(s), of_entropy[:, None])
        return (out,)


class _KernelAssignment(Function):
    """One pass each way, the bias included."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.kernels, ctx.shape = kernels_for(logits), None if bias is None else bias.shape
        share, entropy = ctx.kernels.soft_assignment(logits, bias)
        ctx.save_for_backward(share)
        return share, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (share,) = ctx.saved_tensors
        if ctx.shape is None:
            return ctx.kernels.soft_assignment_backward(share, *grads, 1)[0], None
        members, _, columns = ctx.shape
        of_logits, of_bias = ctx.kernels.soft_assignment_backward(share, *grads, members)
        return of_logits, of_bias[..., :columns]


class _MeanOfGraphs(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, spans: Spans) -> Tensor:
        ctx.spans = spans
        return spans.kernels.graph_means(x.contiguous(), spans.ptr, spans.period)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        spans, grad = ctx.spans, grads[0].contiguous()
        return spans.kernels.graph_means_backward(grad, spans.ptr, spans.rows, spans.period), None


def _at_once(share: Tensor) -> int:
    """How many rows; on a CPU so few that what is computed of them stays in its cache."""
    return max(1, CACHED // share.shape[1] if on_cpu(share) else len(share))


def _entropies(share: Tensor) -> Tensor:
    """``- s log s``, 0 for s = 0."""
    return share.clamp(min=torch.finfo(share.dtype).tiny).log_().mul_(share).neg_()
