"""What is small beside the products: sums over neighbours and over the rows of each graph."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.ragged import span, tile_of

NUMBERS = 1024  # that one program holds


def neighbour_sum(x: Tensor, row_ptr: Tensor, col: Tensor) -> Tensor:
    """``A x``, ``[rows, columns]``, for the matrix A + I that has a 1 at each entry."""
    rows, columns = x.shape
    out = torch.empty_like(x)
    width = min((128, 64, 32, 16, 1), key=lambda width: triton.cdiv(columns, width) * (width + 8))
    height = min(64, NUMBERS // width)
    grid = (triton.cdiv(rows, height), triton.cdiv(columns, width))
    _neighbour_sum[grid](
        x, row_ptr, col, out, rows, columns, HEIGHT=height, WIDTH=width, num_warps=1
    )
    return out


@triton.jit
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


def coarse_scale(share: Tensor, row_ptr: Tensor, ptr: Tensor, period: int, clusters: int) -> Tensor:
    """``(Tᵀ A 1 + 1)^-1/2``, ``[graphs * clusters]``: the diagonal of D̃^-1/2 of ``Tᵀ A T``.

    Args:
        share: T, ``[rows, clusters]``, or more columns; its rows sum to 1
        row_ptr: ``[rows + 1]`` of A + I
        ptr: ``[graphs + 1]``
        period: of the fillers among the graphs
        clusters: how many there are
    """
    graphs, columns = len(ptr) - 1, share.shape[1]
    out = share.new_empty(graphs * clusters)
    width = tile_of(clusters, 64)
    _coarse_scale[(graphs, triton.cdiv(clusters, width))](
        share, row_ptr, ptr, out, clusters, columns, period, HEIGHT=16, WIDTH=width, num_warps=1
    )
    return out


@triton.jit
def _coarse_scale(
    share, row_ptr, ptr, out, clusters, columns, period, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    graph = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < clusters
    start, end, _ = span(ptr, graph, period)
    total = tl.zeros((WIDTH,), share.dtype.element_ty)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        in_rows = row < end
        length = tl.load(row_ptr + row + 1, mask=in_rows, other=1) - tl.load(
            row_ptr + row, mask=in_rows, other=0
        )
        degree = tl.maximum(length - 1, 0).to(share.dtype.element_ty)
        place = share + row.to(tl.int64)[:, None] * columns + column[None, :]
        s = tl.load(place, mask=in_rows[:, None] & in_columns[None, :], other=0.0)
        total += tl.sum(degree[:, None] * s, 0)
    tl.store(out + graph * clusters + column, 1 / tl.sqrt(total + 1), mask=in_columns)


def graph_means(x: Tensor, ptr: Tensor, period: int) -> Tensor:
    """Means over the rows of each graph, ``[rows]`` to ``[graphs]``; of a filler, its first row."""
    out = x.new_empty(len(ptr) - 1)
    _graph_means[(len(out),)](x, ptr, out, period, WIDTH=64, num_warps=1)
    return out


@triton.jit
def _graph_means(x, ptr, out, period, WIDTH: tl.constexpr):
    graph = tl.program_id(0)
    start, end, _ = span(ptr, graph, period)
    total = tl.zeros((WIDTH,), x.dtype.element_ty)
    for first in range(start, end, WIDTH):
        row = first + tl.arange(0, WIDTH)
        total += tl.load(x + row, mask=row < end, other=0.0)
    tl.store(out + graph, tl.sum(total, 0) / (end - start).to(x.dtype.element_ty))


def graph_means_backward(grad: Tensor, ptr: Tensor, rows: int, period: int) -> Tensor:
    """The gradient of the rows, ``[rows]``, from that of their means, ``[graphs]``."""
    out = grad.new_empty(rows)
    _graph_means_backward[(len(grad),)](grad, ptr, out, period, WIDTH=64, num_warps=1)
    return out


@triton.jit
def _graph_means_backward(grad, ptr, out, period, WIDTH: tl.constexpr):
    graph = tl.program_id(0)
    start, counts, end = span(ptr, graph, period)
    each = tl.load(grad + graph) / (counts - start).to(grad.dtype.element_ty)
    for first in range(start, end, WIDTH):
        row = first + tl.arange(0, WIDTH)
        tl.store(out + row, tl.where(row < counts, each, 0.0), mask=row < end)


def link_loss(
    norm: Tensor | None,
    trace: Tensor,
    gram_norm: Tensor,
    ptr: Tensor,
    row_ptr: Tensor,
    least: float,
) -> tuple[Tensor, Tensor]:
    """``‖A - S Sᵀ‖ / N²`` of each graph, and the square of its numerator, ``[graphs]`` each.

    Args:
        norm: ``‖A‖²``, ``[graphs]``; None where it is as many as A has entries
        trace: ``tr(Sᵀ A S)``, ``[graphs]``
        gram_norm: ``‖Sᵀ S‖²``, ``[graphs]``
        ptr: ``[graphs + 1]``
        row_ptr: ``[rows + 1]`` of A + I
        least: what the square is at least
    """
    out, square = torch.empty_like(trace), torch.empty_like(trace)
    graphs = len(trace)
    _link_loss[(triton.cdiv(graphs, 128),)](
        norm,
        trace,
        gram_norm,
        ptr,
        row_ptr,
        out,
        square,
        graphs,
        least,
        COUNT=norm is None,
        WIDTH=128,
        num_warps=4,
    )
    return out, square


@triton.jit
def _link_loss(
    norm,
    trace,
    gram_norm,
    ptr,
    row_ptr,
    out,
    square,
    graphs,
    least,
    COUNT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    graph = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    mask = graph < graphs
    start = tl.load(ptr + graph, mask=mask, other=0)
    end = tl.load(ptr + graph + 1, mask=mask, other=1)
    nodes = (end - start).to(tl.float32)
    if COUNT:
        entries = tl.load(row_ptr + end, mask=mask, other=0) - tl.load(
            row_ptr + start, mask=mask, other=0
        )
        total = entries.to(tl.float32) - nodes
    else:
        total = tl.load(norm + graph, mask=mask, other=0.0)
    total -= 2 * tl.load(trace + graph, mask=mask, other=0.0)
    total += tl.load(gram_norm + graph, mask=mask, other=0.0)
    tl.store(square + graph, total, mask=mask)
    total = tl.where(total < least, least, total)  # not a maximum, which would lose a NaN
    tl.store(out + graph, tl.sqrt(total) / (nodes * nodes), mask=mask)


def link_loss_backward(
    grad: Tensor, square: Tensor, ptr: Tensor, least: float
) -> tuple[Tensor, Tensor]:
    """The gradients of both norms and of the trace, ``[graphs]`` each."""
    of_norm, of_trace = torch.empty_like(square), torch.empty_like(square)
    graphs = len(square)
    _link_loss_backward[(triton.cdiv(graphs, 128),)](
        grad, square, ptr, of_norm, of_trace, graphs, least, WIDTH=128, num_warps=4
    )
    return of_norm, of_trace


@triton.jit
def _link_loss_backward(grad, square, ptr, of_norm, of_trace, graphs, least, WIDTH: tl.constexpr):
    graph = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    mask = graph < graphs
    nodes = tl.load(ptr + graph + 1, mask=mask, other=1) - tl.load(ptr + graph, mask=mask, other=0)
    nodes = nodes.to(tl.float32)
    total = tl.load(square + graph, mask=mask, other=1.0)
    slope = 0.5 / (tl.sqrt(tl.where(total < least, least, total)) * nodes * nodes)
    back = tl.load(grad + graph, mask=mask, other=0.0) * tl.where(total < least, 0.0, slope)
    tl.store(of_norm + graph, back, mask=mask)
    tl.store(of_trace + graph, -2 * back, mask=mask)
