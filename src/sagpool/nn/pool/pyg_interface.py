"""PyG's calling convention for the layers that keep top nodes."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.nn.pool.selection import Selection
from sagpool.ops import Kept, gather_gated, keep_rows, marked, rows_above, top_count, top_rows
from sagpool.ops.device import on_cpu, to_device


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

    On a GPU torch's own kernels refuse indices that are out of range.
    """
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        raise SagpoolError(
            f"edge_index must be an int64 tensor of shape (2, edges), not {edge_index.dtype} of "
            f"shape {tuple(edge_index.shape)}."
        )
    rows = len(x)
    if not rows:
        raise SagpoolError("A graph with no node cannot be pooled.")
    if batch is not None and (batch.shape != x.shape[:1] or batch.dtype != torch.int64):
        raise SagpoolError(
            f"batch must have one int64 entry for each of {rows} nodes, not {batch.dtype} of "
            f"shape {tuple(batch.shape)}."
        )
    if edge_attr is not None and len(edge_attr) != edge_index.shape[1]:
        raise SagpoolError(f"edge_attr has {len(edge_attr)} rows for {edge_index.shape[1]} edges.")
    if not on_cpu(x):
        return
    if batch is not None and batch.numpy().min() < 0:
        raise SagpoolError(f"batch names graph {int(batch.min())}; graphs are counted from 0.")
    if edge_index.numel():
        low, high = (int(end) for end in torch.aminmax(edge_index))
        if low < 0 or high >= rows:
            wrong = low if low < 0 else high
            raise SagpoolError(f"edge_index names node {wrong}, but there are {rows} nodes.")


def top_of_pyg(score: Tensor, batch: Tensor | None, selection: Selection) -> Kept:
    """The rows with the highest scores, as many of each graph as ``selection`` says."""
    k, ratio = selection.k, selection.fraction
    if isinstance(k, np.ndarray) and k.ndim:
        batch = score.new_zeros(len(score), dtype=torch.int64) if batch is None else batch
        sizes = torch.bincount(batch).cpu().numpy()
        counts = to_device(selection.counts(sizes), score.device)
        return keep_rows(top_rows(score, batch, ratio, counts), int(counts.sum()))
    mask = top_rows(score, batch, ratio, k)
    return keep_rows(mask, top_count(len(score), ratio, k) if batch is None else None)


def above_in_pyg(softmax: Tensor, batch: Tensor | None, min_score: float) -> Kept:
    """The rows whose softmax is above ``min_score``, and the highest of each graph."""
    return keep_rows(rows_above(softmax, batch, min_score), None)


def unpack_pyg(
    x: Tensor,
    gate: Tensor,
    kept: Kept,
    edge_index: Tensor,
    edge_attr: Tensor | None,
    batch: Tensor | None,
) -> PoolOutput:
    """The kept nodes in PyG's form; edges stay in their order."""
    score = gate.index_select(0, kept.perm)
    ends = kept.mask.index_select(0, edge_index.reshape(-1)).view(2, -1)
    edges = marked(ends[0] & ends[1])
    left = edge_index.index_select(1, edges).view(-1)
    return PoolOutput(
        x=gather_gated(x, kept, score),
        edge_index=kept.seen.index_select(0, left).view(2, -1),
        edge_attr=None if edge_attr is None else edge_attr.index_select(0, edges),
        batch=torch.zeros_like(kept.perm) if batch is None else batch.index_select(0, kept.perm),
        perm=kept.perm,
        score=score,
    )


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
