"""Rows as long as their graph has columns, and sums of a matrix and its transpose."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.asap.matrices import GraphRows
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import HEIGHT, span, tile_rows

WIDTH = 64


def take_rows(x: Tensor, index: Tensor, graph: Tensor, columns: GraphRows) -> Tensor:
    """``x[index]``, zero where the index is -1.

    Args:
        x: ``[rows, columns]``
        index: ``[chosen]`` int64
        graph: ``[chosen]`` int64, the graph of each
        columns: as many columns of a row count as its graph has rows here
    """
    out = x.new_empty(len(index), x.shape[1])
    _take[(len(index),)](
        x, index, graph, columns.ptr, out, x.shape[1], columns.period, WIDTH=WIDTH, num_warps=1
    )
    return out


@kernel(do_not_specialize=["period"])
def _take(x, index, graph, ptr, out, stride, period, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    start, stop, _ = span(ptr, tl.load(graph + row), period)
    source = tl.load(index + row).to(tl.int64)
    there = tl.where(source < 0, 0, stop - start)
    for first in range(0, stop - start, WIDTH):
        j = first + tl.arange(0, WIDTH)
        values = tl.load(x + source * stride + j, mask=j < there, other=0.0)
        tl.store(out + row.to(tl.int64) * stride + j, values, mask=j < stop - start)


def plus_transpose(x: Tensor, rows: GraphRows) -> Tensor:
    """``X_g + X_gᵀ`` without its diagonal, for square X_g of ``[rows, columns]``."""
    x = x.contiguous()
    out = torch.empty_like(x)
    across = triton.cdiv(x.shape[1], HEIGHT)
    _plus_transpose[(len(rows.tiles) * across,)](
        x, out, rows.tiles, rows.ptr, x.shape[1], across, rows.period, HEIGHT=HEIGHT, num_warps=2
    )
    return out


@kernel(do_not_specialize=["across", "period"])
def _plus_transpose(x, out, tiles, ptr, stride, across, period, HEIGHT: tl.constexpr):
    program = tl.program_id(0)
    part = program % across
    _, first, start, counts, _ = tile_rows(tiles, ptr, program // across, period, HEIGHT)
    nodes = counts - start
    if (first >= counts) | (part * HEIGHT >= nodes):
        return
    i = first - start + tl.arange(0, HEIGHT)
    j = part * HEIGHT + tl.arange(0, HEIGHT)
    both = (i < nodes)[:, None] & (j < nodes)[None, :]
    base = start.to(tl.int64) * stride
    place = i[:, None] * stride + j[None, :]
    across_place = j[None, :] * stride + i[:, None]
    total = tl.load(x + base + place, mask=both, other=0.0)
    total += tl.load(x + base + across_place, mask=both, other=0.0)
    tl.store(out + base + place, tl.where(i[:, None] == j[None, :], 0.0, total), mask=both)
