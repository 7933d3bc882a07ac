"""Sums over neighbours, along the rows of a CSR matrix."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

# Elements per program: enough loads in flight, few enough registers.
TILE = 1024
MAX_COLUMNS = 128
_SCORES = 128  # rows of a program, for one column


def sum_of_rows(x: Tensor, row_ptr: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """``out[i]`` = the weighted sum of the rows ``index[row_ptr[i]:row_ptr[i + 1]]`` of x.

    One thread sums each element of the result in a fixed order: no atomics, no messages in memory,
    and the same bits every time.
    """
    return _sum(x, row_ptr, index, weight.contiguous())


def gcn_of_rows(x: Tensor, row_ptr: Tensor, col: Tensor) -> Tensor:
    """``D̃^-1/2 Ã D̃^-1/2 x`` for the matrix Ã that has a 1 at each entry.

    A degree is the length of a row, so the weights of entries are never in memory.
    """
    return _sum(x, row_ptr, col, None)


def _sum(x: Tensor, row_ptr: Tensor, index: Tensor, weight: Tensor | None) -> Tensor:
    x = x.contiguous()
    rows, columns = len(row_ptr) - 1, x.shape[1]
    out = x.new_empty(rows, columns)
    if not rows or not columns:
        return out
    width = width_of(columns)
    # A program loops as long as its longest row, so it takes few rows if they are wide.
    height = 4 if width == MAX_COLUMNS else min(128, TILE // width)
    grid = (triton.cdiv(rows, height), triton.cdiv(columns, width))
    # One warp: with more, Triton 3.6 fails to compile some widths with 64-bit indices.
    _sum_of_rows[grid](
        x, row_ptr, index, weight, out, rows, columns,
        WEIGHTED=weight is not None, HEIGHT=height, WIDTH=width, num_warps=1,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["rows"])
def _sum_of_rows(
    x, row_ptr, index, weight, out, rows, columns,
    WEIGHTED: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_rows, in_columns = row < rows, column < columns
    start = tl.load(row_ptr + row, mask=in_rows, other=0).to(tl.int32)
    end = tl.load(row_ptr + row + 1, mask=in_rows, other=0).to(tl.int32)
    total = tl.zeros((HEIGHT, WIDTH), x.dtype.element_ty)
    for step in range(tl.max(end - start, 0)):
        entry = start + step
        present = entry < end
        source = tl.load(index + entry, mask=present, other=0)
        if WEIGHTED:
            factor = tl.load(weight + entry, mask=present, other=0.0)
        else:
            factor = _degree_factor(row_ptr, source, present, x.dtype.element_ty)
        values = tl.load(
            x + source.to(tl.int64)[:, None] * columns + column[None, :],
            mask=present[:, None] & in_columns[None, :],
            other=0.0,
        )
        total += factor[:, None] * values
    if not WEIGHTED:
        own = 1 / tl.sqrt(tl.maximum(end - start, 1).to(x.dtype.element_ty))
        total *= own[:, None]
    place = out + row.to(tl.int64)[:, None] * columns + column[None, :]
    tl.store(place, total, mask=in_rows[:, None] & in_columns[None, :])


def max_of_rows(x: Tensor, row_ptr: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of the rows ``index[row_ptr[i]:row_ptr[i + 1]]`` of x, and which row has it.

    Returns:
        ``[rows, columns]``, 0 for an empty row; and ``[rows, columns]`` int32, for an empty row any
    """
    x = x.contiguous()
    rows, columns = len(row_ptr) - 1, x.shape[1]
    out, arg = x.new_empty(rows, columns), index.new_empty((rows, columns), dtype=torch.int32)
    if not rows or not columns:
        return out, arg
    width = width_of(columns)
    height = 4 if width == MAX_COLUMNS else min(128, TILE // width)
    grid = (triton.cdiv(rows, height), triton.cdiv(columns, width))
    _max_of_rows[grid](
        x, row_ptr, index, out, arg, rows, columns, len(x), HEIGHT=height, WIDTH=width, num_warps=1
    )
    return out, arg


@kernel(do_not_specialize=["rows", "sources"])
def _max_of_rows(
    x, row_ptr, index, out, arg, rows, columns, sources, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_rows, in_columns = row < rows, column < columns
    start = tl.load(row_ptr + row, mask=in_rows, other=0).to(tl.int32)
    end = tl.load(row_ptr + row + 1, mask=in_rows, other=0).to(tl.int32)
    best = tl.full((HEIGHT, WIDTH), float("-inf"), x.dtype.element_ty)
    # Empty rows have different places, so that their gradients do not wait for each other.
    own = tl.minimum(row, sources - 1)
    first = tl.load(index + start, mask=start < end, other=0).to(tl.int32)
    which = tl.zeros((HEIGHT, WIDTH), tl.int32) + tl.where(start < end, first, own)[:, None]
    for step in range(tl.max(end - start, 0)):
        present = start + step < end
        source = tl.load(index + start + step, mask=present, other=0)
        values = tl.load(
            x + source.to(tl.int64)[:, None] * columns + column[None, :],
            mask=present[:, None] & in_columns[None, :],
            other=0.0,
        )
        # A NaN is larger than everything.
        better = present[:, None] & ((values > best) | (values != values))
        best = tl.where(better, values, best)
        which = tl.where(better, source.to(tl.int32)[:, None], which)
    best = tl.where((end > start)[:, None], best, 0.0)
    place = row.to(tl.int64)[:, None] * columns + column[None, :]
    mask = in_rows[:, None] & in_columns[None, :]
    tl.store(out + place, best, mask=mask)
    tl.store(arg + place, which, mask=mask)


def gcn_score(x: Tensor, row_ptr: Tensor, col: Tensor, bias: Tensor) -> Tensor:
    """``D̃^-1/2 Ã D̃^-1/2 x + b``, ``[rows]``.

    Args:
        x: ``[rows]``
        row_ptr: ``[rows + 1]`` int32, of Ã, which has a 1 at each entry
        col: ``[entries]`` int32, of Ã
        bias: b, ``[members, 1, 1]``
    """
    rows, out = len(x), torch.empty_like(x)
    _gcn_score[(triton.cdiv(rows, _SCORES),)](
        x, row_ptr, col, bias, out, rows, rows // len(bias), bias.stride(0), HEIGHT=_SCORES,
        num_warps=1,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["rows", "rows_each"])
def _gcn_score(x, row_ptr, col, bias, out, rows, rows_each, bias_member, HEIGHT: tl.constexpr):
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    inside = row < rows
    start = tl.load(row_ptr + row, mask=inside, other=0)
    end = tl.load(row_ptr + row + 1, mask=inside, other=0)
    total = tl.zeros((HEIGHT,), x.dtype.element_ty)
    for step in range(tl.max(end - start, 0)):
        present = start + step < end
        source = tl.load(col + start + step, mask=present, other=0)
        value = tl.load(x + source, mask=present, other=0.0)
        total += _degree_factor(row_ptr, source, present, x.dtype.element_ty) * value
    own = 1 / tl.sqrt(tl.maximum(end - start, 1).to(x.dtype.element_ty))
    member = (row // rows_each).to(tl.int64)
    of_member = tl.load(bias + member * bias_member, mask=inside, other=0.0)
    tl.store(out + row, own * total + of_member, mask=inside)


def gcn_score_backward(
    grad_score: Tensor | None, grad_gate: Tensor | None, gate: Tensor, row_ptr: Tensor, col: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of x and of `gcn_score`, ``[rows]`` each.

    Args:
        grad_score: ``[rows]``, or None for zeros
        grad_gate: ``[rows]``, of tanh of the score, or None for zeros
        gate: that tanh, ``[rows]``
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32
    """
    rows, grad_x, whole = len(gate), torch.empty_like(gate), torch.empty_like(gate)
    _gcn_score_backward[(triton.cdiv(rows, _SCORES),)](
        grad_score, grad_gate, gate, row_ptr, col, grad_x, whole, rows,
        SCORE=grad_score is not None, GATE=grad_gate is not None, HEIGHT=_SCORES, num_warps=1,
    )  # fmt: skip
    return grad_x, whole


@kernel(do_not_specialize=["rows"])
def _gcn_score_backward(
    grad_score, grad_gate, gate, row_ptr, col, grad_x, whole, rows,
    SCORE: tl.constexpr, GATE: tl.constexpr, HEIGHT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    inside = row < rows
    start = tl.load(row_ptr + row, mask=inside, other=0)
    end = tl.load(row_ptr + row + 1, mask=inside, other=0)
    total = tl.zeros((HEIGHT,), gate.dtype.element_ty)
    for step in range(tl.max(end - start, 0)):
        present = start + step < end
        source = tl.load(col + start + step, mask=present, other=0)
        value = _grad_of_score(grad_score, grad_gate, gate, source, present, SCORE, GATE)
        total += _degree_factor(row_ptr, source, present, gate.dtype.element_ty) * value
    own = 1 / tl.sqrt(tl.maximum(end - start, 1).to(gate.dtype.element_ty))
    tl.store(grad_x + row, own * total, mask=inside)
    value = _grad_of_score(grad_score, grad_gate, gate, row, inside, SCORE, GATE)
    tl.store(whole + row, value, mask=inside)


@triton.jit
def _grad_of_score(grad_score, grad_gate, gate, row, present, SCORE, GATE):
    total = tl.zeros_like(row).to(gate.dtype.element_ty)
    if SCORE:
        total += tl.load(grad_score + row, mask=present, other=0.0)
    if GATE:
        tanh = tl.load(gate + row, mask=present, other=0.0)
        total += tl.load(grad_gate + row, mask=present, other=0.0) * (1 - tanh * tanh)
    return total


@triton.jit
def _degree_factor(row_ptr, row, present, dtype):
    """``D̃^-1/2`` of these rows."""
    length = tl.load(row_ptr + row + 1, mask=present, other=1) - tl.load(
        row_ptr + row, mask=present, other=0
    )
    return 1 / tl.sqrt(length.to(dtype))


def width_of(columns: int) -> int:
    """Few widths for numbers of features: most data sets have a number of their own."""
    if columns % 16 and columns > 8:
        return 32
    return min(MAX_COLUMNS, triton.next_power_of_2(columns))


def dots_of_rows(x: Tensor, rows: Tensor, y: Tensor) -> Tensor:
    """``out[i]`` = the dot product of row ``rows[i]`` of x with row i of y, ``[chosen]``."""
    x, y = x.contiguous(), y.contiguous()
    chosen, columns = y.shape
    out = y.new_empty(chosen)
    width = min(MAX_COLUMNS, triton.next_power_of_2(columns))
    height = min(128, TILE // width)
    _dots_of_rows[(triton.cdiv(chosen, height),)](
        x, rows, y, out, chosen, columns, HEIGHT=height, WIDTH=width, num_warps=2
    )
    return out


@kernel(do_not_specialize=["chosen"])
def _dots_of_rows(x, rows, y, out, chosen, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    in_rows = row < chosen
    source = tl.load(rows + row, mask=in_rows, other=0).to(tl.int64)
    total = tl.zeros((HEIGHT,), x.dtype.element_ty)
    for first in range(0, columns, WIDTH):
        column = first + tl.arange(0, WIDTH)
        mask = in_rows[:, None] & (column < columns)[None, :]
        a = tl.load(x + source[:, None] * columns + column[None, :], mask=mask, other=0.0)
        place = y + row.to(tl.int64)[:, None] * columns + column[None, :]
        total += tl.sum(a * tl.load(place, mask=mask, other=0.0), 1)
    tl.store(out + row, total, mask=in_rows)
