"""Triton kernels for the walks over rows that take most of a step on a GPU.

To be imported only where Triton is. The tests run it on the CPU, through Triton's interpreter.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Numbers that one program holds: enough loads under way, few enough registers.
TILE = 1024
MOST_COLUMNS = 128


def sum_of_rows(x: Tensor, row_ptr: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """``out[i]`` = the weighted sum of the rows ``index[row_ptr[i]:row_ptr[i + 1]]`` of x.

    Each number of the result is summed by one thread in a fixed order: no atomics, no messages in
    memory, the same bits every time.
    """
    x, weight = x.contiguous(), weight.contiguous()
    rows, columns = len(row_ptr) - 1, x.shape[1]
    out = x.new_empty(rows, columns)
    if not rows or not columns:
        return out
    width = min(MOST_COLUMNS, triton.next_power_of_2(columns))
    height = min(128, TILE // width)
    grid = (triton.cdiv(rows, height), triton.cdiv(columns, width))
    # One warp: with more, Triton 3.6 fails to compile some widths with 64-bit indices.
    _sum_of_rows[grid](
        x, row_ptr, index, weight, out, rows, columns, HEIGHT=height, WIDTH=width, num_warps=1
    )
    return out


@triton.jit
def _sum_of_rows(
    x, row_ptr, index, weight, out, rows, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_rows, in_columns = row < rows, column < columns
    start = tl.load(row_ptr + row, mask=in_rows, other=0).to(tl.int32)
    end = tl.load(row_ptr + row + 1, mask=in_rows, other=0).to(tl.int32)
    total = tl.zeros((HEIGHT, WIDTH), x.dtype.element_ty)
    for step in range(tl.max(end - start, 0)):
        entry = start + step
        present = entry < end
        source = tl.load(index + entry, mask=present, other=0).to(tl.int64)
        share = tl.load(weight + entry, mask=present, other=0.0)
        values = tl.load(
            x + source[:, None] * columns + column[None, :],
            mask=present[:, None] & in_columns[None, :],
            other=0.0,
        )
        total += share[:, None] * values
    place = out + row.to(tl.int64)[:, None] * columns + column[None, :]
    tl.store(place, total, mask=in_rows[:, None] & in_columns[None, :])


def dots_of_rows(x: Tensor, rows: Tensor, y: Tensor) -> Tensor:
    """``out[i]`` = the dot product of row ``rows[i]`` of x with row i of y, ``[chosen]``."""
    x, y = x.contiguous(), y.contiguous()
    chosen, columns = y.shape
    out = y.new_empty(chosen)
    width = min(MOST_COLUMNS, triton.next_power_of_2(columns))
    height = min(128, TILE // width)
    _dots_of_rows[(triton.cdiv(chosen, height),)](
        x, rows, y, out, chosen, columns, HEIGHT=height, WIDTH=width, num_warps=2
    )
    return out


@triton.jit
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


def mean_and_max(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ‖ maximum over the rows of each segment, and the row of each maximum.

    Args:
        x: ``[rows, columns]``
        ptr: ``[segments + 1]``; no segment is empty

    Returns:
        ``[segments, 2 * columns]``, and ``[segments, columns]`` int32: the first such row
    """
    x = x.contiguous()
    segments, columns = len(ptr) - 1, x.shape[1]
    out = x.new_empty(segments, 2 * columns)
    arg = torch.empty(segments, columns, dtype=torch.int32, device=x.device)
    width = min(MOST_COLUMNS, triton.next_power_of_2(columns))
    grid = (segments, triton.cdiv(columns, width))
    _mean_and_max[grid](
        x, ptr, out, arg, columns, HEIGHT=max(1, TILE // width), WIDTH=width, num_warps=2
    )
    return out, arg


@triton.jit
def _mean_and_max(x, ptr, out, arg, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    start, end = tl.load(ptr + segment), tl.load(ptr + segment + 1)
    total = tl.zeros((WIDTH,), x.dtype.element_ty)
    largest = tl.full((WIDTH,), float("-inf"), x.dtype.element_ty)
    where = tl.zeros((WIDTH,), tl.int32) + start.to(tl.int32)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        mask = (row < end)[:, None] & in_columns[None, :]
        place = x + row.to(tl.int64)[:, None] * columns + column[None, :]
        values = tl.load(place, mask=mask, other=0.0)
        total += tl.sum(values, 0)
        candidates = tl.where(mask, values, float("-inf"))
        best = tl.max(candidates, 0)
        at = tl.argmax(candidates, 0)
        better = best > largest
        largest = tl.where(better, best, largest)
        where = tl.where(better, (first + at).to(tl.int32), where)
    # Triton's maximum passes over what is not a number; it must not be lost.
    largest = tl.where(total != total, total, largest)
    base = out + segment * 2 * columns + column
    count = (end - start).to(x.dtype.element_ty)
    tl.store(base, total / count, mask=in_columns)
    tl.store(base + columns, largest, mask=in_columns)
    tl.store(arg + segment * columns + column, where, mask=in_columns)


def mean_and_max_backward(grad: Tensor, arg: Tensor, ptr: Tensor, rows: int) -> Tensor:
    """The gradient of x from that of the mean ‖ maximum, ``[rows, columns]``, in one pass."""
    segments, columns = arg.shape
    out = grad.new_empty(rows, columns)
    width = min(MOST_COLUMNS, triton.next_power_of_2(columns))
    grid = (segments, triton.cdiv(columns, width))
    _mean_and_max_backward[grid](
        grad, arg, ptr, out, columns, HEIGHT=max(1, TILE // width), WIDTH=width, num_warps=2
    )
    return out


@triton.jit
def _mean_and_max_backward(grad, arg, ptr, out, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    start, end = tl.load(ptr + segment), tl.load(ptr + segment + 1)
    base = grad + segment * 2 * columns + column
    of_mean = tl.load(base, mask=in_columns, other=0.0) / (end - start).to(grad.dtype.element_ty)
    of_max = tl.load(base + columns, mask=in_columns, other=0.0)
    where = tl.load(arg + segment * columns + column, mask=in_columns, other=0)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        chosen = row[:, None] == where[None, :]
        values = of_mean[None, :] + tl.where(chosen, of_max[None, :], 0.0)
        place = out + row.to(tl.int64)[:, None] * columns + column[None, :]
        tl.store(place, values, mask=(row < end)[:, None] & in_columns[None, :])
