"""Sums over runs of many consecutive rows."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.readout import MAX_COLUMNS


def sum_of_runs(x: Tensor, ptr: Tensor, weight: Tensor) -> Tensor:
    """The weighted sum over the rows of each run, ``[runs, columns]``; 0 for an empty run.

    Args:
        x: ``[rows, columns]``
        ptr: ``[runs + 1]``, the first row of each run, and the end
        weight: ``[rows]``
    """
    x = x.contiguous()
    runs, columns = len(ptr) - 1, x.shape[1]
    out = x.new_empty(runs, columns)
    if not runs or not columns:
        return out
    width = min(MAX_COLUMNS, triton.next_power_of_2(columns))
    _sum_of_runs[(runs, triton.cdiv(columns, width))](
        x, ptr, weight.contiguous(), out, columns,
        HEIGHT=2048 // width, WIDTH=width, num_warps=4,
    )  # fmt: skip
    return out


@kernel()
def _sum_of_runs(x, ptr, weight, out, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    run = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    start, end = tl.load(ptr + run), tl.load(ptr + run + 1)
    total = tl.zeros((HEIGHT, WIDTH), x.dtype.element_ty)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        in_run = row < end
        place = x + row.to(tl.int64)[:, None] * columns + column[None, :]
        values = tl.load(place, mask=in_run[:, None] & in_columns[None, :], other=0.0)
        total += values * tl.load(weight + row, mask=in_run, other=0.0)[:, None]
    tl.store(out + run * columns + column, tl.sum(total, 0), mask=in_columns)
