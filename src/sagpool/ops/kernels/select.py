"""Which rows of each graph are kept, and their new positions. One program per graph."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.copies import original
from sagpool.ops.kernels.jit import kernel

_BLOCK = 128
# Larger, for fillers, which are always long.
_STRIDE = 512
_LONG = 256  # rows of a block after the first of a graph


def fewer_rows(
    ptr: Tensor, k: Tensor | None, members: int, rows: int, numerator: int, denominator: int
) -> Tensor:
    """The first row of each graph after pooling; see `sagpool.ops.layout.pooled_layout`.

    Args:
        ptr: ``[members * graphs + 1]`` int64; the last graph of each member is its filler
        k: ``[members]`` int64, or None
        members: how many
        rows: new rows of each member
        numerator: of the ratio
        denominator: of the ratio
    """
    out = torch.empty_like(ptr)
    _fewer_rows[(members,)](
        ptr, k, out, (len(ptr) - 1) // members, rows, numerator, denominator,
        BY_K=k is not None, BLOCK=_BLOCK, num_warps=1,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["graphs", "rows", "numerator", "denominator"])
def _fewer_rows(
    ptr, k, out, graphs, rows, numerator, denominator,
    BY_K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0).to(tl.int64)
    place = member * rows
    for first in range(0, graphs - 1, BLOCK):
        number = first + tl.arange(0, BLOCK)
        inside = number < graphs - 1
        at = member * graphs + number
        size = tl.load(ptr + at + 1, mask=inside, other=0) - tl.load(ptr + at, mask=inside, other=0)
        if BY_K:
            count = tl.minimum(size, tl.load(k + member))
        else:
            count = (size * numerator + denominator - 1) // denominator
        tl.store(out + at, place + tl.cumsum(count, 0) - count, mask=inside)
        place += tl.sum(count, 0)
    tl.store(out + member * graphs + graphs - 1, place)
    if member == tl.num_programs(0) - 1:
        tl.store(out + (member + 1) * graphs, (member + 1) * rows)


class Numbered(NamedTuple):
    """Rows that are kept, with their numbers."""

    perm: Tensor  # [new rows] int32, the old row of each new row
    new_row: Tensor  # [old rows] int32, the first new row of each old one, -1 if dropped
    graph: Tensor  # [old rows] int64

    @staticmethod
    def empty(old: int, new: int, device: torch.device) -> "Numbered":
        return Numbered(
            torch.empty(new, dtype=torch.int32, device=device),
            torch.empty(old, dtype=torch.int32, device=device),
            torch.empty(old, dtype=torch.int64, device=device),
        )


def top_of_each(
    score: Tensor, ptr: Tensor, kept_ptr: Tensor, total: int, filler_every: int
) -> Numbered:
    """Keep the rows with the highest scores: of each graph as many as it has new rows.

    Without sorting: the score of the last kept row is found two bits at a time. Of a filler the
    first row is kept, and repeated.

    Args:
        score: ``[old rows]``
        ptr: ``[graphs + 1]`` the first old row of each graph
        kept_ptr: ``[graphs + 1]`` the first new row of each graph
        total: new rows
        filler_every: every n-th graph is a filler; 0 for none
    """
    graphs = len(ptr) - 1
    numbered = Numbered.empty(len(score), total, score.device)
    _top_of_each[(graphs,)](
        score.contiguous(),
        ptr,
        kept_ptr,
        *numbered,
        filler_every,
        STRIDE=_STRIDE,
        BLOCK=64 if len(score) <= 96 * graphs else 256,
        LONG=_LONG,
        num_warps=1,
    )
    return numbered


@kernel(do_not_specialize=["filler_every"])
def _top_of_each(
    score, ptr, kept_ptr, perm, new_row, graph_of, filler_every,
    STRIDE: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    graph = tl.program_id(0)
    start, end = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    place = tl.load(kept_ptr + graph).to(tl.int32)
    stop = tl.load(kept_ptr + graph + 1).to(tl.int32)
    if filler_every > 0 and graph % filler_every == filler_every - 1:
        for first in range(start, end, STRIDE):
            row = first + tl.arange(0, STRIDE)
            tl.store(new_row + row, tl.where(row == start, place, -1), mask=row < end)
            tl.store(graph_of + row, tl.zeros((STRIDE,), tl.int64) + graph, mask=row < end)
        _repeat(perm, start.to(tl.int32), place, stop, STRIDE)
    else:
        wanted = stop - place
        offset = tl.arange(0, BLOCK)
        level = tl.full((), 0, tl.uint32)
        above = tl.full((), 0, tl.int32)
        bit = tl.full((), 0x80000000, tl.uint32)
        # Most graphs have one block: its keys are computed once, not for every bit.
        first_key = _descending(score, start + offset, end)
        first_inside = start + offset < end
        for _ in range(16):
            # Two bits at a time: half as many passes over a long graph, and sums that overlap.
            second, first_bit = level | (bit >> 1), level | bit
            both = first_bit | second
            below_second = _below(first_key, first_inside, second)
            below_first = _below(first_key, first_inside, first_bit)
            below_both = _below(first_key, first_inside, both)
            for first in range(start + BLOCK, end, LONG):
                row = first + tl.arange(0, LONG)
                key, inside = _descending(score, row, end), row < end
                below_second += _below(key, inside, second)
                below_first += _below(key, inside, first_bit)
                below_both += _below(key, inside, both)
            if below_both < wanted:
                level, above = both, below_both
            elif below_first < wanted:
                level, above = first_bit, below_first
            elif below_second < wanted:
                level, above = second, below_second
            bit = bit >> 2
        # The level is the score of the last kept row; of rows with this score the first are kept.
        ties_left = wanted - above
        for first in range(start, end, BLOCK):
            row = first + offset
            key = _descending(score, row, end)
            inside = row < end
            tied = ((key == level) & inside).to(tl.int32)
            order = tl.cumsum(tied, 0)
            chosen = ((key < level) & inside) | ((tied == 1) & (order <= ties_left))
            ties_left -= tl.sum(tied, 0)
            tl.store(graph_of + row, tl.zeros((BLOCK,), tl.int64) + graph, mask=inside)
            place = _number(perm, new_row, row, inside, chosen.to(tl.int32), place)


@triton.jit
def _number(perm, new_row, row, inside, chosen, place):
    """Give the chosen rows the next new rows; returns the one after them."""
    at = place + tl.cumsum(chosen, 0) - 1
    tl.store(new_row + row, tl.where(chosen == 1, at, -1), mask=inside)
    tl.store(perm + at, row.to(tl.int32), mask=chosen == 1)
    return place + tl.sum(chosen, 0)


@triton.jit
def _repeat(perm, row, place, stop, STRIDE: tl.constexpr):
    """Fill the new rows from ``place`` to ``stop`` with one old row."""
    for first in range(place, stop, STRIDE):
        at = first + tl.arange(0, STRIDE)
        tl.store(perm + at, tl.zeros((STRIDE,), tl.int32) + row, mask=at < stop)


@triton.jit
def _below(key, inside, candidate):
    return tl.sum(((key < candidate) & inside).to(tl.int32), 0)


@triton.jit
def _descending(score, row, end):
    """Integers that are smaller for higher scores, and equal for equal ones.

    Wider types are ranked as float32; see `sagpool.ops.segment`.
    """
    return descending(tl.load(score + row, mask=row < end, other=0.0))


@triton.jit
def descending(value):
    """`_descending` of numbers that are loaded."""
    bits = (value.to(tl.float32) + 0.0).to(tl.int32, bitcast=True)
    # The larger a negative number, the smaller its bits.
    ascending = tl.where(bits < 0, ~bits, bits | -2147483648)
    # Inverted as a signed number: the interpreter of Triton 3.7 cannot invert others.
    return (~ascending).to(tl.uint32, bitcast=True)


def keep_rows(mask: Tensor, ptr: Tensor, kept_ptr: Tensor, total: int) -> Numbered:
    """Keep the marked rows.

    If a graph has more new rows than marked ones, its last marked row is repeated.

    Args:
        mask: ``[old rows]`` bool
        ptr: ``[graphs + 1]`` the first old row of each graph
        kept_ptr: ``[graphs + 1]`` the first new row of each graph
        total: new rows
    """
    numbered = Numbered.empty(len(mask), total, mask.device)
    _keep_rows[(len(ptr) - 1,)](
        mask.view(torch.uint8), ptr, kept_ptr, *numbered, BLOCK=_BLOCK, STRIDE=_STRIDE, num_warps=1
    )
    return numbered


@kernel()
def _keep_rows(
    mask, ptr, kept_ptr, perm, new_row, graph_of, BLOCK: tl.constexpr, STRIDE: tl.constexpr
):
    graph = tl.program_id(0)
    start = tl.load(ptr + graph).to(tl.int32)
    end = tl.load(ptr + graph + 1).to(tl.int32)
    place = tl.load(kept_ptr + graph).to(tl.int32)
    stop = tl.load(kept_ptr + graph + 1).to(tl.int32)
    last = start
    for first in range(start, end, BLOCK):
        row = first + tl.arange(0, BLOCK)
        inside = row < end
        marked = tl.load(mask + row, mask=inside, other=0).to(tl.int32)
        tl.store(graph_of + row, tl.zeros((BLOCK,), tl.int64) + graph, mask=inside)
        place = _number(perm, new_row, row, inside, marked, place)
        last = tl.maximum(last, tl.max(tl.where(marked == 1, row, start), 0))
    _repeat(perm, last, place, stop, STRIDE)


def graph_of_rows(ptr: Tensor, total: int) -> Tensor:
    """``[rows]`` int64, the graph of each row."""
    graph = torch.empty(total, dtype=torch.int64, device=ptr.device)
    _graph_of_rows[(len(ptr) - 1,)](ptr, graph, STRIDE=_STRIDE, num_warps=1)
    return graph


@kernel()
def _graph_of_rows(ptr, graph, STRIDE: tl.constexpr):
    number = tl.program_id(0)
    start, end = tl.load(ptr + number), tl.load(ptr + number + 1)
    for first in range(start, end, STRIDE):
        row = first + tl.arange(0, STRIDE)
        tl.store(graph + row, tl.zeros((STRIDE,), tl.int64) + number, mask=row < end)


def induced_csr(
    row_ptr: Tensor,
    col: Tensor,
    perm: Tensor,
    new_row: Tensor,
    copies: int = 1,
    rows_each: int = 0,
) -> tuple[Tensor, Tensor]:
    """The adjacency among the kept rows; see `sagpool.ops.induced_csr`.

    Args:
        row_ptr: ``[old rows + 1]`` int32, without the copies
        col: ``[entries]`` int32
        perm: of `Numbered`
        new_row: of `Numbered`
        copies: how often each member is there in the old rows; see `sagpool.ops.copies`
        rows_each: old rows of one copy of a member
    """
    rows = len(perm)
    length = torch.empty(rows + 1, dtype=torch.int32, device=col.device)
    kept_col = col.new_empty(copies * len(col))
    grid = (triton.cdiv(rows + 1, _BLOCK),)
    _count_entries[grid](
        row_ptr, col, perm, new_row, length, rows, rows_each, COPIES=copies, BLOCK=_BLOCK,
        num_warps=4,
    )  # fmt: skip
    kept_ptr = torch.cumsum(length, 0, dtype=torch.int32)
    _write_entries[grid](
        row_ptr, col, perm, new_row, kept_ptr, kept_col, rows, len(kept_col), rows_each,
        COPIES=copies, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return kept_ptr, kept_col


@kernel(do_not_specialize=["rows", "rows_each"])
def _count_entries(
    row_ptr, col, perm, new_row, length, rows, rows_each, COPIES: tl.constexpr, BLOCK: tl.constexpr
):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # one more than the new row
    start, end, shift = _entries_of(row_ptr, perm, new_row, place - 1, rows, rows_each, COPIES)
    count = tl.zeros((BLOCK,), tl.int32)
    for step in range(tl.max(end - start, 0)):
        entry = start + step
        name = tl.load(col + entry, mask=entry < end, other=0)
        target = tl.load(new_row + name + shift, mask=entry < end, other=-1)
        count += (target >= 0).to(tl.int32)
    tl.store(length + place, count, mask=place <= rows)


@kernel(do_not_specialize=["rows", "entries", "rows_each"])
def _write_entries(
    row_ptr, col, perm, new_row, kept_ptr, kept_col, rows, entries, rows_each,
    COPIES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    start, end, shift = _entries_of(row_ptr, perm, new_row, row, rows, rows_each, COPIES)
    place = tl.load(kept_ptr + row, mask=row < rows, other=0)
    for step in range(tl.max(end - start, 0)):
        entry = start + step
        name = tl.load(col + entry, mask=entry < end, other=0)
        target = tl.load(new_row + name + shift, mask=entry < end, other=-1)
        tl.store(kept_col + place, target, mask=target >= 0)
        place += (target >= 0).to(tl.int32)
    # Spare entries point to the last row. Each program writes some of them.
    spare = tl.load(kept_ptr + rows) + row
    for _ in range(tl.cdiv(entries, tl.num_programs(0) * BLOCK)):
        tl.store(kept_col + spare, tl.zeros((BLOCK,), tl.int32) + rows - 1, mask=spare < entries)
        spare += tl.num_programs(0) * BLOCK


@triton.jit
def _entries_of(row_ptr, perm, new_row, row, rows, rows_each, COPIES: tl.constexpr):
    """The start and end of the entries of these new rows; a repeated row has none.

    And the difference between the columns of a copy and those that are stored.
    """
    inside = (row >= 0) & (row < rows)
    old = tl.load(perm + row, mask=inside, other=0)
    own = inside & (tl.load(new_row + old, mask=inside, other=-1) == row)
    first = original(old, rows_each, COPIES)
    start = tl.load(row_ptr + first, mask=own, other=0)
    end = tl.load(row_ptr + first + 1, mask=own, other=0)
    return start, end, old - first
