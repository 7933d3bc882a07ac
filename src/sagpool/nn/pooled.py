"""Keeping the top nodes: what SAGPool, gPool, SortPool and the random control share."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs import Adjacency
from sagpool.nn.select import Selection
from sagpool.ops import gather_gated, induced_csr, keep_rows, to_device, top_of_each


class Pooled(NamedTuple):
    """What a pooling layer leaves of a packed batch."""

    x: Tensor  # [new rows, channels]
    adjacency: Adjacency
    perm: Tensor  # [new rows] int64, the input row of each new row
    score: Tensor | None  # [new rows], what each row was multiplied with; None: nothing


class Chosen(NamedTuple):
    """Which rows are to be kept."""

    mask: Tensor  # [rows] bool; one row of each filler
    counts: np.ndarray  # [members, graphs] marked rows of each graph, on the host
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
    if adjacency.filler:
        counts = selection.counts(adjacency.sizes[:, :-1])
        counts = np.concatenate([counts, np.ones_like(counts[:, :1])], axis=1)
    else:
        counts = selection.counts(adjacency.sizes)
    wanted = to_device(counts.ravel(), adjacency.device)
    mask = top_of_each(rank, adjacency.graph, adjacency.node_ptr, wanted)
    return Chosen(mask, counts, gate)


def choose_above(adjacency: Adjacency, gate: Tensor, min_score: float) -> Chosen:
    """The nodes whose gate is above ``min_score``, and the highest of each graph anyway.

    How many that are depends on the scores, so the host has to wait for them here.
    """
    one = torch.ones(adjacency.sizes.size, dtype=torch.int64, device=adjacency.device)
    best = top_of_each(gate, adjacency.graph, adjacency.node_ptr, one)
    mask = best | (gate > min_score)
    if adjacency.filler:
        filler = adjacency.graph % adjacency.graphs == adjacency.graphs - 1
        mask = torch.where(filler, best, mask)
    counts = torch.bincount(adjacency.graph[mask], minlength=adjacency.sizes.size)
    counts_on_host = counts.cpu().numpy().reshape(adjacency.sizes.shape)
    return Chosen(mask, counts_on_host, gate)


def keep_chosen(x: Tensor, adjacency: Adjacency, chosen: Chosen) -> Pooled:
    """What is left of ``x``, ``[rows, channels]``, and its adjacency."""
    mask, counts, gate = chosen
    sizes, repeats = counts, None
    if adjacency.filler:
        # The one row of a filler comes back as often as its member needs rows.
        real = counts[:, :-1].sum(axis=1)
        missing = real.max() + 1 - real
        sizes = np.concatenate([counts[:, :-1], missing[:, None]], axis=1)
        last = np.cumsum(counts.sum(axis=1)) - 1
        place, times = to_device(np.stack([last, missing]), adjacency.device)
        repeats = torch.ones(int(counts.sum()), dtype=torch.int64, device=adjacency.device)
        repeats = repeats.index_copy_(0, place, times)
    kept = keep_rows(mask, int(counts.sum()), repeats, int(sizes.sum()))
    row_ptr, col = induced_csr(adjacency.row_ptr, adjacency.col, kept)
    score = None if gate is None else gate.index_select(0, kept.perm)
    smaller = Adjacency(sizes, row_ptr, col, filler=adjacency.filler, symmetric=adjacency.symmetric)
    return Pooled(gather_gated(x, kept, score), smaller, kept.perm, score)


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
