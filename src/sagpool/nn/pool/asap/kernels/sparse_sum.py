"""Sums over neighbours in sparse graphs, of rows as long as the graph has columns."""

import torch
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.asap.matrices import GraphRows
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import span

WIDTH = 64


def sum_with_self(
    x: Tensor, row_ptr: Tensor, col: Tensor, graph: Tensor, columns: GraphRows
) -> Tensor:
    """``(A + I) x``, ``[rows, columns]``.

    Args:
        x: ``[rows, columns]``
        row_ptr: ``[rows + 1]`` int32, of A + I
        col: ``[entries]`` int32, of A + I
        graph: ``[rows]`` int64, the graph of each row
        columns: as many columns of a row count as its graph has rows here
    """
    out = torch.empty_like(x)
    _sum[(len(x),)](
        x, row_ptr, col, graph, columns.ptr, out, x.shape[1], columns.period,
        WIDTH=WIDTH, num_warps=1,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["period"])
def _sum(x, row_ptr, col, graph, ptr, out, stride, period, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    start, stop, _ = span(ptr, tl.load(graph + row), period)
    begin, end = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
    out += row.to(tl.int64) * stride
    for first in range(0, stop - start, WIDTH):
        j = first + tl.arange(0, WIDTH)
        in_j = j < stop - start
        total = tl.zeros((WIDTH,), tl.float32)
        for entry in range(begin, end):
            other = tl.load(col + entry).to(tl.int64)
            total += tl.load(x + other * stride + j, mask=in_j, other=0.0)
        tl.store(out + j, total, mask=in_j)
