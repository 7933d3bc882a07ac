"""PyG's calling convention for the layers that keep top nodes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sagpool.errors import SagpoolError
from sagpool.nn.pool.selection import Selection
from sagpool.ops import gather_gated, kept_once, marked, rows_above, top_count, top_rows
from sagpool.ops.device import on_cpu, to_device, tracing


class PoolOutput(NamedTuple):
    """The fields of PyG's pooling layers, in PyG's order."""

    x: Tensor  # [kept, channels]
    edge_index: Tensor  # [2, kept edges] int64, nodes renumbered
    edge_attr: Tensor | None  # [kept edges, ...]
    batch: Tensor  # [kept] int64
    perm: Tensor  # [kept] int64, the input node of each kept node, ascending
    score: Tensor | None  # [kept]


# From this many numbers on, operators that write fewer matrices are worth their calls.
_LEAST_FUSED = {"cpu": 1 << 16, "cuda": 1 << 24}


def is_fused(x: Tensor) -> bool:
    """Whether to pool with fused operators, which torch can neither trace nor cast.

    They sum in the type of x, which half precisions are too coarse for.
    """
    kind = x.device.type
    if tracing() or kind not in _LEAST_FUSED or torch.is_autocast_enabled(kind):
        return False
    return x.itemsize >= 4 and x.numel() >= _LEAST_FUSED[kind]


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
    rows, edges = x.shape[0], edge_index.shape[1]  # not len(), which torch.export fixes
    if batch is not None and (batch.shape != x.shape[:1] or batch.dtype != torch.int64):
        raise SagpoolError(
            f"batch must have one int64 entry for each of {rows} nodes, not {batch.dtype} of "
            f"shape {tuple(batch.shape)}."
        )
    if edge_attr is not None and edge_attr.shape[0] != edges:
        raise SagpoolError(f"edge_attr has {edge_attr.shape[0]} rows for {edges} edges.")
    if not on_cpu(x):
        return
    if batch is not None and batch.numpy().min() < 0:
        raise SagpoolError(f"batch names graph {int(batch.min())}; graphs are counted from 0.")
    if edge_index.numel():
        low, high = (int(end) for end in torch.aminmax(edge_index))
        if low < 0 or high >= rows:
            wrong = low if low < 0 else high
            raise SagpoolError(f"edge_index names node {wrong}, but there are {rows} nodes.")


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
    perm = marked(*chosen)
    seen = torch.cumsum(chosen.mask, 0)  # [rows], how many up to this one are kept
    score = gate.index_select(0, perm)
    if is_fused(x):
        pooled = gather_gated(x, kept_once(perm, pad(seen, (1, 0))), score)
    else:
        # The backward pass of index_select starts threads on a CPU, that of x[perm] sorts on CUDA.
        pooled = (x[perm] if x.is_cpu else x.index_select(0, perm)) * score[:, None]
    stay = chosen.mask.index_select(0, edge_index.reshape(-1)).view(2, -1)
    edges = marked(stay[0] & stay[1])
    ends = seen.index_select(0, edge_index.index_select(1, edges).view(-1)).view(2, -1)
    return PoolOutput(
        x=pooled,
        edge_index=ends - 1,
        edge_attr=None if edge_attr is None else edge_attr.index_select(0, edges),
        batch=torch.zeros_like(perm) if batch is None else batch.index_select(0, perm),
        perm=perm,
        score=score,
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
