"""Trace and norm of Tᵀ A T for each graph, from the smaller of two matrices P.

P is A T Tᵀ for a graph with fewer rows than T has columns, and Tᵀ A T otherwise. Either has no more
rows and columns than the graph's part of T, so all P are stored in a tensor of the shape of T, each
at the rows of its graph. Rows of P are padded with zeros to a multiple of 16.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.clusters.segments import SegmentPtr
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import (
    DEPTH,
    HEIGHT,
    TALL,
    dot,
    precision,
    span,
    tile_of,
    tile_rows,
    warps_of,
)

# Programs per tile of rows of P; each computes some of the columns.
MAX_PARTS = 4
# Programs per graph for trace and norm, if graphs are large.
NORM_PARTS = 16


def gram(spread: Tensor, t: Tensor, segments: SegmentPtr) -> Tensor:
    """P of each graph, ``[rows, columns]``.

    Args:
        spread: A T, ``[rows, columns]``
        t: ``[rows, columns]``
        segments: of the rows
    """
    columns, out = t.shape[1], torch.empty_like(t)
    large = segments.large
    # A large tile reads fewer numbers for each product, but is mostly empty if graphs are small.
    tiles, height = (segments.tall_tiles, TALL) if large else (segments.tiles, HEIGHT)
    width = tile_of(columns, height)
    _gram[(len(tiles), min(MAX_PARTS, triton.cdiv(columns, width)))](
        spread, t, segments.ptr, tiles, out, columns, segments.period,
        PRECISION=precision(), HEIGHT=height, WIDTH=width, DEPTH=2 * DEPTH if large else DEPTH,
        num_warps=4 if large else 2, num_stages=3 if large else 2,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["period"])
def _gram(
    spread, t, ptr, tiles, out, columns, period,
    PRECISION: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
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
    """The number of columns of P that are written and read, for vector loads."""
    return tl.minimum((size + 15) // 16 * 16, columns)


def trace_and_norm(p: Tensor, segments: SegmentPtr) -> tuple[Tensor, Tensor]:
    """``tr P`` and ``tr P²`` of each graph, ``[graphs]`` each."""
    parts = NORM_PARTS if segments.large else 1
    shape = (parts, segments.graphs) if parts > 1 else (segments.graphs,)
    trace, norm = p.new_empty(shape), p.new_empty(shape)
    _trace_and_norm[(segments.graphs, parts)](
        p, segments.ptr, trace, norm, p.shape[1], segments.period, TILE=32, num_warps=2
    )
    return (trace.sum(0), norm.sum(0)) if parts > 1 else (trace, norm)


@kernel(do_not_specialize=["period"])
def _trace_and_norm(p, ptr, trace, norm, columns, period, TILE: tl.constexpr):
    graph, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    start, end, _ = span(ptr, graph, period)
    size = tl.minimum(end - start, columns)
    p += start.to(tl.int64) * columns
    of_trace = tl.zeros((TILE,), tl.float32)
    of_norm = tl.zeros((TILE, TILE), tl.float32)
    for first_i in range(part * TILE, size, parts * TILE):
        i = first_i + tl.arange(0, TILE)
        of_trace += tl.load(p + i * columns + i, mask=i < size, other=0.0)
        for first_j in range(0, size, TILE):
            j = first_j + tl.arange(0, TILE)
            mask = (i < size)[:, None] & (j < size)[None, :]
            one = tl.load(p + i[:, None] * columns + j[None, :], mask=mask, other=0.0)
            other = tl.load(p + j[None, :] * columns + i[:, None], mask=mask, other=0.0)
            of_norm += one * other
    place = part * tl.num_programs(0) + graph
    tl.store(trace + place, tl.sum(of_trace, 0))
    tl.store(norm + place, tl.sum(tl.sum(of_norm, 1), 0))


def gram_backward(
    p: Tensor,
    spread: Tensor,
    grad_trace: Tensor | None,
    grad_norm: Tensor | None,
    segments: SegmentPtr,
    *,
    into: Tensor | None = None,
) -> Tensor:
    """The gradient of T: 2 A T from the trace, and 4 P A T or 4 A T P from the norm.

    Args:
        p: from `gram`
        spread: A T, ``[rows, columns]``
        grad_trace: ``[graphs]``
        grad_norm: ``[graphs]``
        segments: of the rows
        into: ``[rows, columns]``, the buffer to add to, if any
    """
    columns, out = spread.shape[1], torch.empty_like(spread) if into is None else into
    width = tile_of(columns, 64)
    across, tiles = triton.cdiv(columns, width), segments.tiles
    _gram_backward[(len(tiles) * across,)](
        p, spread, grad_trace, grad_norm, segments.ptr, tiles, out, columns, across,
        segments.period,
        TRACE=grad_trace is not None, NORM=grad_norm is not None, ADD=into is not None,
        PRECISION=precision(), HEIGHT=HEIGHT, WIDTH=width, DEPTH=DEPTH,
        num_warps=warps_of(HEIGHT, width, 16),
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["across", "period"])
def _gram_backward(
    p, spread, grad_trace, grad_norm, ptr, tiles, out, columns, across, period,
    TRACE: tl.constexpr, NORM: tl.constexpr, ADD: tl.constexpr, PRECISION: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
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
        total *= 4 * tl.load(grad_norm + graph)
    if TRACE:
        own = tl.load(spread + place, mask=in_i[:, None] & in_j[None, :], other=0.0)
        total += 2 * tl.load(grad_trace + graph) * own
    total = tl.where(in_i[:, None], total, 0.0)
    mask = (start + i < end)[:, None] & in_j[None, :]
    if ADD:
        total += tl.load(out + place, mask=mask, other=0.0)
    tl.store(out + place, total, mask=mask)
