"""Elementwise kernels: random numbers and Adam."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

_BLOCK = 1024


def uniform(keys: Tensor, count: int, start: int) -> Tensor:
    """``[members, count]`` float32 in [0, 1): the numbers from ``start`` of SplitMix64's streams.

    Args:
        keys: ``[members]`` int64
        count: how many numbers for each member
        start: position of the first in the stream
    """
    out = torch.empty(len(keys), count, device=keys.device)
    _uniform[(triton.cdiv(count, _BLOCK), len(keys))](
        keys, out, count, start, BLOCK=_BLOCK, num_warps=4
    )
    return out


@kernel(do_not_specialize=["start"])
def _uniform(keys, out, count, start, BLOCK: tl.constexpr):
    member = tl.program_id(1)
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + member).to(tl.uint64)
    position = (start + offset + 1).to(tl.uint64)
    z = key + position * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)
    value = ((z >> 40) & 0xFFFFFF).to(tl.float32) * (1.0 / 16777216)
    tl.store(out + member.to(tl.int64) * count + offset, value, mask=offset < count)


def adam_step(
    weights: Tensor,
    mean: Tensor,
    square: Tensor,
    grad: Tensor,
    scalars: Tensor,
    eps: float,
) -> None:
    """Adam in one pass, in place; see `sagpool.fleet.stack`.

    Args:
        weights: ``[members, numbers]``
        mean: of the gradients, ``[members, numbers]``
        square: of the gradients, ``[members, numbers]``
        grad: ``[members, numbers]``
        scalars: ``[5, members]`` of the same type: weight decay, 1 - β₁, 1 - β₂, rate, and the root
            of the second bias correction
        eps: added to the denominator
    """
    members, numbers = weights.shape
    _adam_step[(triton.cdiv(numbers, _BLOCK), members)](
        weights, mean, square, grad, scalars, members, numbers, eps, BLOCK=_BLOCK, num_warps=4
    )


@kernel(do_not_specialize=["members"])
def _adam_step(
    weights, mean, square, grad, scalars, members, numbers, eps: tl.constexpr, BLOCK: tl.constexpr
):
    member = tl.program_id(1)
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < numbers
    at = member.to(tl.int64) * numbers + offset
    decay = tl.load(scalars + member)
    to_mean = tl.load(scalars + members + member)
    to_square = tl.load(scalars + 2 * members + member)
    rate = tl.load(scalars + 3 * members + member)
    root = tl.load(scalars + 4 * members + member)
    w = tl.load(weights + at, mask=inside, other=0.0)
    g = tl.load(grad + at, mask=inside, other=0.0) + decay * w
    m = tl.load(mean + at, mask=inside, other=0.0)
    s = tl.load(square + at, mask=inside, other=0.0)
    m += to_mean * (g - m)
    s += to_square * (g * g - s)
    w -= rate * (m / (tl.sqrt(s) / root + eps))
    tl.store(mean + at, m, mask=inside)
    tl.store(square + at, s, mask=inside)
    tl.store(weights + at, w, mask=inside)
