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
    """Check a PyG user's edges, and pack them as a fleet of one without a filler.

    ``batch`` is sorted, and each of its graphs has a node (`graph_order`).
    """
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        raise SagpoolError(
            f"edge_index must be an int64 tensor of shape (2, edges), not {edge_index.dtype} of "
            f"shape {tuple(edge_index.shape)}."
        )
    if batch is None:
        batch = torch.zeros(len(x), dtype=torch.int64, device=x.device)
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


def nothing_pooled(x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> PoolOutput:
    """The result of a batch that has no node."""
    if edge_index.numel():
        raise SagpoolError("edge_index has edges, but there are no nodes.")
    none = edge_index.new_zeros(0)
    return PoolOutput(x, edge_index, edge_attr, none, none, x.new_zeros(0))
