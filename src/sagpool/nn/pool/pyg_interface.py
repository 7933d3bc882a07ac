"""PyG's calling convention for layers that keep the top nodes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.nn.pool.scores import Scores
from sagpool.nn.pool.selection import Selection
from sagpool.ops import rows_above, softmax_of_graphs, top_count, top_rows
from sagpool.ops.device import on_cpu, to_device
from sagpool.ops.marked_graph import MarkedGraph, check_indices, keep_marked, keep_top
from sagpool.ops.pool_by_product import Keep, ProductScore, pool_by_product


class PoolOutput(NamedTuple):
    """The fields of PyG's pooling layers, in PyG's order."""

    x: Tensor  # [kept, channels]
    edge_index: Tensor  # [2, kept edges] int64, nodes renumbered
    edge_attr: Tensor | None  # [kept edges, ...]
    batch: Tensor  # [kept] int64
    perm: Tensor  # [kept] int64, the input node of each kept node, ascending
    score: Tensor | None  # [kept]


def check_pyg(
    x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor | None
) -> None:
    """Check a PyG user's arguments: shapes, types, and values that are free to read.

    On a GPU the operators refuse indices that are out of range.
    """
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        raise SagpoolError(
            f"edge_index must be an int64 tensor of shape (2, edges), not {edge_index.dtype} of "
            f"shape {tuple(edge_index.shape)}."
        )
    rows, edges = x.shape[0], edge_index.shape[1]  # len() would be fixed by torch.export
    if batch is not None and (batch.shape != x.shape[:1] or batch.dtype != torch.int64):
        raise SagpoolError(
            f"batch must have one int64 entry for each of {rows} nodes, not {batch.dtype} of "
            f"shape {tuple(batch.shape)}."
        )
    if edge_attr is not None and edge_attr.shape[0] != edges:
        raise SagpoolError(f"edge_attr has {edge_attr.shape[0]} rows for {edges} edges.")
    if on_cpu(x):
        check_indices(rows, edge_index, batch)


def as_rows(attn: Tensor, x: Tensor) -> Tensor:
    """``attn`` as a matrix with a row for each row of x."""
    if not attn.ndim or attn.shape[0] != x.shape[0]:
        raise SagpoolError(f"attn has shape {tuple(attn.shape)}, but x has {len(x)} rows.")
    return attn.view(-1, 1) if attn.ndim == 1 else attn


def keep_by_product(
    x: Tensor,
    score: ProductScore,
    edge_index: Tensor,
    batch: Tensor | None,
    selection: Selection,
    min_score: float | None,
    positions: bool,
) -> MarkedGraph | None:
    """The result of `keep_highest`, or with a ``min_score`` of `keep_above`, by one operator.

    None if there is no such operator.
    """
    k = selection.k
    if isinstance(k, np.ndarray) or selection.rounds:
        return None
    keep = Keep(selection.fraction, k, min_score)
    return pool_by_product(x, score, edge_index, batch, keep, positions)


def keep_highest(
    x: Tensor,
    scores: Scores,
    edge_index: Tensor,
    batch: Tensor | None,
    selection: Selection,
    positions: bool,
) -> MarkedGraph:
    """The rows with the highest ranks, as many of each graph as ``selection`` says."""
    gate, k, ratio = scores.gate.to(x.dtype), selection.k, selection.fraction
    if isinstance(k, np.ndarray) or selection.rounds:
        mask, number = highest(scores.rank, batch, selection)
        return keep_marked(x, gate, mask, edge_index, batch, number, positions)
    return keep_top(x, gate, scores.rank, edge_index, batch, ratio, k, positions)


def highest(rank: Tensor, batch: Tensor | None, selection: Selection) -> tuple[Tensor, int | None]:
    """Mark the rows with the highest ranks, ``[rows]`` bool; and their number, if known."""
    k, ratio = selection.k, selection.fraction
    if isinstance(k, np.ndarray) or selection.rounds:
        batch = torch.zeros_like(rank, dtype=torch.int64) if batch is None else batch
        counts = selection.counts(torch.bincount(batch).cpu().numpy())
        mask = top_rows(rank, batch, ratio, to_device(counts, rank.device))
        return mask, int(counts.sum())
    count = top_count(rank.shape[0], ratio, k) if batch is None else None
    return top_rows(rank, batch, ratio, k), count


def keep_above(
    x: Tensor,
    scores: Scores,
    edge_index: Tensor,
    batch: Tensor | None,
    min_score: float,
    positions: bool,
) -> MarkedGraph:
    """The rows whose softmax is above ``min_score``, and the highest row of each graph."""
    softmax = softmax_of_graphs(scores.rank, batch)
    mask = rows_above(softmax, batch, min_score)
    return keep_marked(x, softmax.to(x.dtype), mask, edge_index, batch, None, positions)


def unpack_pyg(left: MarkedGraph, edge_attr: Tensor | None) -> PoolOutput:
    """The pooled graphs in PyG's form."""
    if edge_attr is not None:
        assert left.edges is not None
        edge_attr = edge_attr.index_select(0, left.edges)
    return PoolOutput(left.x, left.edge_index, edge_attr, left.batch, left.perm, left.gate)


def as_more_graphs(parts: Sequence[PoolOutput], batch: Tensor | None) -> PoolOutput:
    """The pooled graphs of all masks, mask after mask.

    With b graphs in the batch, graph g of mask m, both counted from 0, is graph m · b + g.
    """
    graphs = 1 if batch is None else int(batch.max()) + 1
    rows = np.cumsum([0, *(len(part.perm) for part in parts)]).tolist()
    attributes = [part.edge_attr for part in parts if part.edge_attr is not None]
    return PoolOutput(
        x=torch.cat([part.x for part in parts]),
        edge_index=torch.cat(
            [part.edge_index + first for part, first in zip(parts, rows, strict=False)], 1
        ),
        edge_attr=torch.cat(attributes) if attributes else None,
        batch=torch.cat([part.batch + m * graphs for m, part in enumerate(parts)]),
        perm=torch.cat([part.perm for part in parts]),
        score=torch.cat([part.score for part in parts if part.score is not None]),
    )


def nothing_pooled(x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> PoolOutput:
    """The result for a batch without nodes."""
    if edge_index.numel():
        raise SagpoolError("edge_index has edges, but there are no nodes.")
    none = edge_index.new_zeros(0)
    return PoolOutput(x, edge_index, edge_attr, none, none, x.new_zeros(0))
