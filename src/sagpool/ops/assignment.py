"""Softmax together with the entropy of its rows."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import on_cpu

CACHED = 2**16  # numbers


class SoftAssignment(NamedTuple):
    share: Tensor  # [rows, clusters]
    entropy: Tensor  # [rows]


def soft_assignment(logits: Tensor) -> SoftAssignment:
    """Softmax over the channels, ``[rows, channels]``, and the entropy of each row.

    Only the shares are kept for the backward pass, not their logarithms as well.
    """
    return SoftAssignment(*_SoftAssignment.apply(logits))


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


def _at_once(share: Tensor) -> int:
    """How many rows; on a CPU so few that what is computed of them stays in its cache."""
    return max(1, CACHED // share.shape[1] if on_cpu(share) else len(share))


def _entropies(share: Tensor) -> Tensor:
    """``- s log s``, 0 for s = 0."""
    return share.clamp(min=torch.finfo(share.dtype).tiny).log_().mul_(share).neg_()
