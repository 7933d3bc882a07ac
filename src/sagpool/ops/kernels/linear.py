"""A linear layer of each member, if wanted with bias, ReLU and a score."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import DEPTH, dot, precision, tile_of
from sagpool.ops.kernels.scores import add_scores, no_scores, score_columns, store_scores

MAX_WIDTH = 128
_PROGRAMS = 2048  # enough to keep every processor of a large GPU busy


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    score_weight: Tensor | None = None,
    *,
    relu: bool = False,
    out: Tensor | None = None,
    add: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``h = x W + b``, if wanted with ReLU, and ``h v``, in one pass.

    Args:
        x: ``[members, rows, in]``
        weight: W, ``[members, in, out]`` with any strides
        bias: b, ``[members, 1, out]``, if any
        score_weight: v, ``[members, out, scores]``, if any
        relu: whether h is ``relu(x W + b)``
        out: ``[members, rows, out]``, the buffer for h, if any; the rows of a member are contiguous
        add: whether h is added to what ``out`` holds

    Returns:
        ``[members, rows, out]``, and ``[members * rows, scores]`` if v is given
    """
    members, rows, fan_in = x.shape
    fan_out, x = weight.shape[2], x if x[0].is_contiguous() else x.contiguous()
    h = x.new_empty(members, rows, fan_out) if out is None else out
    assert h[0].is_contiguous(), "the kernel writes the rows of a member one after the other"
    y = None if score_weight is None else x.new_empty(members * rows, score_weight.shape[2])
    width = tile_of(fan_out, MAX_WIDTH)
    tile = _tile(fan_in, width, transposed=weight.stride(2) != 1)
    down, across = triton.cdiv(rows, tile["HEIGHT"]), 1
    if score_weight is None and down * members < _PROGRAMS:
        across = triton.cdiv(fan_out, width)  # few rows, so the columns are divided, too
    _linear[(down, members, across)](
        x, weight, bias, score_weight, h, y, rows, fan_in, fan_out, x.stride(0), h.stride(0),
        *weight.stride(), 0 if bias is None else bias.stride(0),
        0 if score_weight is None else score_weight.stride(0),
        BIAS=bias is not None, RELU=relu, ADD=add, PRECISION=precision(), WIDTH=width,
        DEPTH=DEPTH, num_stages=3, **score_columns(score_weight), **tile,
    )  # fmt: skip
    return h, y


def _tile(fan_in: int, width: int, *, transposed: bool) -> dict[str, int]:
    """Measured to be the fastest."""
    if width < MAX_WIDTH:
        return {"HEIGHT": 128 if width < 64 and fan_in >= DEPTH else 64, "num_warps": 2}
    return {"HEIGHT": 64, "num_warps": 4} if transposed else {"HEIGHT": 32, "num_warps": 2}


@kernel(do_not_specialize=["rows"])
def _linear(
    x, weight, bias, score_weight, h, y, rows, fan_in, fan_out, x_member, h_member, weight_member,
    weight_in, weight_out, bias_member, score_weight_member,
    BIAS: tl.constexpr, RELU: tl.constexpr, ADD: tl.constexpr, PRECISION: tl.constexpr,
    SCORES: tl.constexpr, PADDED: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    member, first_row = tl.program_id(1).to(tl.int64), tl.program_id(0) * HEIGHT
    i = tl.arange(0, HEIGHT)
    in_rows = first_row + i < rows
    # Instead of a mask, which takes more instructions. What is past the end is not stored.
    in_x = tl.minimum(i, rows - 1 - first_row)
    # Offsets into whole tensors need 64 bits; within a tile 32 are enough.
    x += member * x_member + first_row.to(tl.int64) * fan_in
    h += member * h_member + first_row.to(tl.int64) * fan_out
    weight += member * weight_member
    if SCORES > 0:
        score_weight += member * score_weight_member
    score = no_scores(HEIGHT, SCORES, PADDED, tl.float32)
    for first in range(tl.program_id(2) * WIDTH, fan_out, tl.num_programs(2) * WIDTH):
        j = first + tl.arange(0, WIDTH)
        in_j = j < fan_out
        total = tl.zeros((HEIGHT, WIDTH), tl.float32)
        for step in range(0, fan_in, DEPTH):
            k = step + tl.arange(0, DEPTH)
            in_k = k < fan_in
            left = tl.load(
                x + (in_x[:, None] * fan_in + k[None, :]),
                mask=in_k[None, :],
                other=0.0,
            )
            right = tl.load(
                weight + (k[:, None] * weight_in + j[None, :] * weight_out),
                mask=in_k[:, None] & in_j[None, :],
                other=0.0,
            )
            total = dot(left, right, total, PRECISION)
        if BIAS:
            total += tl.load(bias + member * bias_member + j, mask=in_j, other=0.0)[None, :]
        if RELU:
            # Not a maximum, which would turn NaN into 0.
            total = tl.where(total < 0, 0.0, total)
        score = add_scores(score, total, score_weight, j, in_j, SCORES, PADDED)
        mask = in_rows[:, None] & in_j[None, :]
        place = h + (i[:, None] * fan_out + j[None, :])
        if ADD:
            total += tl.load(place, mask=mask, other=0.0)
        tl.store(place, total, mask=mask)
    if SCORES > 0:
        at = member * rows + first_row + i
        store_scores(score, y + at * SCORES, 1, in_rows, SCORES, PADDED)
