"""``a_g x_g`` for the rows of each graph g."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.clusters.segments import SegmentPtr
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import DEPTH, HEIGHT, dot, precision, tile_of, tile_rows, warps_of

MAX_WIDTH = 128


def segment_outer(
    a: Tensor,
    x: Tensor,
    segments: SegmentPtr,
    *,
    more: tuple[Tensor, Tensor] | None = None,
    scale_in: Tensor | None = None,
    scale_out: Tensor | None = None,
    degrees: tuple[Tensor, Tensor] | None = None,
    columns: int | None = None,
    into: Tensor | None = None,
) -> Tensor:
    """``a_g x_g``, ``[rows, n]``, zero for rows in no segment.

    Args:
        a: ``[rows, m]``, or more columns, which are zero
        x: ``[graphs, m, n]`` with any strides
        segments: of the rows
        more: another a and x of the same shapes and strides, whose product is added
        scale_in: ``[graphs * m]``, multiplies the rows of x
        scale_out: ``[graphs * n]``, multiplies the columns of the result
        degrees: a ``row_ptr`` of A + I, ``[rows + 1]``, and d, ``[graphs * n]``: the degree of each
            row times d is added after scaling
        columns: of the result, if more than n; the others are zero
        into: ``[rows, n]``, or more columns, the buffer to add to, if any
    """
    m, n = x.shape[1:]
    out = a.new_empty(len(a), columns or n) if into is None else into
    b, y = more or (None, None)
    row_ptr, of_degree = degrees or (None, None)
    width = tile_of(out.shape[1], MAX_WIDTH)
    across = triton.cdiv(out.shape[1], width)
    scale, tiles = scale_out if scale_in is None else scale_in, segments.tiles
    _outer[(len(tiles) * across,)](
        a, x, b, y, segments.ptr, tiles, scale, row_ptr, of_degree, out, m, n, a.shape[1],
        out.shape[1], across, *x.stride(), segments.period,
        TWO=more is not None, SCALE_IN=scale_in is not None, SCALE_OUT=scale_out is not None,
        DEGREES=degrees is not None, ADD=into is not None, PRECISION=precision(), HEIGHT=HEIGHT,
        WIDTH=width, DEPTH=DEPTH, num_warps=warps_of(HEIGHT, width), num_stages=4,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["across", "period"])
def _outer(
    a, x, b, y, ptr, tiles, scale, row_ptr, of_degree, out, m, n, a_columns, out_columns, across,
    x_graph, x_m, x_n, period,
    TWO: tl.constexpr, SCALE_IN: tl.constexpr, SCALE_OUT: tl.constexpr, DEGREES: tl.constexpr,
    ADD: tl.constexpr, PRECISION: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    graph, first, _, counts, end = tile_rows(tiles, ptr, program // across, period, HEIGHT)
    if first >= end:
        return
    graph, part = graph.to(tl.int64), program % across
    # In about half of all graphs the last tile is at most half full.
    if end - first <= HEIGHT // 2:
        _outer_tile(
            a, x, b, y, scale, row_ptr, of_degree, out, m, n, a_columns, out_columns, x_graph, x_m,
            x_n, graph, first, counts, end, part,
            TWO, SCALE_IN, SCALE_OUT, DEGREES, ADD, PRECISION, HEIGHT // 2, WIDTH, DEPTH,
        )  # fmt: skip
    else:
        _outer_tile(
            a, x, b, y, scale, row_ptr, of_degree, out, m, n, a_columns, out_columns, x_graph, x_m,
            x_n, graph, first, counts, end, part,
            TWO, SCALE_IN, SCALE_OUT, DEGREES, ADD, PRECISION, HEIGHT, WIDTH, DEPTH,
        )  # fmt: skip


@triton.jit
def _outer_tile(
    a, x, b, y, scale, row_ptr, of_degree, out, m, n, a_columns, out_columns, x_graph, x_m, x_n,
    graph, first, counts, end, part,
    TWO: tl.constexpr, SCALE_IN: tl.constexpr, SCALE_OUT: tl.constexpr, DEGREES: tl.constexpr,
    ADD: tl.constexpr, PRECISION: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    i = tl.arange(0, HEIGHT)
    row = first + i
    in_rows = row < counts
    j = part * WIDTH + tl.arange(0, WIDTH)
    in_j = j < n
    # Offsets into whole tensors need 64 bits; within a graph 32 are enough.
    base, of_x = first.to(tl.int64), graph * x_graph
    a += base * a_columns
    x += of_x
    if TWO:
        b += base * a_columns
        y += of_x
    total = tl.zeros((HEIGHT, WIDTH), tl.float32)
    if first < counts:
        for step in range(0, m, DEPTH):
            k = step + tl.arange(0, DEPTH)
            in_k = k < m
            left_mask = in_rows[:, None] & (k < a_columns)[None, :]
            right_mask = in_k[:, None] & in_j[None, :]
            of_left = i[:, None] * a_columns + k[None, :]
            of_right = k[:, None] * x_m + j[None, :] * x_n
            left = tl.load(a + of_left, mask=left_mask, other=0.0)
            right = tl.load(x + of_right, mask=right_mask, other=0.0)
            if SCALE_IN:
                right *= tl.load(scale + graph * m + k, mask=in_k, other=0.0)[:, None]
            total = dot(left, right, total, PRECISION)
            if TWO:
                left = tl.load(b + of_left, mask=left_mask, other=0.0)
                right = tl.load(y + of_right, mask=right_mask, other=0.0)
                total = dot(left, right, total, PRECISION)
    if SCALE_OUT:
        total *= tl.load(scale + graph * n + j, mask=in_j, other=0.0)[None, :]
    if DEGREES:
        length = tl.load(row_ptr + row + 1, mask=in_rows, other=1) - tl.load(
            row_ptr + row, mask=in_rows, other=0
        )
        degree = tl.maximum(length - 1, 0).to(tl.float32)
        total += degree[:, None] * tl.load(of_degree + graph * n + j, mask=in_j, other=0.0)[None, :]
    # 0 · NaN is NaN, so mask.
    total = tl.where(in_rows[:, None], total, 0.0)
    place = out + base * out_columns + (i[:, None] * out_columns + j[None, :])
    mask = (row < end)[:, None] & (j < out_columns)[None, :]
    if ADD:
        total += tl.load(place, mask=mask, other=0.0)
    tl.store(place, total, mask=mask)
