"""PyG's calling convention for the layers that keep top nodes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.nn.pool.selection import Selection
from sagpool.ops import rows_above, top_count, top_rows
from sagpool.ops.device import on_cpu, to_device
from sagpool.ops.marked_graph import check_indices, keep_marked


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
    """Check a PyG user's arguments: shapes and types, and values where reading them is free.

    On a GPU the operators refuse indices that are out of range.
    """
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        raise SagpoolError(
            f"edge_index must be an int64 tensor of shape (2, edges), not {edge_index.dtype} of "
            f"shape {tuple(edge_index.shape)}."
        )
    rows, edges = x.shape[0], edge_index.shape[1]  # not len(), which torch.export fixes
    if batch is not None and (batch.shape != x.shape[:1] or batch.dtype != torch.int64):
        raise SagpoolError(
            f"batch must have one int64 entry for each of {rows} nodes, not {batch.dtype} of "
            f"shape {tuple(batch.shape)}."
        )
    if edge_attr is not None and edge_attr.shape[0] != edges:
        raise SagpoolError(f"edge_attr has {edge_attr.shape[0]} rows for {edges} edges.")
    if on_cpu(x):
        check_indices(rows, edge_index, batch)


class Chosen(NamedTuple):
    """The rows that are kept."""

    mask: Tensor  # [rows] bool
    number: int | None  # how many, if the host knows


def choose_top(score: Tensor, batch: Tensor | None, selection: Selection) -> Chosen:
    """The rows with the highest scores, as many of each graph as ``selection`` says."""
    k, ratio = selection.k, selection.fraction
    if isinstance(k, np.ndarray) or selection.rounds:
        batch = torch.zeros_like(score, dtype=torch.int64) if batch is None else batch
        counts = selection.counts(torch.bincount(batch).cpu().numpy())
        mask = top_rows(score, batch, ratio, to_device(counts, score.device))
        return Chosen(mask, int(counts.sum()))
    count = top_count(score.shape[0], ratio, k) if batch is None else None
    return Chosen(top_rows(score, batch, ratio, k), count)


def choose_above(softmax: Tensor, batch: Tensor | None, min_score: float) -> Chosen:
    """The rows whose softmax is above ``min_score``, and the highest of each graph."""
    return Chosen(rows_above(softmax, batch, min_score), None)


def unpack_pyg(
    x: Tensor,
    gate: Tensor,
    chosen: Chosen,
    edge_index: Tensor,
    edge_attr: Tensor | None,
    batch: Tensor | None,
) -> PoolOutput:
    """The chosen nodes in PyG's form; edges stay in their order."""
    left = keep_marked(x, gate, chosen.mask, edge_index, batch, chosen.number)
    perm = left.perm
    return PoolOutput(
        x=left.x,
        edge_index=left.edge_index,
        edge_attr=None if edge_attr is None else edge_attr.index_select(0, left.edges),
        batch=torch.zeros_like(perm) if batch is None else batch.index_select(0, perm),
        perm=perm,
        score=left.gate,
    )


def as_more_graphs(parts: Sequence[PoolOutput], batch: Tensor | None) -> PoolOutput:
    """The pooled graphs of all masks: those of the first, then those of the second, ...

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
    """The result of a batch that has no node."""
    if edge_index.numel():
        raise SagpoolError("edge_index has edges, but there are no nodes.")
    none = edge_index.new_zeros(0)
    return PoolOutput(x, edge_index, edge_attr, none, none, x.new_zeros(0))
