"""Sums over the edges of a list, in any order, and the edges among marked rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

_BLOCK = 512


def degrees_of_edges(source: Tensor, target: Tensor, rows: int) -> Tensor:
    """``[rows]`` float32, how many edges lead to each row; self-loops do not count."""
    degree = torch.zeros(rows, device=target.device)
    grid = (triton.cdiv(len(source), _BLOCK),)
    _degrees[grid](source, target, degree, rows, len(source), BLOCK=_BLOCK, num_warps=4)
    return degree


@kernel(do_not_specialize=["rows", "edges"])
def _degrees(source, target, degree, rows, edges, BLOCK: tl.constexpr):
    edge = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    _, to, counted = _ends(source, target, edge, rows, edges)
    tl.atomic_add(degree + to, tl.full((BLOCK,), 1.0, tl.float32), mask=counted)


def gcn_of_edges(x: Tensor, degree: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """``D̃^-1/2 (A + I) D̃^-1/2 x``; see `sagpool.ops.gcn_of_edges`.

    Args:
        x: ``[rows]``
        degree: ``[rows]``
        source: ``[edges]`` int64
        target: ``[edges]`` int64; edges from a row to itself or to none do not count
    """
    out = torch.zeros_like(x)
    rows, edges = len(x), len(source)
    _add_along_edges[(triton.cdiv(edges, _BLOCK),)](
        x, degree, source, target, out, rows, edges, BLOCK=_BLOCK, num_warps=4
    )
    _add_own[(triton.cdiv(rows, _BLOCK),)](x, degree, out, rows, BLOCK=_BLOCK, num_warps=4)
    return out


@kernel(do_not_specialize=["rows", "edges"])
def _add_along_edges(x, degree, source, target, out, rows, edges, BLOCK: tl.constexpr):
    edge = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    out_of, to, counted = _ends(source, target, edge, rows, edges)
    tl.atomic_add(out + to, _scaled(x, degree, out_of, counted)[0], mask=counted)


@kernel(do_not_specialize=["rows"])
def _add_own(x, degree, out, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    scaled, scale = _scaled(x, degree, row, inside)
    received = tl.load(out + row, mask=inside, other=0.0)
    tl.store(out + row, scale * (received + scaled), mask=inside)


@triton.jit
def _scaled(x, degree, row, inside):
    """The rows times ``D̃^-1/2``, and that."""
    value = tl.load(x + row, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.load(degree + row, mask=inside, other=0.0).to(value.dtype) + 1.0)
    return scale * value, scale


@triton.jit
def _ends(source, target, edge, rows, edges):
    """Both ends, and whether the edge joins two different rows that exist."""
    inside = edge < edges
    out_of = tl.load(source + edge, mask=inside, other=0)
    to = tl.load(target + edge, mask=inside, other=0)
    counted = inside & (out_of != to) & _exists(out_of, rows) & _exists(to, rows)
    return out_of, to, counted


@triton.jit
def _exists(row, rows):
    return (row >= 0) & (row < rows)


def count_marked(mask: Tensor, source: Tensor, target: Tensor, batch: Tensor | None) -> Tensor:
    """Running counts of the wrong indices, the marked rows and the edges among them.

    Args:
        mask: ``[rows]`` bool
        source: ``[edges]`` int64
        target: ``[edges]`` int64
        batch: ``[rows]`` int64, or None for one graph

    Returns:
        ``[1 + rows + edges]`` int32. First the ends of edges that are no row, and the negative
        entries of the batch; then, if there are none, how many rows up to each are marked; and
        then, for each edge, the marked rows plus the edges up to it between marked rows
    """
    rows, edges = len(mask), len(source)
    counts = torch.zeros(1 + rows + edges, dtype=torch.int32, device=mask.device)
    _mark_edges[(triton.cdiv(rows + edges, _BLOCK),)](
        mask.view(torch.uint8), source, target, batch, counts, rows, edges,
        BATCHED=batch is not None, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return torch.cumsum(counts, 0, dtype=torch.int32)


@kernel(do_not_specialize=["rows", "edges"])
def _mark_edges(
    mask, source, target, batch, counts, rows, edges, BATCHED: tl.constexpr, BLOCK: tl.constexpr
):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = place < rows
    marked = tl.load(mask + place, mask=is_row, other=0)
    edge = place - rows
    is_edge = (edge >= 0) & (edge < edges)
    out_of = tl.load(source + edge, mask=is_edge, other=0)
    to = tl.load(target + edge, mask=is_edge, other=0)
    right = _exists(out_of, rows) & _exists(to, rows)
    wrong = is_edge & ~right
    if BATCHED:
        wrong |= tl.load(batch + place, mask=is_row, other=0) < 0
    both = tl.load(mask + out_of, mask=is_edge & right, other=0)
    both &= tl.load(mask + to, mask=is_edge & right, other=0)
    tl.store(counts + 1 + place, (marked | both).to(tl.int32), mask=is_row | is_edge)
    total = tl.sum(wrong.to(tl.int32), 0)
    tl.atomic_add(counts, total, mask=total > 0)


def write_marked(
    mask: Tensor, source: Tensor, target: Tensor, counts: Tensor, kept_rows: int, kept_edges: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The marked rows and the edges among them, in their order.

    Args:
        mask: ``[rows]`` bool
        source: ``[edges]`` int64
        target: ``[edges]`` int64
        counts: from `count_marked`, without wrong indices
        kept_rows: how many are marked
        kept_edges: how many edges are among them

    Returns:
        ``[kept_rows]`` int64, the old row of each new one; ``[rows]`` int32, the new row of each
        old one, -1 for those that are dropped; ``[2, kept_edges]`` int64, the edges between new
        rows; ``[kept_edges]`` int64, their old positions
    """
    rows, edges = len(mask), len(source)
    perm = source.new_empty(kept_rows)
    new_row = torch.empty_like(mask, dtype=torch.int32)
    edge_index, position = source.new_empty(2, kept_edges), source.new_empty(kept_edges)
    _write_marked[(triton.cdiv(rows + edges, _BLOCK),)](
        mask.view(torch.uint8), source, target, counts, perm, new_row, edge_index, position,
        rows, edges, kept_rows, kept_edges, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return perm, new_row, edge_index, position


@kernel(do_not_specialize=["rows", "edges", "kept_rows", "kept_edges"])
def _write_marked(
    mask, source, target, counts, perm, new_row, edge_index, position, rows, edges, kept_rows,
    kept_edges, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = place < rows
    seen = tl.load(counts + 1 + place, mask=place < rows + edges, other=0)
    marked = tl.load(mask + place, mask=is_row, other=0) == 1
    tl.store(new_row + place, tl.where(marked, seen - 1, -1), mask=is_row)
    tl.store(perm + seen - 1, place, mask=marked)
    edge = place - rows
    is_edge = (edge >= 0) & (edge < edges)
    out_of = tl.load(source + edge, mask=is_edge, other=0)
    to = tl.load(target + edge, mask=is_edge, other=0)
    both = is_edge & (tl.load(mask + out_of, mask=is_edge, other=0) == 1)
    both &= tl.load(mask + to, mask=is_edge, other=0) == 1
    at = seen - 1 - kept_rows
    new_source = tl.load(counts + 1 + out_of, mask=both, other=1) - 1
    new_target = tl.load(counts + 1 + to, mask=both, other=1) - 1
    tl.store(edge_index + at, new_source.to(tl.int64), mask=both)
    tl.store(edge_index + kept_edges + at, new_target.to(tl.int64), mask=both)
    tl.store(position + at, edge, mask=both)


def gather_marked(x: Tensor, gate: Tensor, perm: Tensor) -> Tensor:
    """``x[perm] * gate[perm]``.

    Args:
        x: ``[rows, columns]``
        gate: ``[rows]``
        perm: ``[kept]`` int64
    """
    columns = x.shape[1]
    out = x.new_empty(len(perm), columns)
    width = min(128, triton.next_power_of_2(columns))
    height = 1024 // width
    _gather_marked[(triton.cdiv(len(perm), height), triton.cdiv(columns, width))](
        x, gate, perm, out, len(perm), columns, HEIGHT=height, WIDTH=width, num_warps=4
    )
    return out


@kernel(do_not_specialize=["kept"])
def _gather_marked(x, gate, perm, out, kept, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    new = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = new < kept
    old = tl.load(perm + new, mask=inside, other=0)
    mask = inside[:, None] & (column < columns)[None, :]
    values = tl.load(x + old[:, None] * columns + column[None, :], mask=mask, other=0.0)
    values *= tl.load(gate + old, mask=inside, other=0.0)[:, None]
    tl.store(out + new[:, None] * columns + column[None, :], values, mask=mask)
