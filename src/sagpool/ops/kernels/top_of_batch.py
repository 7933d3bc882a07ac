"""The top rows of graphs that a batch vector tells apart."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.marked_graph import Marks
from sagpool.ops.kernels.raw_score import RawScore, raw_score
from sagpool.ops.kernels.select import descending
from sagpool.ops.kernels.tiles import blocks

# Estimates, not measured: one graph of 65,536 rows takes 4e9 comparisons, about a millisecond; a
# batch of graphs far fewer. One graph alone is sorted by 32-bit keys, which is cheaper, earlier.
MOST_COUNTED = 1 << 16
MOST_COUNTED_OF_ONE = 1 << 14

_BLOCK = 512
_TILE, _CHUNK = 32, 64
_MARKS = 1024


def can_count(rows: int, batch: Tensor | None) -> bool:
    """Whether `top_by_counting` is fast enough."""
    return rows <= (MOST_COUNTED_OF_ONE if batch is None else MOST_COUNTED)


def top_by_counting(
    score: RawScore,
    batch: Tensor | None,
    k: int | None,
    numerator: int,
    denominator: int,
    totals: Tensor,
) -> tuple[Marks, Tensor]:
    """Mark the rows with the highest scores, for a batch that is sorted.

    The place of a row is the number of rows of its graph that come before it, so there is nothing
    to sort.

    Args:
        score: of the rows
        batch: ``[rows]`` int64, contiguous; None for one graph
        k: how many of each graph, or None
        numerator: of the ratio
        denominator: of the ratio
        totals: see `number_marked`; the last becomes positive if the batch is not sorted, and then
            the marks mean nothing

    Returns:
        the marks, and ``[rows]`` the scores
    """
    rows = len(score.projected)
    raw = score.empty()
    tiles = blocks(rows, _TILE)
    mask = torch.empty(rows, dtype=torch.bool, device=raw.device)
    counts = torch.empty(tiles, dtype=torch.int32, device=raw.device)
    _top_by_counting[(tiles,)](
        batch=batch, raw=raw, mask=mask.view(torch.uint8), counts=counts, totals=totals, rows=rows,
        k=k or 0, numerator=numerator, denominator=denominator, steps=rows.bit_length(),
        **score.arguments(), GIVEN=score.is_given, BATCHED=batch is not None, BY_K=k is not None,
        TILE=_TILE, CHUNK=_CHUNK, num_warps=4,
    )  # fmt: skip
    return Marks(mask, counts, _TILE), raw


@kernel(do_not_specialize=["rows", "k", "numerator", "denominator", "steps"])
def _top_by_counting(
    projected, bias, degree, received, batch, raw, mask, counts, totals, rows, k, numerator,
    denominator, steps,
    GCN: tl.constexpr, BIASED: tl.constexpr, GIVEN: tl.constexpr, BATCHED: tl.constexpr,
    BY_K: tl.constexpr, TILE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = row < rows
    value = raw_score(projected, bias, degree, received, row, inside, GCN, BIASED)
    if not GIVEN:
        tl.store(raw + row, value, mask=inside)
    own = descending(value).to(tl.int64)
    if BATCHED:
        graph, start, end = rows_of_same_graph(batch, row, rows, steps)
        report_unsorted(batch, graph, row, rows, totals)
        own += graph << 32
        low = tl.min(tl.where(inside, start, rows), 0)
        high = tl.max(tl.where(inside, end, 0), 0)
    else:
        start = tl.zeros((TILE,), tl.int32)
        end = start + rows
        low = 0
        high = rows
    before = tl.zeros((TILE, CHUNK), tl.int32)
    for first in range(low, high, CHUNK):
        other = first + tl.arange(0, CHUNK)
        present = other < high
        theirs = raw_score(projected, bias, degree, received, other, present, GCN, BIASED)
        key = descending(theirs).to(tl.int64)
        if BATCHED:
            key += tl.load(batch + other, mask=present, other=0) << 32
        # Of equal scores the lower row comes first.
        limit = own[:, None] + (other[None, :] < row[:, None]).to(tl.int64)
        before += (present[None, :] & (key[None, :] < limit)).to(tl.int32)
    # All rows of earlier graphs come before.
    place = tl.sum(before, 1) - (start - low)
    if BY_K:
        chosen = place < k
    else:
        size = (end - start).to(tl.int64)
        chosen = place < (size * numerator + denominator - 1) // denominator
    chosen = (chosen & inside).to(tl.int32)
    tl.store(mask + row, chosen.to(tl.uint8), mask=inside)
    tl.store(counts + tl.program_id(0), tl.sum(chosen, 0))


@triton.jit
def rows_of_same_graph(batch, row, rows, steps):
    """The graph of each row, its first row and the end of its rows, in a sorted batch."""
    graph = tl.load(batch + row, mask=row < rows, other=0)
    start = _first_at_least(batch, graph, rows, steps)
    end = _first_at_least(batch, graph + 1, rows, steps)
    return graph, start.to(tl.int32), end.to(tl.int32)


@triton.jit
def report_unsorted(batch, graph, row, rows, totals):
    """Count the rows that are followed by one of an earlier graph."""
    following = tl.load(batch + row + 1, mask=row + 1 < rows, other=0)
    unsorted = tl.sum(((following < graph) & (row + 1 < rows)).to(tl.int32), 0)
    tl.atomic_add(totals + 3, unsorted, mask=unsorted > 0)


def top_by_sorting(
    score: RawScore,
    batch: Tensor | None,
    k: int | Tensor | None,
    numerator: int,
    denominator: int,
) -> tuple[Marks, Tensor]:
    """`top_by_counting` for any number of rows and a batch in any order.

    Args:
        score: of the rows
        batch: ``[rows]`` int64, contiguous; None for one graph
        k: a number, with a batch ``[graphs]`` int64, or None
        numerator: of the ratio
        denominator: of the ratio
    """
    rows = len(score.projected)
    raw = score.empty()
    width = torch.int32 if batch is None else torch.int64
    key = torch.empty(rows, dtype=width, device=raw.device)
    grid = (blocks(rows, _BLOCK),)
    _sort_keys[grid](
        batch=batch, raw=raw, key=key, rows=rows, **score.arguments(), GIVEN=score.is_given,
        BATCHED=batch is not None, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    in_order, order = torch.sort(key, stable=True)
    mask = torch.empty(rows, dtype=torch.bool, device=raw.device)
    counts = torch.zeros(blocks(rows, _MARKS), dtype=torch.int32, device=raw.device)
    each, number = (k, 0) if isinstance(k, Tensor) else (None, k)
    _mark_top[grid](
        in_order, order, each, mask.view(torch.uint8), counts, rows, number or 0, numerator,
        denominator, rows.bit_length(), BATCHED=batch is not None, BY_K=k is not None,
        EACH=each is not None, MARKS=_MARKS, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return Marks(mask, counts, _MARKS), raw


@kernel(do_not_specialize=["rows"])
def _sort_keys(
    projected, bias, degree, received, batch, raw, key, rows,
    GCN: tl.constexpr, BIASED: tl.constexpr, GIVEN: tl.constexpr, BATCHED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Ascending by graph, then descending by score."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    value = raw_score(projected, bias, degree, received, row, inside, GCN, BIASED)
    if not GIVEN:
        tl.store(raw + row, value, mask=inside)
    bits = descending(value)
    if BATCHED:
        graph = tl.load(batch + row, mask=inside, other=0)
        tl.store(key + row, (graph << 32) + bits.to(tl.int64), mask=inside)
    else:
        # With a sign, which torch sorts by.
        tl.store(key + row, bits.to(tl.int32, bitcast=True) ^ -2147483648, mask=inside)


@kernel(do_not_specialize=["rows", "k", "numerator", "denominator", "steps"])
def _mark_top(
    in_order, order, k_of_graph, mask, counts, rows, k, numerator, denominator, steps,
    BATCHED: tl.constexpr, BY_K: tl.constexpr, EACH: tl.constexpr, MARKS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < rows
    start = tl.zeros((BLOCK,), tl.int64)
    end = start + rows
    if BATCHED:
        graph = tl.load(in_order + place, mask=inside, other=0) >> 32
        start = _first_at_least(in_order, graph << 32, rows, steps)
        end = _first_at_least(in_order, (graph + 1) << 32, rows, steps)
    if EACH:
        count = tl.load(k_of_graph + graph, mask=inside, other=0)
    elif BY_K:
        count = tl.zeros((BLOCK,), tl.int64) + k
    else:
        count = ((end - start) * numerator + denominator - 1) // denominator
    row = tl.load(order + place, mask=inside, other=0)
    chosen = inside & (place - start < count)
    tl.store(mask + row, chosen.to(tl.uint8), mask=inside)
    tl.atomic_add(counts + row // MARKS, tl.full((BLOCK,), 1, tl.int32), mask=chosen)


@triton.jit
def _first_at_least(in_order, value, rows, steps):
    """The first place whose key is not below the value, or the number of rows."""
    low = tl.zeros_like(value)
    high = tl.zeros_like(value) + rows
    for _ in range(steps):
        open = low < high
        middle = (low + high) // 2
        below = tl.load(in_order + middle, mask=open, other=0) < value
        low = tl.where(open & below, middle + 1, low)
        high = tl.where(open & ~below, middle, high)
    return low
