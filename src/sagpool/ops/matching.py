"""Pairs of rows joined by heavy edges, found in parallel, and the graphs in which they are one."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sagpool.ops.device import kernels_for, on_cpu
from sagpool.ops.layout import Layout
from sagpool.ops.ragged import edge_rows
from sagpool.ops.segment import descending_bits

# Untrained models need up to 16 on DD, 10 on PROTEINS.
ROUNDS = 32
_NONE = torch.iinfo(torch.int64).max


def greedy_matching(weight: Tensor, row_ptr: Tensor, col: Tensor, layout: Layout) -> Tensor:
    """The partner of each row, if edges are taken by descending weight, both ends being free.

    In every round, an edge that is the heaviest at both its ends is taken: greedy search would take
    it before all others at these ends, so the result is the same. Edges of equal weight come in an
    order that `_order_of_ties` draws. There are at most `ROUNDS` rounds; what is free then, stays
    so.

    Args:
        weight: ``[entries]``, the same in both directions
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32; entries past ``row_ptr[-1]`` belong to no row
        layout: which rows belong to which graph; there are no edges between graphs

    Returns:
        ``[rows]`` int64; the row itself if it has no partner
    """
    if (kernels := kernels_for(weight)) is not None:
        return kernels.greedy_matching(weight.detach(), row_ptr, col, layout.node_ptr, ROUNDS)
    row, other = edge_rows(row_ptr, col), col.long()
    own = torch.arange(layout.total_rows, device=col.device)
    local = own - layout.node_ptr.index_select(0, layout.graph)  # number in the graph
    ends = local.index_select(0, row), local.index_select(0, other)
    tie = _order_of_ties(torch.minimum(*ends), torch.maximum(*ends))
    key = (descending_bits(weight.detach()).long() << 32) + tie  # lower is heavier
    inside = torch.arange(len(col), device=col.device) < row_ptr[-1]
    usable = (row != other) & inside
    if on_cpu(weight):
        chosen = usable.numpy()
        keys, rows, others = (array.numpy()[chosen] for array in (key, row, other))
        return torch.from_numpy(_matching_on_host(keys, rows, others, len(local)))
    partner = own
    free = torch.ones_like(partner, dtype=torch.bool)
    for _ in range(ROUNDS):
        open_ = usable & free.index_select(0, row) & free.index_select(0, other)
        keys = torch.where(open_, key, _NONE)
        best = torch.full_like(partner, _NONE).scatter_reduce(0, row, keys, "amin")
        # The other end of the best edge; a row without one writes to a place that is cut off.
        is_best = open_ & (key == best.index_select(0, row))
        wanted = torch.arange(len(local) + 1, device=col.device)
        wanted = wanted.scatter(0, torch.where(is_best, row, len(local)), other)[:-1]
        mutual = wanted.index_select(0, wanted) == own
        partner = torch.where(mutual & free, wanted, partner)
        free = free & (partner == own)
    return partner


def _order_of_ties(low: Tensor, high: Tensor) -> Tensor:
    """``[entries]`` int64 from 0 to 2^32 - 1, a hash of the two ends of each edge.

    By the ends themselves, a path of equal weights would need a round for each pair. Each step can
    be inverted, so in graphs of up to 2^16 nodes no two edges have the same number.
    """
    bits = ((low << 16) + (high & 0xFFFF)) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):  # Wellons' lowbias32
        bits = ((bits ^ (bits >> shift)) * factor) & 0xFFFFFFFF
    return bits


def _matching_on_host(key: np.ndarray, row: np.ndarray, other: np.ndarray, rows: int) -> np.ndarray:
    """The same with NumPy; the edges, by row, become fewer from round to round."""
    own = np.arange(rows)
    partner = own.copy()
    for _ in range(ROUNDS):
        if not len(key):
            break
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        lowest = np.minimum.reduceat(key, starts)
        is_best = key == np.repeat(lowest, np.diff(starts, append=len(key)))
        wanted = own.copy()
        wanted[row[is_best]] = other[is_best]
        mutual = (wanted[wanted] == own) & (wanted != own)
        partner[mutual] = wanted[mutual]
        free = partner == own
        left = free[row] & free[other]
        key, row, other = key[left], row[left], other[left]
    return partner


def merged_csr(row_ptr: Tensor, col: Tensor, row: Tensor, name: Tensor) -> tuple[Tensor, Tensor]:
    """``row_ptr`` and ``col`` if every row is renamed, without double entries.

    Rows whose name nobody has are left without entries.

    Args:
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32
        row: ``[entries]`` int64, the row of each entry
        name: ``[rows]`` int64, the row that each becomes a part of

    Returns:
        on the CPU exactly the entries that are left; on other devices as many as before, the spare
        ones at the end pointing to the last row
    """
    rows = len(name)
    key = name.index_select(0, row) * rows + name.index_select(0, col)
    limits = torch.arange(rows + 1, device=col.device) * rows
    if on_cpu(key):
        found = torch.from_numpy(np.unique(key[: int(row_ptr[-1])].numpy()))
        return torch.searchsorted(found, limits).int(), (found % rows).int()
    inside = torch.arange(len(col), device=col.device) < row_ptr[-1]
    in_order = torch.sort(torch.where(inside, key, rows * rows)).values
    new = pad(in_order[1:] != in_order[:-1], (1, 0), value=True) & (in_order < rows * rows)
    place = torch.where(new, torch.cumsum(new, 0) - 1, len(col))
    found = key.new_full((len(col) + 1,), rows * rows).scatter_(0, place, in_order)[:-1]
    left = torch.where(found < rows * rows, found % rows, rows - 1)
    return torch.searchsorted(found, limits).int(), left.int()
