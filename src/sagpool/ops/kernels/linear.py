"""A linear layer of every member, with what stands behind it: bias, ReLU and a score."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.ragged import DEPTH, dot, precision, tile_of

MOST_WIDTH = 128


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    beside: Tensor | None = None,
    *,
    into: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """``x W``, or ``h = relu(x W + b)``, and ``h v``, in one pass.

    Args:
        x: ``[members, rows, in]``
        weight: W, ``[members, in, out]`` with any strides
        bias: b, ``[members, 1, out]``, where there is to be a ReLU
        beside: v, ``[members, out, 1]``, if wanted; with a bias only
        into: ``[members, rows, out]``, what ``x W`` is added to; without a bias only

    Returns:
        ``[members, rows, out]``, and ``[members * rows, 1]`` if v is given
    """
    members, rows, fan_in = x.shape
    fan_out, x = weight.shape[2], x.contiguous()
    h = x.new_empty(members, rows, fan_out) if into is None else into
    y = None if beside is None else x.new_empty(members * rows, 1)
    width = tile_of(fan_out, MOST_WIDTH)
    tile = _tile(fan_in, width, transposed=weight.stride(2) != 1)
    _linear[(triton.cdiv(rows, tile["HEIGHT"]), members)](
        x,
        weight,
        bias,
        beside,
        h,
        y,
        rows,
        fan_in,
        fan_out,
        *weight.stride(),
        0 if bias is None else bias.stride(0),
        0 if beside is None else beside.stride(0),
        RELU=bias is not None,
        SCORE=beside is not None,
        ADD=into is not None,
        PRECISION=precision(),
        WIDTH=width,
        DEPTH=DEPTH,
        num_stages=3,
        **tile,
    )
    return h, y


def _tile(fan_in: int, width: int, *, transposed: bool) -> dict[str, int]:
    """As found by trying."""
    if width < MOST_WIDTH:
        return {"HEIGHT": 128 if width < 64 and fan_in >= DEPTH else 64, "num_warps": 2}
    return {"HEIGHT": 64, "num_warps": 4} if transposed else {"HEIGHT": 32, "num_warps": 2}


@triton.jit
def _linear(
    x,
    weight,
    bias,
    beside,
    h,
    y,
    rows,
    fan_in,
    fan_out,
    weight_member,
    weight_in,
    weight_out,
    bias_member,
    beside_member,
    RELU: tl.constexpr,
    SCORE: tl.constexpr,
    ADD: tl.constexpr,
    PRECISION: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):
    member, first_row = tl.program_id(1).to(tl.int64), tl.program_id(0) * HEIGHT
    i = tl.arange(0, HEIGHT)
    in_rows = first_row + i < rows
    # Whole tensors may pass 32 bits, which are enough within a tile.
    at = member * rows + first_row
    x += at * fan_in
    h += at * fan_out
    weight += member * weight_member
    score = tl.zeros((HEIGHT,), tl.float32)
    for first in range(0, fan_out, WIDTH):
        j = first + tl.arange(0, WIDTH)
        in_j = j < fan_out
        total = tl.zeros((HEIGHT, WIDTH), tl.float32)
        for step in range(0, fan_in, DEPTH):
            k = step + tl.arange(0, DEPTH)
            in_k = k < fan_in
            left = tl.load(
                x + (i[:, None] * fan_in + k[None, :]),
                mask=in_rows[:, None] & in_k[None, :],
                other=0.0,
            )
            right = tl.load(
                weight + (k[:, None] * weight_in + j[None, :] * weight_out),
                mask=in_k[:, None] & in_j[None, :],
                other=0.0,
            )
            total = dot(left, right, total, PRECISION)
        if RELU:
            total += tl.load(bias + member * bias_member + j, mask=in_j, other=0.0)[None, :]
            # Not a maximum, which would make 0 of what is not a number.
            total = tl.where(total < 0, 0.0, total)
        if SCORE:
            v = tl.load(beside + member * beside_member + j, mask=in_j, other=0.0)
            score += tl.sum(total * v[None, :], 1)
        mask = in_rows[:, None] & in_j[None, :]
        place = h + (i[:, None] * fan_out + j[None, :])
        if ADD:
            total += tl.load(place, mask=mask, other=0.0)
        tl.store(place, total, mask=mask)
    if SCORE:
        tl.store(y + at + i, score, mask=in_rows)
