"""Softmax with the entropy of its rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 256  # numbers of one warp, unless a row has more
PROGRAMS = 8192  # enough for every processor of a large GPU to be busy all the time
# In place of minus infinity, whose difference to itself is not a number.
LOW = tl.constexpr(-1e38)
LOWEST = tl.constexpr(-200.0)
TINY = tl.constexpr(1.1754943508222875e-38)


def _tile(columns: int) -> dict[str, int]:
    """Whole rows, of a single warp where possible: it need not wait for others to add them up."""
    width = triton.next_power_of_2(columns)
    return {"HEIGHT": max(1, TILE // width), "WIDTH": width, "num_warps": max(1, width // 512)}


def soft_assignment(logits: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The softmax of ``logits + bias``, as wide as the logits, and its entropy, ``[rows]``.

    Args:
        logits: ``[members * rows, columns]``, or more columns than the bias has, of which zeros
            are made
        bias: ``[members, 1, columns]``, if any
    """
    logits = logits.contiguous()
    rows, stored = logits.shape
    columns = stored if bias is None else bias.shape[2]
    members = 1 if bias is None else len(bias)
    share, entropy = torch.empty_like(logits), logits.new_empty(rows)
    tile = _tile(stored)
    grid = (triton.cdiv(rows // members, tile["HEIGHT"]), members)
    stride = 0 if bias is None else bias.stride(0)
    _soft_assignment[grid](
        logits,
        bias,
        share,
        entropy,
        rows // members,
        columns,
        stored,
        stride,
        BIAS=bias is not None,
        **tile,
    )
    return share, entropy


@triton.jit
def _soft_assignment(
    logits,
    bias,
    share,
    entropy,
    rows,
    columns,
    stored,
    bias_stride,
    BIAS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * HEIGHT
    row, column = tl.arange(0, HEIGHT), tl.arange(0, WIDTH)
    in_rows, in_columns = first + row < rows, column < columns
    # Whole tensors may pass 32 bits, which are enough within a tile.
    at = member * rows + first
    logits += at * stored
    share += at * stored
    place = row[:, None] * stored + column[None, :]
    mask = in_rows[:, None] & (column < stored)[None, :]
    z = tl.load(logits + place, mask=mask, other=0.0)
    if BIAS:
        z += tl.load(bias + member * bias_stride + column, mask=in_columns, other=0.0)[None, :]
    z = tl.where(in_columns[None, :], z, LOW)
    highest = tl.max(tl.where(z > LOW, z, LOW), 1)  # of those that are numbers
    z -= highest[:, None]
    s = tl.where(in_columns[None, :], tl.exp(z), 0.0)
    total = tl.sum(s, 1)
    s *= (1 / total)[:, None]
    tl.store(share + place, s, mask=mask)
    # log s is z - log total; where z is lower than that, s is nothing.
    uncertainty = tl.log(total) - tl.sum(s * tl.where(z < LOWEST, LOWEST, z), 1)
    tl.store(entropy + at + row, uncertainty, mask=in_rows)


def soft_assignment_backward(
    share: Tensor, of_share: Tensor, of_entropy: Tensor, members: int
) -> tuple[Tensor, Tensor]:
    """The gradients of the logits, ``[rows, columns]``, and of the bias, in one pass.

    Each program sums over rows of its own; the few sums are added up afterwards, in the same order
    every time.

    Args:
        share: ``[members * rows, columns]``
        of_share: its gradient
        of_entropy: ``[members * rows]``
        members: how many have a bias of their own
    """
    columns, rows = share.shape[1], len(share) // members
    tile = _tile(columns)
    height = tile["HEIGHT"]
    spans = max(1, min(triton.cdiv(rows, height), triton.cdiv(PROGRAMS, members)))
    each = triton.cdiv(triton.cdiv(rows, spans), height) * height
    spans = triton.cdiv(rows, each)
    grad, of_bias = torch.empty_like(share), share.new_empty(members, spans, columns)
    _soft_assignment_backward[(spans, members)](
        share,
        of_share.contiguous(),
        of_entropy.contiguous(),
        grad,
        of_bias,
        rows,
        each,
        columns,
        **tile,
    )
    return grad, of_bias.sum(1, keepdim=True)


@triton.jit
def _soft_assignment_backward(
    share,
    of_share,
    of_entropy,
    grad,
    of_bias,
    rows,
    each,
    columns,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    number, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    column = tl.arange(0, WIDTH)
    in_columns = column < columns
    total = tl.zeros((WIDTH,), share.dtype.element_ty)
    start = number * each
    end = tl.minimum(start + each, rows)
    row = tl.arange(0, HEIGHT)
    place = row[:, None] * columns + column[None, :]
    for first in range(start, end, HEIGHT):
        in_rows = first + row < end
        at = member * rows + first
        mask = in_rows[:, None] & in_columns[None, :]
        s = tl.load(share + at * columns + place, mask=mask, other=0.0)
        g = tl.load(of_share + at * columns + place, mask=mask, other=0.0)
        of_h = tl.load(of_entropy + at + row, mask=in_rows, other=0.0)
        # All in one: what s gets back from itself and from its entropy, less the mean of that.
        g -= of_h[:, None] * tl.log(tl.maximum(s, TINY))
        back = s * (g - tl.sum(s * g, 1)[:, None])
        tl.store(grad + at * columns + place, back, mask=mask)
        total += tl.sum(back, 0)
    tl.store(
        of_bias + (member * tl.num_programs(0) + number) * columns + column, total, mask=in_columns
    )
