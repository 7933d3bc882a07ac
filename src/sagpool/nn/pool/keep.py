"""Keeping the top nodes: what SAGPool, gPool, SortPool and the random control share."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs import Adjacency
from sagpool.nn.pool.selection import Selection
from sagpool.nn.readout import readout
from sagpool.ops import Layout, Rows, choose_rows, fewer_rows, pool_rows
from sagpool.ops.device import kernels_for


@dataclass(frozen=True, eq=False)
class Pooled:
    """What a pooling layer leaves of a packed batch.

    Args:
        x: ``[new rows, channels]``
        adjacency: of the new rows
        known_readout: what `readout` gives, where it has come with the rows
        source: ``[new rows]``, the input row of each new row, in any type of integers
        gate: ``[input rows]``, what each was multiplied with; None: nothing
    """

    x: Tensor
    adjacency: Adjacency
    known_readout: Tensor | None
    source: Tensor
    gate: Tensor | None

    @property
    def readout(self) -> Tensor:
        """``[members * graphs, 2 * channels]`` mean ‖ maximum over the rows of each graph."""
        if self.known_readout is not None:
            return self.known_readout
        return readout(self.x, self.adjacency)

    @property
    def perm(self) -> Tensor:
        """``[new rows]`` int64, the input row of each new row."""
        return self.source.long()

    @property
    def score(self) -> Tensor | None:
        """``[new rows]``, what each row was multiplied with; None: nothing."""
        return None if self.gate is None else self.gate.index_select(0, self.source)


class Chosen(NamedTuple):
    """Which rows are to be kept."""

    mask: Tensor  # [rows] bool; one row of each filler
    rows: Rows  # as they will be
    gate: Tensor | None  # [rows], with which rows are multiplied, if at all


def keep_top(
    x: Tensor, adjacency: Adjacency, rank: Tensor, gate: Tensor | None, selection: Selection
) -> Pooled:
    """``idx = top-rank(rank, k)``, ``X[idx] ⊙ gate[idx]``, ``A[idx, idx]`` (Equations 4 and 5).

    Kept nodes stay in their order, so that edges stay sorted; ties go to the lower node.

    Args:
        x: ``[rows, channels]``
        adjacency: of the rows
        rank: ``[rows]``, by which nodes are chosen
        gate: ``[rows]``, with which they are multiplied, if at all
        selection: how many are kept
    """
    return keep_chosen(x, adjacency, choose_top(adjacency, rank, gate, selection))


def choose_top(
    adjacency: Adjacency, rank: Tensor, gate: Tensor | None, selection: Selection
) -> Chosen:
    """The nodes of each graph that are highest in ``rank``."""
    rows: Rows
    if adjacency.filler and selection.one_k_each and kernels_for(rank) is not None:
        k = selection.k_on(adjacency.device, adjacency.members)
        rows = fewer_rows(adjacency, selection.share, k, selection.largest_k)
    else:
        real = adjacency.sizes[:, :-1] if adjacency.filler else adjacency.sizes
        rows = _rows_of(selection.counts(real), adjacency)
    return Chosen(choose_rows(rank, adjacency, rows), rows, gate)


def choose_above(adjacency: Adjacency, gate: Tensor, min_score: float) -> Chosen:
    """The nodes whose gate is above ``min_score``, and the highest of each graph anyway.

    How many that are depends on the scores, so the host has to wait for them here.
    """
    one = Layout(np.ones_like(adjacency.sizes), adjacency.filler, adjacency.device)
    best = choose_rows(gate, adjacency, one)
    mask = best | (gate > min_score)
    if adjacency.filler:
        filler = adjacency.graph % adjacency.graphs == adjacency.graphs - 1
        mask = torch.where(filler, best, mask)
    counts = torch.bincount(adjacency.graph[mask], minlength=adjacency.sizes.size)
    on_host = counts.cpu().numpy().reshape(adjacency.sizes.shape)
    return Chosen(mask, _rows_of(on_host[:, :-1] if adjacency.filler else on_host, adjacency), gate)


def _rows_of(counts: np.ndarray, adjacency: Adjacency) -> Layout:
    """The rows that are left if so many of each graph are kept, fillers not counted."""
    if adjacency.filler:
        # Every member gets as many rows as the largest needs, and at least one of a filler.
        real = counts.sum(axis=1)
        counts = np.concatenate([counts, (real.max() + 1 - real)[:, None]], axis=1)
    return Layout(counts, adjacency.filler, adjacency.device)


def keep_chosen(x: Tensor, adjacency: Adjacency, chosen: Chosen) -> Pooled:
    """What is left of ``x``, ``[rows, channels]``, and its adjacency."""
    mask, rows, gate = chosen
    left = pool_rows(x, gate, mask, adjacency.row_ptr, adjacency.col, adjacency, rows)
    smaller = Adjacency(rows, left.row_ptr, left.col, symmetric=adjacency.symmetric)
    return Pooled(left.x, smaller, left.readout, left.perm, gate)


def unpool(x: Tensor, perm: Tensor, rows: int) -> Tensor:
    """Put pooled rows back in place: row i at row ``perm[i]``, zero where nodes were dropped.

    Args:
        x: ``[new rows, channels]``
        perm: ``[new rows]`` as the pooling layer gave it
        rows: how many rows there were before pooling

    Returns:
        ``[rows, channels]``
    """
    return x.new_zeros(rows, *x.shape[1:]).index_copy(0, perm, x)
