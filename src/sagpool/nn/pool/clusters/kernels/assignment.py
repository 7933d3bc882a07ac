"""Softmax with the entropy of its rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

TILE = 256  # elements per warp, unless a row has more
PROGRAMS = 8192  # enough to keep every processor of a large GPU busy
# Instead of -inf, since -inf - -inf is NaN.
LOW = tl.constexpr(-1e38)
LOWEST = tl.constexpr(-200.0)
TINY = tl.constexpr(1.1754943508222875e-38)


def _tile(columns: int) -> dict[str, int]:
    """Whole rows, in a single warp if possible: sums over rows then need no synchronisation."""
    width = triton.next_power_of_2(columns)
    return {"HEIGHT": max(1, TILE // width), "WIDTH": width, "num_warps": max(1, width // 512)}


def soft_assignment(logits: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The softmax of ``logits + bias`` and its entropy, ``[rows]``; arguments as for the operator.

    Columns of the logits that the bias does not have become zeros.
    """
    logits = logits.contiguous()
    rows, stored = logits.shape
    columns = stored if bias is None else bias.shape[2]
    members = 1 if bias is None else len(bias)
    assignment, entropy = torch.empty_like(logits), logits.new_empty(rows)
    tile = _tile(stored)
    grid = (triton.cdiv(rows // members, tile["HEIGHT"]), members)
    stride = 0 if bias is None else bias.stride(0)
    _soft_assignment[grid](
        logits, bias, assignment, entropy, rows // members, columns, stored, stride,
        BIAS=bias is not None, **tile,
    )  # fmt: skip
    return assignment, entropy


@kernel(do_not_specialize=["rows"])
def _soft_assignment(
    logits, bias, assignment, entropy, rows, columns, stored, bias_stride,
    BIAS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * HEIGHT
    row, column = tl.arange(0, HEIGHT), tl.arange(0, WIDTH)
    in_rows, in_columns = first + row < rows, column < columns
    # Offsets into whole tensors need 64 bits; within a tile 32 are enough.
    at = member * rows + first
    logits += at * stored
    assignment += at * stored
    place = row[:, None] * stored + column[None, :]
    mask = in_rows[:, None] & (column < stored)[None, :]
    z = tl.load(logits + place, mask=mask, other=0.0)
    if BIAS:
        z += tl.load(bias + member * bias_stride + column, mask=in_columns, other=0.0)[None, :]
    z = tl.where(in_columns[None, :], z, LOW)
    highest = tl.max(tl.where(z > LOW, z, LOW), 1)  # ignores NaN
    z -= highest[:, None]
    s = tl.where(in_columns[None, :], tl.exp(z), 0.0)
    total = tl.sum(s, 1)
    s *= (1 / total)[:, None]
    tl.store(assignment + place, s, mask=mask)
    # log s is z - log total; where z is below LOWEST, s is 0.
    uncertainty = tl.log(total) - tl.sum(s * tl.where(z < LOWEST, LOWEST, z), 1)
    tl.store(entropy + at + row, uncertainty, mask=in_rows)


def soft_assignment_backward(
    assignment: Tensor, grad_assignment: Tensor, grad_entropy: Tensor, members: int
) -> tuple[Tensor, Tensor]:
    """The gradients of the logits, ``[rows, columns]``, and of the bias, in one pass.

    Each program sums over its own rows. The partial sums are then added in a fixed order.

    Args:
        assignment: ``[members * rows, columns]``
        grad_assignment: its gradient
        grad_entropy: ``[members * rows]``
        members: number of biases
    """
    columns, rows = assignment.shape[1], len(assignment) // members
    tile = _tile(columns)
    height = tile["HEIGHT"]
    chunks = max(1, min(triton.cdiv(rows, height), triton.cdiv(PROGRAMS, members)))
    each = triton.cdiv(triton.cdiv(rows, chunks), height) * height
    chunks = triton.cdiv(rows, each)
    grad, grad_bias = torch.empty_like(assignment), assignment.new_empty(members, chunks, columns)
    _soft_assignment_backward[(chunks, members)](
        assignment, grad_assignment.contiguous(), grad_entropy.contiguous(), grad, grad_bias, rows,
        each, columns,
        **tile,
    )  # fmt: skip
    return grad, grad_bias.sum(1, keepdim=True)


@kernel(do_not_specialize=["rows", "each"])
def _soft_assignment_backward(
    assignment, grad_assignment, grad_entropy, grad, grad_bias, rows, each, columns,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    number, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    column = tl.arange(0, WIDTH)
    in_columns = column < columns
    total = tl.zeros((WIDTH,), assignment.dtype.element_ty)
    start = number * each
    end = tl.minimum(start + each, rows)
    row = tl.arange(0, HEIGHT)
    place = row[:, None] * columns + column[None, :]
    for first in range(start, end, HEIGHT):
        in_rows = first + row < end
        at = member * rows + first
        mask = in_rows[:, None] & in_columns[None, :]
        s = tl.load(assignment + at * columns + place, mask=mask, other=0.0)
        g = tl.load(grad_assignment + at * columns + place, mask=mask, other=0.0)
        of_h = tl.load(grad_entropy + at + row, mask=in_rows, other=0.0)
        # The gradients from s and from its entropy together, minus their mean.
        g -= of_h[:, None] * tl.log(tl.maximum(s, TINY))
        back = s * (g - tl.sum(s * g, 1)[:, None])
        tl.store(grad + at * columns + place, back, mask=mask)
        total += tl.sum(back, 0)
    tl.store(
        grad_bias + (member * tl.num_programs(0) + number) * columns + column,
        total,
        mask=in_columns,
    )
