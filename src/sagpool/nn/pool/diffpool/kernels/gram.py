"""Trace and norm of Tᵀ A T for each graph, from the smaller of two matrices P.

P is A T Tᵀ for a graph that has fewer rows than T has columns, and Tᵀ A T for others. Either has
no more rows and columns than the graph in T: it lies in their place of a tensor of that size,
followed by zeros where a row of P ends within what is read at once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.ragged import (
    DEPTH,
    HEIGHT,
    dot,
    precision,
    span,
    tile_of,
    tile_rows,
    warps_of,
)

# Programs that share the columns of a tile of rows of P.
MOST_PARTS = 4


def gram(spread: Tensor, t: Tensor, ptr: Tensor, tiles: Tensor, period: int) -> Tensor:
    """P of each graph, in the room of ``[rows, columns]``.

    P has no more rows than its graph, so their tiles do for it.

    Args:
        spread: A T, ``[rows, columns]``
        t: ``[rows, columns]``
        ptr: ``[graphs + 1]``
        tiles: of the rows, from `row_tiles`
        period: of the fillers among the graphs
    """
    columns, out = t.shape[1], torch.empty_like(t)
    width = tile_of(columns, 32)
    _gram[(len(tiles), min(MOST_PARTS, triton.cdiv(columns, width)))](
        spread,
        t,
        ptr,
        tiles,
        out,
        columns,
        period,
        PRECISION=precision(),
        HEIGHT=HEIGHT,
        WIDTH=width,
        DEPTH=DEPTH,
        num_warps=2,
        num_stages=2,
    )
    return out


@triton.jit
def _gram(
    spread,
    t,
    ptr,
    tiles,
    out,
    columns,
    period,
    PRECISION: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):
    _, first, start, counts, _ = tile_rows(tiles, ptr, tl.program_id(0), period, HEIGHT)
    rows = counts - start
    size = tl.minimum(rows, columns)
    i = first - start + tl.arange(0, HEIGHT)
    in_i = i < size
    base = start.to(tl.int64) * columns
    spread += base
    t += base
    out += base
    if first - start < size:
        for first_j in range(tl.program_id(1) * WIDTH, size, tl.num_programs(1) * WIDTH):
            j = first_j + tl.arange(0, WIDTH)
            in_j = j < size
            total = tl.zeros((HEIGHT, WIDTH), tl.float32)
            if rows < columns:
                for step in range(0, columns, DEPTH):
                    k = step + tl.arange(0, DEPTH)
                    in_k = (k < columns)[None, :]
                    left = spread + (i[:, None] * columns + k[None, :])
                    right = t + (j[:, None] * columns + k[None, :])
                    left = tl.load(left, mask=in_i[:, None] & in_k, other=0.0)
                    right = tl.load(right, mask=in_j[:, None] & in_k, other=0.0)
                    total = dot(left, tl.trans(right), total, PRECISION)
            else:
                for step in range(0, rows, DEPTH):
                    k = step + tl.arange(0, DEPTH)
                    in_k = k < rows
                    left = spread + (k[None, :] * columns + i[:, None])
                    right = t + (k[:, None] * columns + j[None, :])
                    left_mask = in_k[None, :] & (i < columns)[:, None]
                    right_mask = in_k[:, None] & (j < columns)[None, :]
                    left = tl.load(left, mask=left_mask, other=0.0)
                    right = tl.load(right, mask=right_mask, other=0.0)
                    total = dot(left, right, total, PRECISION)
            place = out + (i[:, None] * columns + j[None, :])
            tl.store(place, total, mask=in_i[:, None] & (j < _read(size, columns))[None, :])


@triton.jit
def _read(size, columns):
    """How many columns of P are written and read: as many as can be read four at a time."""
    return tl.minimum((size + 15) // 16 * 16, columns)


def trace_and_norm(p: Tensor, ptr: Tensor, period: int) -> tuple[Tensor, Tensor]:
    """``tr P`` and ``tr P²`` of each graph, ``[graphs]`` each."""
    graphs = len(ptr) - 1
    trace, norm = p.new_empty(graphs), p.new_empty(graphs)
    _trace_and_norm[(graphs,)](p, ptr, trace, norm, p.shape[1], period, TILE=32, num_warps=2)
    return trace, norm


@triton.jit
def _trace_and_norm(p, ptr, trace, norm, columns, period, TILE: tl.constexpr):
    graph = tl.program_id(0)
    start, end, _ = span(ptr, graph, period)
    size = tl.minimum(end - start, columns)
    p += start.to(tl.int64) * columns
    of_trace = tl.zeros((TILE,), tl.float32)
    of_norm = tl.zeros((TILE, TILE), tl.float32)
    for first_i in range(0, size, TILE):
        i = first_i + tl.arange(0, TILE)
        of_trace += tl.load(p + i * columns + i, mask=i < size, other=0.0)
        for first_j in range(0, size, TILE):
            j = first_j + tl.arange(0, TILE)
            mask = (i < size)[:, None] & (j < size)[None, :]
            one = tl.load(p + i[:, None] * columns + j[None, :], mask=mask, other=0.0)
            other = tl.load(p + j[None, :] * columns + i[:, None], mask=mask, other=0.0)
            of_norm += one * other
    tl.store(trace + graph, tl.sum(of_trace, 0))
    tl.store(norm + graph, tl.sum(tl.sum(of_norm, 1), 0))


def gram_backward(
    p: Tensor,
    spread: Tensor,
    of_trace: Tensor | None,
    of_norm: Tensor | None,
    ptr: Tensor,
    tiles: Tensor,
    period: int,
    *,
    into: Tensor | None = None,
) -> Tensor:
    """The gradient of T: 2 A T from the trace, and 4 P A T or 4 A T P from the norm.

    Args:
        p: from `gram`
        spread: A T, ``[rows, columns]``
        of_trace: ``[graphs]``, the gradient of the trace
        of_norm: ``[graphs]``, the gradient of the norm
        ptr: ``[graphs + 1]``
        tiles: of the rows, from `row_tiles`
        period: of the fillers among the graphs
        into: ``[rows, columns]``, what it is added to, if given
    """
    columns, out = spread.shape[1], torch.empty_like(spread) if into is None else into
    width = tile_of(columns, 64)
    across = triton.cdiv(columns, width)
    _gram_backward[(len(tiles) * across,)](
        p,
        spread,
        of_trace,
        of_norm,
        ptr,
        tiles,
        out,
        columns,
        across,
        period,
        TRACE=of_trace is not None,
        NORM=of_norm is not None,
        ADD=into is not None,
        PRECISION=precision(),
        HEIGHT=HEIGHT,
        WIDTH=width,
        DEPTH=DEPTH,
        num_warps=warps_of(HEIGHT, width, 16),
    )
    return out


@triton.jit
def _gram_backward(
    p,
    spread,
    of_trace,
    of_norm,
    ptr,
    tiles,
    out,
    columns,
    across,
    period,
    TRACE: tl.constexpr,
    NORM: tl.constexpr,
    ADD: tl.constexpr,
    PRECISION: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):
    program = tl.program_id(0)
    graph, first, start, counts, end = tile_rows(tiles, ptr, program // across, period, HEIGHT)
    if first >= end:
        return
    rows = counts - start
    size = tl.minimum(rows, columns)
    base = start.to(tl.int64) * columns
    p += base
    spread += base
    out += base
    i = first - start + tl.arange(0, HEIGHT)
    j = (program % across) * WIDTH + tl.arange(0, WIDTH)
    in_i, in_j = i < rows, j < columns
    place = i.to(tl.int64)[:, None] * columns + j[None, :]
    total = tl.zeros((HEIGHT, WIDTH), tl.float32)
    if NORM:
        if first < counts:
            if rows < columns:
                for step in range(0, rows, DEPTH):
                    k = step + tl.arange(0, DEPTH)
                    in_k = k < rows
                    left = p + i[:, None] * columns + k[None, :]
                    right = spread + k[:, None] * columns + j[None, :]
                    in_p = (k < _read(size, columns))[None, :]
                    left = tl.load(left, mask=in_i[:, None] & in_p, other=0.0)
                    right = tl.load(right, mask=in_k[:, None] & in_j[None, :], other=0.0)
                    total = dot(left, right, total, PRECISION)
            else:
                for step in range(0, columns, DEPTH):
                    k = step + tl.arange(0, DEPTH)
                    in_k = k < columns
                    left = spread + i[:, None] * columns + k[None, :]
                    right = p + k[:, None] * columns + j[None, :]
                    left = tl.load(left, mask=in_i[:, None] & in_k[None, :], other=0.0)
                    right = tl.load(right, mask=in_k[:, None] & in_j[None, :], other=0.0)
                    total = dot(left, right, total, PRECISION)
        total *= 4 * tl.load(of_norm + graph)
    if TRACE:
        own = tl.load(spread + place, mask=in_i[:, None] & in_j[None, :], other=0.0)
        total += 2 * tl.load(of_trace + graph) * own
    total = tl.where(in_i[:, None], total, 0.0)
    mask = (start + i < end)[:, None] & in_j[None, :]
    if ADD:
        total += tl.load(out + place, mask=mask, other=0.0)
    tl.store(out + place, total, mask=mask)
