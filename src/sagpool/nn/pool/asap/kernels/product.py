"""The product of two matrices for each graph."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.asap.matrices import GraphMatrices, GraphRows
from sagpool.ops.kernels.jit import kernel
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

MAX_WIDTH = 64


def product(
    a: GraphMatrices,
    b: GraphMatrices,
    *,
    plus: Tensor | None = None,
    scale: float = 1.0,
    loops: bool = True,
    norm: Tensor | None = None,
    outer: Tensor | None = None,
) -> Tensor:
    """``scale a_g b_g``, the rows of all graphs, ``[rows, columns]``; see `GraphMatrices`.

    Args:
        a: the left matrices
        b: the right ones
        plus: added to the product, of the same shape
        scale: factor of the product
        loops: whether to keep the diagonal; otherwise it is zero
        norm: ``[rows]``, s; a square ``a`` is replaced by ``diag(s) (a + I) diag(s)``
        outer: ``[rows]``, s; a square product is multiplied by ``s sᵀ``, element by element
    """
    rows = a.height
    assert norm is None or outer is None
    factor = norm if outer is None else outer
    out = a.values.new_empty(rows.total, b.most_columns)
    assert plus is None or (plus.shape == out.shape and plus.is_contiguous())
    width = tile_of(out.shape[1], MAX_WIDTH)
    across = triton.cdiv(out.shape[1], width)
    depth, depth_ptr = _number_or_ptr(a.width)
    columns, columns_ptr = _number_or_ptr(b.width)
    _product[(len(rows.tiles) * across,)](
        a.values, b.values, plus, factor, out, rows.tiles, rows.ptr, a.rows.ptr, b.rows.ptr,
        depth_ptr, columns_ptr, depth, columns, a.values.stride(0), b.values.stride(0),
        out.stride(0), across, rows.period, scale,
        A_ACROSS=a.transposed, B_ACROSS=b.transposed, RAGGED_DEPTH=depth_ptr is not None,
        RAGGED_COLUMNS=columns_ptr is not None, ADD=plus is not None, LOOPS=loops,
        NORM=norm is not None, OUTER=outer is not None, PRECISION=precision(), HEIGHT=HEIGHT,
        WIDTH=width, DEPTH=DEPTH, num_warps=warps_of(HEIGHT, width, 16),
    )  # fmt: skip
    return out


def _number_or_ptr(extent: GraphRows | int) -> tuple[int, Tensor | None]:
    return (extent, None) if isinstance(extent, int) else (0, extent.ptr)


@kernel(do_not_specialize=["depth", "columns", "across", "period", "scale"])
def _product(
    a, b, plus, factor, out, tiles, out_ptr, a_ptr, b_ptr, depth_ptr, columns_ptr, depth, columns,
    a_stride, b_stride, out_stride, across, period, scale,
    A_ACROSS: tl.constexpr, B_ACROSS: tl.constexpr, RAGGED_DEPTH: tl.constexpr,
    RAGGED_COLUMNS: tl.constexpr, ADD: tl.constexpr, LOOPS: tl.constexpr, NORM: tl.constexpr,
    OUTER: tl.constexpr, PRECISION: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    part = program % across
    graph, first, start, counts, end = tile_rows(tiles, out_ptr, program // across, period, HEIGHT)
    if RAGGED_COLUMNS:
        begin, stop, _ = span(columns_ptr, graph, period)
        columns = stop - begin
    if (first >= end) | (part * WIDTH >= columns):
        return
    if RAGGED_DEPTH:
        begin, stop, _ = span(depth_ptr, graph, period)
        depth = stop - begin
    # Offsets into whole tensors need 64 bits; within a graph 32 are enough.
    a += tl.load(a_ptr + graph).to(tl.int64) * a_stride
    b += tl.load(b_ptr + graph).to(tl.int64) * b_stride
    i = first - start + tl.arange(0, HEIGHT)
    j = part * WIDTH + tl.arange(0, WIDTH)
    in_i, in_j = i < counts - start, j < columns
    total = tl.zeros((HEIGHT, WIDTH), tl.float32)
    if first < counts:
        for step in range(0, depth, DEPTH):
            k = step + tl.arange(0, DEPTH)
            in_k = k < depth
            if A_ACROSS:
                of_left = k[None, :] * a_stride + i[:, None]
            else:
                of_left = i[:, None] * a_stride + k[None, :]
            if B_ACROSS:
                of_right = j[None, :] * b_stride + k[:, None]
            else:
                of_right = k[:, None] * b_stride + j[None, :]
            left = tl.load(a + of_left, mask=in_i[:, None] & in_k[None, :], other=0.0)
            right = tl.load(b + of_right, mask=in_k[:, None] & in_j[None, :], other=0.0)
            if NORM:
                right *= tl.load(factor + start + k, mask=in_k, other=0.0)[:, None]
            total = dot(left, right, total, PRECISION)
    if NORM or OUTER:
        own = tl.load(factor + start + i, mask=in_i, other=0.0)[:, None]
        if NORM:
            both = in_i[:, None] & in_j[None, :]
            place = i[:, None] * b_stride + j[None, :]
            total += own * tl.load(b + place, mask=both, other=0.0)
        total *= own
    if OUTER:
        total *= tl.load(factor + start + j, mask=in_j, other=0.0)[None, :]
    total = tl.where(in_i[:, None], scale * total, 0.0)  # 0 · NaN is NaN
    base, place = start.to(tl.int64) * out_stride, i[:, None] * out_stride + j[None, :]
    mask = (i < end - start)[:, None] & in_j[None, :]
    if ADD:
        total += tl.load(plus + base + place, mask=mask, other=0.0)
    if not LOOPS:
        total = tl.where(i[:, None] == j[None, :], 0.0, total)
    tl.store(out + base + place, total, mask=mask)
