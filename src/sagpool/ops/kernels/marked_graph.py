"""The graph among marked rows: the rows times their gates, and the edges between them.

Everything stays in its order. A first kernel finds the new number of each row and counts the edges;
the host waits for the totals; a second one writes results of the right size.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.edge_list import exists
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.tiles import blocks, tile

TOTALS = 4  # wrong indices, kept rows, kept edges, neighbours in a batch that is not sorted
_ROWS, _EDGES = 1024, 1024  # of a program
_MOST_ADDED = 4096
_STEP = tl.constexpr(1024)


class Marks(NamedTuple):
    """Which rows are kept."""

    mask: Tensor  # [rows] bool
    counts: Tensor  # [tiles] int32, how many are kept of the rows of each tile
    tile: int  # rows


class Numbers(NamedTuple):
    """Where everything that is kept will be."""

    new_row: Tensor  # [rows] int32, -1 for those that are dropped
    edge_counts: Tensor  # [blocks of edges] int32, how many of each are kept
    wrong: int  # ends of edges that are no row, and negative entries of the batch
    rows: int  # that are kept
    edges: int  # that are kept
    unsorted: bool  # whether a kernel found the batch in another order than it can work with


class Written(NamedTuple):
    x: Tensor  # [kept, columns]
    gate: Tensor  # [kept]
    edge_index: Tensor  # [2, kept edges] int64
    edges: Tensor | None  # [kept edges] int64, their positions before
    batch: Tensor  # [kept] int64
    perm: Tensor  # [kept] int64


def count_marks(mask: Tensor) -> Marks:
    """Count the rows of a mask, ``[rows]`` bool."""
    tiles = blocks(len(mask), _ROWS)
    counts = torch.empty(tiles, dtype=torch.int32, device=mask.device)
    _count_marks[(tiles,)](mask.view(torch.uint8), counts, len(mask), TILE=_ROWS, num_warps=4)
    return Marks(mask, counts, _ROWS)


@kernel(do_not_specialize=["rows"])
def _count_marks(mask, counts, rows, TILE: tl.constexpr):
    program = tl.program_id(0)
    row = program.to(tl.int64) * TILE + tl.arange(0, TILE)
    marked = tl.load(mask + row, mask=row < rows, other=0)
    tl.store(counts + program, tl.sum(marked.to(tl.int32), 0))


def number_marked(
    marks: Marks, edge_index: Tensor, batch: Tensor | None, totals: Tensor
) -> Numbers:
    """New numbers of the marked rows, and how many edges are between them; waits for the device.

    Args:
        marks: the rows that are kept
        edge_index: ``[2, edges]`` int64, contiguous
        batch: ``[rows]`` int64, or None for one graph
        totals: ``[TOTALS]`` int32, zeros but for the last
    """
    rows, edges = len(marks.mask), edge_index.shape[1]
    tiles, edge_blocks = len(marks.counts), blocks(edges, _EDGES)
    new_row = marks.counts.new_empty(rows)
    edge_counts = marks.counts.new_empty(edge_blocks)
    counts, running = _running(marks.counts)
    _number_marked[(tiles + edge_blocks,)](
        marks.mask.view(torch.uint8), counts, batch, edge_index, new_row, edge_counts, totals,
        rows, edges, tiles,
        BATCHED=batch is not None, RUNNING=running, TILE=marks.tile, BLOCK=_EDGES, num_warps=4,
    )  # fmt: skip
    wrong, kept, kept_edges, unsorted = totals.tolist()
    return Numbers(new_row, edge_counts, wrong, kept, kept_edges, unsorted > 0)


def _running(counts: Tensor) -> tuple[Tensor, bool]:
    """Running sums of many counts; of few, each program adds up those before its own."""
    if len(counts) <= _MOST_ADDED:
        return counts, False
    return torch.cumsum(counts, 0, dtype=torch.int32), True


@kernel(do_not_specialize=["rows", "edges", "tiles"])
def _number_marked(
    mask, counts, batch, edge_index, new_row, edge_counts, totals, rows, edges, tiles,
    BATCHED: tl.constexpr, RUNNING: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    if program < tiles:
        row = program.to(tl.int64) * TILE + tl.arange(0, TILE)
        inside = row < rows
        marked = tl.load(mask + row, mask=inside, other=0).to(tl.int32)
        before = _sum_before(counts, program, RUNNING)
        new = before + tl.cumsum(marked, 0) - 1
        tl.store(new_row + row, tl.where(marked == 1, new, -1), mask=inside)
        if program == tiles - 1:
            tl.store(totals + 1, before + tl.sum(marked, 0))
        if BATCHED:
            negative = (tl.load(batch + row, mask=inside, other=0) < 0).to(tl.int32)
            _add_total(totals, negative)
    else:
        edge = (program - tiles).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        is_edge = edge < edges
        source = tl.load(edge_index + edge, mask=is_edge, other=0)
        target = tl.load(edge_index + edges + edge, mask=is_edge, other=0)
        right = is_edge & exists(source, rows) & exists(target, rows)
        both = tl.load(mask + source, mask=right, other=0)
        both = (both & tl.load(mask + target, mask=right, other=0)).to(tl.int32)
        tl.store(edge_counts + program - tiles, tl.sum(both, 0))
        _add_total(totals, (is_edge & ~right).to(tl.int32))
        _add_total(totals + 2, both)


@triton.jit
def _add_total(total, counted):
    number = tl.sum(counted, 0)
    tl.atomic_add(total, number, mask=number > 0)


@triton.jit
def _sum_before(counts, end, RUNNING: tl.constexpr):
    """The sum of the first counts, which may be running sums already."""
    total = tl.full((), 0, tl.int32)
    if RUNNING:
        total = tl.load(counts + end - 1, mask=end > 0, other=0)
    else:
        for first in range(0, end, _STEP):
            place = first + tl.arange(0, _STEP)
            total += tl.sum(tl.load(counts + place, mask=place < end, other=0), 0)
    return total


def write_marked(
    x: Tensor,
    gate: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
    numbers: Numbers,
    positions: bool,
) -> Written:
    """What is left.

    Args:
        x: ``[rows, columns]``, contiguous
        gate: ``[rows]``, contiguous
        edge_index: ``[2, edges]`` int64, contiguous
        batch: ``[rows]`` int64, contiguous, or None for one graph
        numbers: none of them wrong
        positions: whether to return the old positions of edges
    """
    (rows, columns), edges = x.shape, edge_index.shape[1]
    kept, kept_edges = numbers.rows, numbers.edges
    out, score, perm = x.new_empty(kept, columns), gate.new_empty(kept), edge_index.new_empty(kept)
    new_batch = torch.zeros_like(perm) if batch is None else torch.empty_like(perm)
    new_edges = edge_index.new_empty(2, kept_edges)
    position = edge_index.new_empty(kept_edges) if positions else None
    edge_counts, running = _running(numbers.edge_counts)
    height, width = tile(columns)
    row_programs = blocks(rows, height)
    _write_marked[(row_programs + blocks(edges, _EDGES),)](
        x, gate, batch, edge_index, numbers.new_row, edge_counts, out, score, perm, new_batch,
        new_edges, position, rows, columns, edges, kept_edges, row_programs,
        BATCHED=batch is not None, POSITIONS=positions, RUNNING=running,
        HEIGHT=height, WIDTH=width, BLOCK=_EDGES, num_warps=4,
    )  # fmt: skip
    return Written(out, score, new_edges, position, new_batch, perm)


@kernel(do_not_specialize=["rows", "edges", "kept_edges", "row_programs"])
def _write_marked(
    x, gate, batch, edge_index, new_row, edge_counts, out, score, perm, new_batch, new_edges,
    position, rows, columns, edges, kept_edges, row_programs,
    BATCHED: tl.constexpr, POSITIONS: tl.constexpr, RUNNING: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    if program < row_programs:
        row = program.to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
        new = tl.load(new_row + row, mask=row < rows, other=-1).to(tl.int64)
        kept = new >= 0
        factor = tl.load(gate + row, mask=kept, other=0.0)
        tl.store(score + new, factor, mask=kept)
        tl.store(perm + new, row, mask=kept)
        if BATCHED:
            tl.store(new_batch + new, tl.load(batch + row, mask=kept, other=0), mask=kept)
        for first in range(0, columns, WIDTH):
            column = (first + tl.arange(0, WIDTH))[None, :]
            inside = kept[:, None] & (column < columns)
            values = tl.load(x + row[:, None] * columns + column, mask=inside, other=0.0)
            tl.store(out + new[:, None] * columns + column, values * factor[:, None], mask=inside)
    else:
        block = program - row_programs
        edge = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        is_edge = edge < edges
        source = tl.load(edge_index + edge, mask=is_edge, other=0)
        target = tl.load(edge_index + edges + edge, mask=is_edge, other=0)
        new_source = tl.load(new_row + source, mask=is_edge, other=-1).to(tl.int64)
        new_target = tl.load(new_row + target, mask=is_edge, other=-1).to(tl.int64)
        both = (new_source >= 0) & (new_target >= 0)
        at = _sum_before(edge_counts, block, RUNNING) + tl.cumsum(both.to(tl.int32), 0) - 1
        tl.store(new_edges + at, new_source, mask=both)
        tl.store(new_edges + kept_edges + at, new_target, mask=both)
        if POSITIONS:
            tl.store(position + at, edge, mask=both)
