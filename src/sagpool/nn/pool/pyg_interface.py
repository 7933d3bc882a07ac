"""PyG's calling convention for the layers that keep top nodes."""

from typing import NamedTuple

import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency, EdgeList, Structure
from sagpool.nn.pool.selection import Selected
from sagpool.ops import Layout, gather_gated, keep_rows, marked
from sagpool.ops.device import on_cpu


class PoolOutput(NamedTuple):
    """The fields of PyG's pooling layers, in PyG's order."""

    x: Tensor  # [kept, channels]
    edge_index: Tensor  # [2, kept edges] int64, nodes renumbered
    edge_attr: Tensor | None  # [kept edges, ...]
    batch: Tensor  # [kept] int64
    perm: Tensor  # [kept] int64, the input node of each kept node, ascending
    score: Tensor | None  # [kept]


def pack_pyg(
    x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor | None
) -> Structure:
    """Check a PyG user's arguments, and pack them as a fleet of one without a filler."""
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        raise SagpoolError(
            f"edge_index must be an int64 tensor of shape (2, edges), not {edge_index.dtype} of "
            f"shape {tuple(edge_index.shape)}."
        )
    if not len(x):
        raise SagpoolError("A graph with no node cannot be pooled.")
    if batch is None:
        batch = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    elif batch.shape != x.shape[:1] or batch.dtype != torch.int64:
        raise SagpoolError(
            f"batch must have one int64 entry for each of {len(x)} nodes, not {batch.dtype} of "
            f"shape {tuple(batch.shape)}."
        )
    elif bool((batch[1:] < batch[:-1]).any()) or int(batch[0]) < 0:
        raise SagpoolError("batch must be sorted: the nodes of one graph lie together.")
    elif int(batch[-1]) >= len(x):
        raise SagpoolError(f"batch names graph {int(batch[-1])}, but there are {len(x)} nodes.")
    if edge_index.numel():
        low, high = (int(end) for end in torch.aminmax(edge_index))
        if low < 0 or high >= len(x):
            wrong = low if low < 0 else high
            raise SagpoolError(f"edge_index names node {wrong}, but there are {len(x)} nodes.")
    if edge_attr is not None and len(edge_attr) != edge_index.shape[1]:
        raise SagpoolError(f"edge_attr has {len(edge_attr)} rows for {edge_index.shape[1]} edges.")
    if on_cpu(x):
        return EdgeList(edge_index, batch)
    return Adjacency.from_edge_index(edge_index, batch)


def unpack_pyg(
    x: Tensor, layout: Layout, selected: Selected, edge_index: Tensor, edge_attr: Tensor | None
) -> PoolOutput:
    """The selected nodes in PyG's form; edges stay in their order."""
    mask, new, gate = selected
    kept = keep_rows(mask, new.total_rows)
    score = None if gate is None else gate.index_select(0, kept.perm)
    source, target = edge_index
    edges = marked(mask.index_select(0, source).logical_and_(mask.index_select(0, target)))
    ends = edge_index.index_select(1, edges).view(-1)
    return PoolOutput(
        x=gather_gated(x, kept, score),
        edge_index=kept.seen.index_select(0, ends).view(2, -1),
        edge_attr=None if edge_attr is None else edge_attr.index_select(0, edges),
        batch=layout.graph.index_select(0, kept.perm),
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
