"""Sums over neighbours and over the rows of each graph."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.clusters.segments import SegmentPtr
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import span, tile_of

TILE = 1024  # elements per program


def neighbour_sum(x: Tensor, row_ptr: Tensor, col: Tensor) -> Tensor:
    """``A x``, ``[rows, columns]``, for A + I in CSR form with a 1 at each entry."""
    rows, columns = x.shape
    out = torch.empty_like(x)
    width = min((128, 64, 32, 16, 1), key=lambda width: triton.cdiv(columns, width) * (width + 8))
    height = min(64, TILE // width)
    grid = (triton.cdiv(rows, height), triton.cdiv(columns, width))
    _neighbour_sum[grid](
        x, row_ptr, col, out, rows, columns, HEIGHT=height, WIDTH=width, num_warps=1
    )
    return out


@kernel(do_not_specialize=["rows"])
def _neighbour_sum(x, row_ptr, col, out, rows, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_rows, in_columns = row < rows, column < columns
    start = tl.load(row_ptr + row, mask=in_rows, other=0).to(tl.int32)
    end = tl.load(row_ptr + row + 1, mask=in_rows, other=0).to(tl.int32)
    total = tl.zeros((HEIGHT, WIDTH), x.dtype.element_ty)
    for step in range(tl.max(end - start, 0)):
        present = start + step < end
        source = tl.load(col + start + step, mask=present, other=0)
        present = present & (source != row)
        place = x + source.to(tl.int64)[:, None] * columns + column[None, :]
        total += tl.load(place, mask=present[:, None] & in_columns[None, :], other=0.0)
    place = out + row.to(tl.int64)[:, None] * columns + column[None, :]
    tl.store(place, total, mask=in_rows[:, None] & in_columns[None, :])


def coarse_scale(
    assignment: Tensor, row_ptr: Tensor, segments: SegmentPtr, clusters: int
) -> Tensor:
    """``(Tᵀ A 1 + 1)^-1/2``, ``[graphs * clusters]``: the diagonal of D̃^-1/2 of ``Tᵀ A T``.

    Args:
        assignment: T, ``[rows, clusters]``, or more columns; its rows sum to 1
        row_ptr: ``[rows + 1]`` of A + I
        segments: of the rows
        clusters: how many there are
    """
    graphs, columns = segments.graphs, assignment.shape[1]
    out = assignment.new_empty(graphs * clusters)
    width = tile_of(clusters, 64)
    _coarse_scale[(graphs, triton.cdiv(clusters, width))](
        assignment, row_ptr, segments.ptr, out, clusters, columns, segments.period,
        HEIGHT=16, WIDTH=width, num_warps=1,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["clusters", "period"])
def _coarse_scale(
    assignment, row_ptr, ptr, out, clusters, columns, period,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    graph = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < clusters
    start, end, _ = span(ptr, graph, period)
    total = tl.zeros((WIDTH,), assignment.dtype.element_ty)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        in_rows = row < end
        length = tl.load(row_ptr + row + 1, mask=in_rows, other=1) - tl.load(
            row_ptr + row, mask=in_rows, other=0
        )
        degree = tl.maximum(length - 1, 0).to(assignment.dtype.element_ty)
        place = assignment + row.to(tl.int64)[:, None] * columns + column[None, :]
        s = tl.load(place, mask=in_rows[:, None] & (column < columns)[None, :], other=0.0)
        total += tl.sum(degree[:, None] * s, 0)
    tl.store(out + graph * clusters + column, 1 / tl.sqrt(total + 1), mask=in_columns)


def graph_means(x: Tensor, segments: SegmentPtr) -> Tensor:
    """Means over the rows of each graph, ``[rows]`` to ``[graphs]``."""
    out = x.new_empty(segments.graphs)
    _graph_means[(len(out),)](x, segments.ptr, out, segments.period, WIDTH=64, num_warps=1)
    return out


@kernel(do_not_specialize=["period"])
def _graph_means(x, ptr, out, period, WIDTH: tl.constexpr):
    graph = tl.program_id(0)
    start, end, _ = span(ptr, graph, period)
    total = tl.zeros((WIDTH,), x.dtype.element_ty)
    for first in range(start, end, WIDTH):
        row = first + tl.arange(0, WIDTH)
        total += tl.load(x + row, mask=row < end, other=0.0)
    tl.store(out + graph, tl.sum(total, 0) / (end - start).to(x.dtype.element_ty))


def graph_means_backward(grad: Tensor, segments: SegmentPtr) -> Tensor:
    """The gradient of the rows, ``[rows]``, from that of their means, ``[graphs]``."""
    out = grad.new_empty(segments.rows)
    _graph_means_backward[(len(grad),)](
        grad, segments.ptr, out, segments.period, WIDTH=64, num_warps=1
    )
    return out


@kernel(do_not_specialize=["period"])
def _graph_means_backward(grad, ptr, out, period, WIDTH: tl.constexpr):
    graph = tl.program_id(0)
    start, counts, end = span(ptr, graph, period)
    each = tl.load(grad + graph) / (counts - start).to(grad.dtype.element_ty)
    for first in range(start, end, WIDTH):
        row = first + tl.arange(0, WIDTH)
        tl.store(out + row, tl.where(row < counts, each, 0.0), mask=row < end)
