"""The inverse hyperbolic sine, which torch computes one number at a time on a CPU."""

from typing import Any

import torch
from torch import Tensor

from sagpool.ops.device import on_cpu

MOST = 1e18  # larger numbers count as this one, for their squares are infinite in float32


def asinh(x: Tensor) -> Tensor:
    """The inverse hyperbolic sine, with an error below 1e-6.

    On a CPU it comes from torch's vectorised logarithm: with `Tensor.asinh`, it took a tenth of the
    time of a training of `sagnet`.
    """
    return _Asinh.apply(x) if on_cpu(x) else x.asinh()


class _Asinh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        size = x.abs().clamp_(max=MOST)
        return torch.addcmul(x.new_ones(()), size, size).sqrt_().add_(size).log_().copysign_(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * torch.addcmul(x.new_ones(()), x, x).rsqrt()
