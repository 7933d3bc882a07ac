"""Mean and maximum over the rows of each graph. One program per graph."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

MAX_COLUMNS = 128
LONG = 128  # mean rows of a segment; if there are more, larger tiles are faster


def mean_and_max(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ‖ maximum over the rows of each segment, and the row of each maximum.

    Args:
        x: ``[rows, columns]``
        ptr: ``[segments + 1]``

    Returns:
        ``[segments, 2 * columns]``, 0 ‖ -inf for an empty segment; and ``[segments, columns]``
        int32: the first such row
    """
    x = x.contiguous()
    segments, columns = len(ptr) - 1, x.shape[1]
    out = x.new_empty(segments, 2 * columns)
    arg = torch.empty(segments, columns, dtype=torch.int32, device=x.device)
    if not segments or not columns:
        return out, arg
    width = min(MAX_COLUMNS, triton.next_power_of_2(columns))
    grid = (segments, triton.cdiv(columns, width))
    tile, warps = (2048, 4) if len(x) > LONG * segments else (1024, 2)
    _mean_and_max[grid](
        x, ptr, out, arg, columns, HEIGHT=tile // width, WIDTH=width, num_warps=warps
    )
    return out, arg


@kernel()
def _mean_and_max(x, ptr, out, arg, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    start, end = tl.load(ptr + segment), tl.load(ptr + segment + 1)
    # Reduced only once, after the loop: a reduction takes longer than loading a tile.
    total = tl.zeros((HEIGHT, WIDTH), x.dtype.element_ty)
    largest = tl.full((HEIGHT, WIDTH), float("-inf"), x.dtype.element_ty)
    where = tl.zeros((HEIGHT, WIDTH), tl.int32) + start.to(tl.int32)
    missing = tl.zeros((HEIGHT, WIDTH), tl.int32)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        mask = (row < end)[:, None] & in_columns[None, :]
        place = x + row.to(tl.int64)[:, None] * columns + column[None, :]
        values = tl.load(place, mask=mask, other=0.0)
        total += values
        missing += (values != values).to(tl.int32)
        better = mask & (values > largest)
        largest = tl.where(better, values, largest)
        where = tl.where(better, row.to(tl.int32)[:, None], where)
    best = tl.max(largest, 0)
    where = tl.min(tl.where(largest == best[None, :], where, 2**31 - 1), 0)
    # Comparisons ignore NaN, which must not be lost.
    best = tl.where(tl.sum(missing, 0) > 0, float("nan"), best)
    base = out + segment * 2 * columns + column
    count = tl.maximum(end - start, 1).to(x.dtype.element_ty)
    tl.store(base, tl.sum(total, 0) / count, mask=in_columns)
    tl.store(base + columns, best, mask=in_columns)
    tl.store(arg + segment * columns + column, where, mask=in_columns)


def mean_and_max_backward(grad: Tensor, arg: Tensor, ptr: Tensor, rows: int) -> Tensor:
    """The gradient of x from that of the mean ‖ maximum, ``[rows, columns]``, in one pass."""
    segments, columns = arg.shape
    out = grad.new_empty(rows, columns)
    width = min(MAX_COLUMNS, triton.next_power_of_2(columns))
    grid = (segments, triton.cdiv(columns, width))
    _mean_and_max_backward[grid](
        grad, arg, ptr, out, columns, HEIGHT=1024 // width, WIDTH=width, num_warps=2
    )
    return out


@kernel()
def _mean_and_max_backward(grad, arg, ptr, out, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    start, end = tl.load(ptr + segment), tl.load(ptr + segment + 1)
    base = grad + segment * 2 * columns + column
    count = tl.maximum(end - start, 1).to(grad.dtype.element_ty)
    of_mean = tl.load(base, mask=in_columns, other=0.0) / count
    of_max = tl.load(base + columns, mask=in_columns, other=0.0)
    where = tl.load(arg + segment * columns + column, mask=in_columns, other=0)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        chosen = row[:, None] == where[None, :]
        values = of_mean[None, :] + tl.where(chosen, of_max[None, :], 0.0)
        place = out + row.to(tl.int64)[:, None] * columns + column[None, :]
        tl.store(place, values, mask=(row < end)[:, None] & in_columns[None, :])
