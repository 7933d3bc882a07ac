"""Softmax together with the entropy of its rows."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.clusters.device import kernels_for
from sagpool.nn.pool.clusters.segments import SegmentPtr
from sagpool.ops.device import on_cpu

CACHE_NUMEL = 2**16  # elements of a block of rows that fits into the cache of a CPU


class SoftAssignment(NamedTuple):
    assignment: Tensor  # [rows, clusters], or as many columns as the logits have
    entropy: Tensor  # [rows]


def soft_assignment(logits: Tensor, bias: Tensor | None = None) -> SoftAssignment:
    """Softmax over the channels, and the entropy of each row.

    The backward pass needs the probabilities only, not their logarithms.

    Args:
        logits: ``[members * rows, channels]``; for kernels they may have more columns than the
            bias, for which the result is zero
        bias: ``[members, 1, channels]``, added to the logits
    """
    if kernels_for(logits) is not None:
        return SoftAssignment(*_KernelAssignment.apply(logits, bias))
    if bias is not None:
        logits = (logits.view(len(bias), -1, logits.shape[1]) + bias).view_as(logits)
    return SoftAssignment(*_SoftAssignment.apply(logits))


def graph_means(x: Tensor, segments: SegmentPtr) -> Tensor:
    """The mean of ``[rows]`` over the rows of each graph, ``[graphs]``, by a kernel."""
    return _GraphMeans.apply(x, segments)


class _SoftAssignment(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> tuple[Tensor, Tensor]:
        s = logits.softmax(1)
        entropy = torch.cat([_entropies(part).sum(1) for part in s.split(_block_rows(s))])
        ctx.save_for_backward(s, entropy)
        return s, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``s (g - Σ s g)`` from the probabilities s, ``- s (log s + H)`` from the entropy H."""
        s, entropy = ctx.saved_tensors
        out = torch.empty_like(s)
        blocks = (tensor.split(_block_rows(s)) for tensor in (out, s, entropy, *grads))
        for grad, s, H, grad_s, grad_entropy in zip(*blocks, strict=True):
            torch.mul(s, grad_s, out=grad)
            common = grad.sum(1) + grad_entropy * H
            grad.addcmul_(s, common[:, None], value=-1)
            grad.addcmul_(_entropies(s), grad_entropy[:, None])
        return (out,)


class _KernelAssignment(Function):
    """One pass in each direction, including the bias."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.kernels, ctx.shape = kernels_for(logits), None if bias is None else bias.shape
        assignment, entropy = ctx.kernels.soft_assignment(logits, bias)
        ctx.save_for_backward(assignment)
        return assignment, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (assignment,) = ctx.saved_tensors
        if ctx.shape is None:
            return ctx.kernels.soft_assignment_backward(assignment, *grads, 1)[0], None
        members, _, columns = ctx.shape
        grad, grad_bias = ctx.kernels.soft_assignment_backward(assignment, *grads, members)
        return grad, grad_bias[..., :columns]


class _GraphMeans(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, segments: SegmentPtr) -> Tensor:
        ctx.segments = segments
        return segments.kernels.graph_means(x.contiguous(), segments)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0].contiguous()
        return ctx.segments.kernels.graph_means_backward(grad, ctx.segments), None


def _block_rows(s: Tensor) -> int:
    """Number of rows to process at a time."""
    return max(1, CACHE_NUMEL // s.shape[1] if on_cpu(s) else len(s))


def _entropies(s: Tensor) -> Tensor:
    """``- s log s``, 0 for s = 0."""
    return s.clamp(min=torch.finfo(s.dtype).tiny).log_().mul_(s).neg_()
