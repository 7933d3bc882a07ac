"""Pairs of rows joined by heavy edges, found round by round. One program per graph."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.select import descending


def greedy_matching(
    weight: Tensor, row_ptr: Tensor, col: Tensor, ptr: Tensor, rounds: int
) -> Tensor:
    """The partner of each row; see `sagpool.ops.matching`.

    Args:
        weight: ``[entries]``
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32
        ptr: ``[graphs + 1]`` int64, the first row of each graph
        rounds: at most so many
    """
    rows, graphs = len(row_ptr) - 1, len(ptr) - 1
    partner, wanted = ptr.new_empty(rows), col.new_empty(rows)
    # Most graphs fit into one block; the sizes are estimates, not measured.
    block, warps = (64, 2) if rows <= 96 * graphs else (512, 8)
    _greedy_matching[(graphs,)](
        weight.contiguous(), row_ptr, col, ptr, wanted, partner, rounds,
        BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return partner


@kernel(do_not_specialize=["rounds"])
def _greedy_matching(weight, row_ptr, col, ptr, wanted, partner, rounds, BLOCK: tl.constexpr):
    """Ends early if a round finds no pair: the next ones would find none either.

    A program's threads see each other's stores after a barrier.
    """
    graph = tl.program_id(0)
    start = tl.load(ptr + graph).to(tl.int32)
    end = tl.load(ptr + graph + 1).to(tl.int32)
    for first in range(start, end, BLOCK):
        row = first + tl.arange(0, BLOCK)
        tl.store(partner + row, row.to(tl.int64), mask=row < end)
    matched = end - start
    while (matched > 0) & (rounds > 0):
        tl.debug_barrier()  # partners are stored
        for first in range(start, end, BLOCK):
            row = first + tl.arange(0, BLOCK)
            heaviest = _end_of_heaviest(weight, row_ptr, col, partner, row, start, end)
            tl.store(wanted + row, heaviest, mask=row < end)
        tl.debug_barrier()  # wanted rows are stored
        matched = tl.full((), 0, tl.int32)
        for first in range(start, end, BLOCK):
            row = first + tl.arange(0, BLOCK)
            other = tl.load(wanted + row, mask=row < end, other=0)
            mutual = (row < end) & (other != row)
            mutual &= tl.load(wanted + other, mask=mutual, other=-1) == row
            tl.store(partner + row, other.to(tl.int64), mask=mutual)
            matched += tl.sum(mutual.to(tl.int32), 0)
        rounds -= 1


@triton.jit
def _end_of_heaviest(weight, row_ptr, col, partner, row, start, end):
    """The other end of each row's heaviest edge between free rows; without one the row itself."""
    inside = row < end
    free = inside & (tl.load(partner + row, mask=inside, other=-1) == row)
    entry = tl.load(row_ptr + row, mask=free, other=0)
    stop = tl.load(row_ptr + row + 1, mask=free, other=0)
    best = tl.full(row.shape, 0xFFFFFFFFFFFFFFFF, tl.uint64)
    found = row
    for _ in range(tl.max(stop - entry, 0)):
        present = entry < stop
        other = tl.load(col + entry, mask=present, other=0)
        value = tl.load(weight + entry, mask=present, other=0.0)
        open = present & (other != row)
        open &= tl.load(partner + other, mask=open, other=-1) == other
        tie = _order_of_ties(tl.minimum(row, other) - start, tl.maximum(row, other) - start)
        key = (descending(value).to(tl.uint64) << 32) + tie  # lower is heavier
        heavier = open & (key <= best)
        best = tl.where(heavier, key, best)
        found = tl.where(heavier, other, found)
        entry += 1
    return found


@triton.jit
def _order_of_ties(low, high):
    """As in `sagpool.ops.matching`; products of 32-bit numbers wrap around."""
    bits = (low.to(tl.uint32) << 16) + (high.to(tl.uint32) & 0xFFFF)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return bits ^ (bits >> 16)
