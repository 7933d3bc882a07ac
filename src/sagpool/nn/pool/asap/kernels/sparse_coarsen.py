"""``Sᵀ (A + I) S`` for sparse A and S."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.asap.matrices import GraphRows
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import span

WIDTH = 64  # columns that a program has at a time


def coarsen_sparse(
    alpha: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    graph: Tensor,
    perm: Tensor,
    new_row: Tensor,
    new: GraphRows,
) -> tuple[Tensor, Tensor]:
    """``Sᵀ (A + I) S`` without its diagonal, where column i of S has α_ij in row j.

    S has a column for each kept row. It is sparse, so no product of dense matrices is needed.

    Args:
        alpha: ``[entries]``, α
        row_ptr: ``[old rows + 1]`` int32, of A + I
        col: ``[entries]`` int32, of A + I
        graph: ``[old rows]`` int64, the graph of each row
        perm: ``[new rows]`` int64, the old row of each
        new_row: ``[old rows]`` int64, the new row of each; -1 for none
        new: the new rows

    Returns:
        ``[new rows, columns]``; and ``(A + I) S``, ``[old rows, columns]``, for the gradient
    """
    old_rows, columns = len(graph), new.width
    s, product = (alpha.new_empty(old_rows, columns) for _ in range(2))
    out = alpha.new_empty(new.total, columns)
    of_graphs = (graph, new.ptr, columns, new.period)
    _clear[(old_rows,)](s, *of_graphs, WIDTH=WIDTH, num_warps=1)
    _place[(old_rows,)](alpha, row_ptr, col, new_row, s, *of_graphs, WIDTH=16, num_warps=1)
    _sum[(old_rows,)](
        s, None, row_ptr, col, None, product, *of_graphs, KEPT=False, WIDTH=WIDTH, num_warps=1
    )
    _sum[(new.total,)](
        product, alpha, row_ptr, col, perm, out, *of_graphs, KEPT=True, WIDTH=WIDTH, num_warps=1
    )
    return out, product


def coarsen_sparse_backward(
    grad: Tensor,
    product: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    graph: Tensor,
    new_row: Tensor,
    new: GraphRows,
) -> Tensor:
    """The gradient of α, ``[entries]``, for a symmetric gradient ``[new rows, columns]``."""
    out = grad.new_zeros(len(col))
    _dots[(len(graph),)](
        grad, product, row_ptr, col, new_row, out, graph, new.ptr, grad.shape[1], new.period,
        WIDTH=WIDTH, num_warps=1,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["period"])
def _clear(s, graph, ptr, stride, period, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    start, stop, _ = span(ptr, tl.load(graph + row), period)
    for first in range(0, stop - start, WIDTH):
        j = first + tl.arange(0, WIDTH)
        place = s + row.to(tl.int64) * stride + j
        tl.store(place, tl.zeros((WIDTH,), tl.float32), mask=j < stop - start)


@triton.jit
def _own_column(new_row, row, graph, ptr, period):
    """The first of a graph's new rows, how many they are, and which of them this row becomes.

    The last is negative for a row that is not kept.
    """
    start, stop, _ = span(ptr, tl.load(graph + row), period)
    own = tl.load(new_row + row).to(tl.int32) - start
    return start, stop - start, tl.where(own < stop - start, own, -1)


@kernel(do_not_specialize=["period"])
def _place(
    alpha, row_ptr, col, new_row, s, graph, ptr, stride, period, WIDTH: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    _, _, own = _own_column(new_row, row, graph, ptr, period)
    if own < 0:
        return
    begin, end = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
    for first in range(begin, end, WIDTH):
        entry = first + tl.arange(0, WIDTH)
        inside = entry < end
        node = tl.load(col + entry, mask=inside, other=0).to(tl.int64)
        values = tl.load(alpha + entry, mask=inside, other=0.0)
        tl.store(s + node * stride + own, values, mask=inside)


@kernel(do_not_specialize=["period"])
def _sum(
    x, weight, row_ptr, col, perm, out, graph, ptr, stride, period,
    KEPT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """``Σ_j x_j`` over the entries of each row; of kept rows ``Σ_j α_ij x_j`` without diagonal."""
    row = tl.program_id(0)
    source = tl.load(perm + row) if KEPT else row
    start, stop, _ = span(ptr, tl.load(graph + source), period)
    begin, end = tl.load(row_ptr + source), tl.load(row_ptr + source + 1)
    if KEPT:  # zeros for rows of a filler that do not count
        end = tl.where(row < stop, end, begin)
    for first in range(0, stop - start, WIDTH):
        j = first + tl.arange(0, WIDTH)
        in_j = j < stop - start
        total = tl.zeros((WIDTH,), tl.float32)
        for entry in range(begin, end):
            other = tl.load(col + entry).to(tl.int64)
            values = tl.load(x + other * stride + j, mask=in_j, other=0.0)
            if KEPT:
                values *= tl.load(weight + entry)
            total += values
        if KEPT:
            total = tl.where(j == row - start, 0.0, total)
        tl.store(out + row.to(tl.int64) * stride + j, total, mask=in_j)


@kernel(do_not_specialize=["period"])
def _dots(
    grad, product, row_ptr, col, new_row, out, graph, ptr, stride, period, WIDTH: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    start, columns, own = _own_column(new_row, row, graph, ptr, period)
    if own < 0:
        return
    begin, end = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
    grad += (start + own).to(tl.int64) * stride
    for entry in range(begin, end):
        other = tl.load(col + entry).to(tl.int64)
        total = tl.zeros((WIDTH,), tl.float32)
        for first in range(0, columns, WIDTH):
            j = first + tl.arange(0, WIDTH)
            values = tl.load(product + other * stride + j, mask=j < columns, other=0.0)
            total += values * tl.load(grad + j, mask=j < columns, other=0.0)
        tl.store(out + entry, tl.sum(total, 0))
