"""Adam, and the losses of a step."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

_BLOCK = 1024
_FEW = 128


def adam_step(
    weights: Tensor,
    mean: Tensor,
    square: Tensor,
    grad: Tensor,
    steps: Tensor,
    lr: Tensor,
    weight_decay: Tensor,
    active: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Adam in one pass, in place; see `sagpool.fleet.stack`.

    Args:
        weights: ``[members, numbers]``
        mean: of the gradients, ``[members, numbers]``
        square: of the gradients, ``[members, numbers]``
        grad: ``[members, numbers]``
        steps: ``[members]`` int64, before this step; not changed, since several programs read it
        lr: ``[members]`` float64
        weight_decay: ``[members]`` float64
        active: ``[members]`` bool; the others do not change
        betas: β₁ and β₂
        eps: added to the denominator
    """
    members, numbers = weights.shape
    first, second = betas
    _adam_step[(triton.cdiv(numbers, _BLOCK), members)](
        weights, mean, square, grad, steps, lr, weight_decay, active.view(torch.uint8),
        numbers,
        FIRST=first, LOG2_FIRST=math.log2(first), SECOND=second, LOG2_SECOND=math.log2(second),
        EPS=eps, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip


@kernel()
def _adam_step(
    weights, mean, square, grad, steps, lr, weight_decay, active, numbers,
    FIRST: tl.constexpr, LOG2_FIRST: tl.constexpr, SECOND: tl.constexpr, LOG2_SECOND: tl.constexpr,
    EPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1)
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < numbers
    at = member.to(tl.int64) * numbers + offset
    w = tl.load(weights + at, mask=inside, other=0.0)
    # The settings in float64, then rounded.
    on = tl.load(active + member).to(tl.int64)
    count = tl.maximum(tl.load(steps + member) + on, 1).to(tl.float64)
    # Rates of 0 leave inactive members unchanged.
    to_mean = (on.to(tl.float64) * (1 - FIRST)).to(w.dtype)
    to_square = (on.to(tl.float64) * (1 - SECOND)).to(w.dtype)
    rate = on.to(tl.float64) * tl.load(lr + member) / (1 - tl.exp2(count * LOG2_FIRST))
    root = tl.sqrt(1 - tl.exp2(count * LOG2_SECOND)).to(w.dtype)
    decay = tl.load(weight_decay + member).to(w.dtype)

    g = tl.load(grad + at, mask=inside, other=0.0) + decay * w
    m = tl.load(mean + at, mask=inside, other=0.0)
    s = tl.load(square + at, mask=inside, other=0.0)
    m += to_mean * (g - m)
    s += to_square * (g * g - s)
    w -= rate.to(w.dtype) * (m / (tl.sqrt(s) / root + EPS))
    tl.store(mean + at, m, mask=inside)
    tl.store(square + at, s, mask=inside)
    tl.store(weights + at, w, mask=inside)


def add_losses(sums: Tensor, loss: Tensor, count: Tensor) -> None:
    """``sums += [loss * count, count]``.

    Args:
        sums: ``[2, members]`` float64
        loss: ``[members]``
        count: ``[members]`` int64
    """
    members = len(loss)
    _add_losses[(triton.cdiv(members, _FEW),)](sums, loss, count, members, BLOCK=_FEW, num_warps=1)


@kernel(do_not_specialize=["members"])
def _add_losses(sums, loss, count, members, BLOCK: tl.constexpr):
    member = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = member < members
    mean = tl.load(loss + member, mask=inside, other=0.0)
    number = tl.load(count + member, mask=inside, other=0)
    for_loss, for_count = sums + member, sums + members + member
    total = tl.load(for_loss, mask=inside, other=0.0) + mean * number.to(mean.dtype)
    tl.store(for_loss, total, mask=inside)
    total = tl.load(for_count, mask=inside, other=0.0) + number.to(tl.float64)
    tl.store(for_count, total, mask=inside)
