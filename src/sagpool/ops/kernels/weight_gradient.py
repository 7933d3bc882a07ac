"""The gradient of the weight of a linear layer, of each member."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import dot, precision

_HEIGHT, _DEPTH = 32, 32
_LEAST_ROWS = 64  # of a chunk
_PROGRAMS = 512  # enough to keep every processor of a large GPU busy


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """``xᵀ g`` of each member, ``[members, in, out]``.

    The result is small and the sum is long. So the rows are divided among several programs if the
    members alone are too few to keep the device busy; their sums are added in a fixed order.

    Args:
        x: ``[members, rows, in]``
        grad: g, ``[members, rows, out]``
    """
    x, grad = x.contiguous(), grad.contiguous()
    members, rows, fan_in = x.shape
    fan_out = grad.shape[2]
    width = 32 if fan_out <= 32 else 64
    across = triton.cdiv(fan_out, width)
    tiles = triton.cdiv(fan_in, _HEIGHT) * across
    chunks = min(triton.cdiv(_PROGRAMS, members * tiles), triton.cdiv(rows, _LEAST_ROWS))
    chunk = triton.cdiv(triton.cdiv(rows, max(1, chunks)), _DEPTH) * _DEPTH
    chunks = max(1, triton.cdiv(rows, max(1, chunk)))
    parts = x.new_empty(chunks, members, fan_in, fan_out)
    _weight_gradient[(tiles, chunks, members)](
        x, grad, parts, rows, chunk, fan_in, fan_out, across,
        PRECISION=precision(), HEIGHT=_HEIGHT, WIDTH=width, DEPTH=_DEPTH, num_warps=2,
        num_stages=3,
    )  # fmt: skip
    return parts[0] if chunks == 1 else parts.sum(0)


@kernel(do_not_specialize=["rows", "chunk", "across"])
def _weight_gradient(
    x, grad, parts, rows, chunk, fan_in, fan_out, across,
    PRECISION: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    tile, number, member = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    i = (tile // across) * HEIGHT + tl.arange(0, HEIGHT)
    j = (tile % across) * WIDTH + tl.arange(0, WIDTH)
    in_i, in_j = i < fan_in, j < fan_out
    start = number * chunk
    end = tl.minimum(start + chunk, rows)
    x += member * rows * fan_in
    grad += member * rows * fan_out
    total = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(start, end, DEPTH):
        row = first + tl.arange(0, DEPTH)
        in_rows = row < end
        at = row.to(tl.int64)
        left = tl.load(
            x + at[None, :] * fan_in + i[:, None], mask=in_i[:, None] & in_rows[None, :], other=0.0
        )
        right = tl.load(
            grad + at[:, None] * fan_out + j[None, :],
            mask=in_rows[:, None] & in_j[None, :],
            other=0.0,
        )
        total = dot(left, right, total, PRECISION)
    parts += (number * tl.num_programs(2) + member) * fan_in * fan_out
    tl.store(parts + i[:, None] * fan_out + j[None, :], total, mask=in_i[:, None] & in_j[None, :])
