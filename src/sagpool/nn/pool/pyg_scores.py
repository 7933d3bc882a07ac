"""Scores by a graph convolution of PyG, by our operators where these give the same result."""

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.pool.pool import Edges
from sagpool.ops.pool_by_product import ProductScore

# Hooks observe PyG's own methods, so with hooks these must run.
_HOOKS = tuple(
    f"_{part}forward{when}hooks"
    for part in ("", "propagate_", "message_", "aggregate_")
    for when in ("_", "_pre_")
)


def pyg_score_weight(gnn: Any) -> Tensor | None:
    """``[1, in_channels, 1]``, if the score is a normalised sum over neighbours of ``X Θ``."""
    return gnn.lin.weight.view(1, -1, 1) if _is_gcn(gnn) else None


def pyg_product_score(gnn: Any) -> ProductScore | None:
    """The score, if it is a normalised sum over neighbours of ``X Θ``."""
    return ProductScore(gnn.lin.weight, gnn.bias, neighbours=True) if _is_gcn(gnn) else None


def pyg_scores(
    gnn: Any, x: Tensor, product: Tensor | None, structure: Structure, edges: Edges | None
) -> Tensor:
    """The score of each row, ``[rows]``: the sum over the output channels of the convolution.

    Args:
        gnn: a convolution of PyG, called as ``gnn(x, edge_index)``, with ``edge_weight`` if the
            caller gave it
        x: ``[rows, in_channels]``
        product: x times `pyg_score_weight`, if there is one
        structure: structure of the rows
        edges: those of PyG's call
    """
    if _is_gcn(gnn) and (edges is None or edges.weight is None):
        assert product is not None
        if gnn.bias is None:
            return structure.gcn(product).view(-1)
        return structure.gcn_score(product, gnn.bias.view(1, 1, 1))
    if edges is None:
        raise SagpoolError(
            f"A layer that scores with PyG's {type(gnn).__name__} is called with an edge_index, "
            "not with a packed batch."
        )
    if edges.weight is not None:
        _check_weight(gnn, edges.weight, edges.pairs.shape[1])
    if _is_linear(gnn):
        return _narrow_sum(gnn, x, edges)
    weight = {} if edges.weight is None else {"edge_weight": edges.weight}
    return gnn(x, edges.pairs, **weight).sum(-1)


def _check_weight(gnn: Any, weight: Tensor, edges: int) -> None:
    if "edge_weight" not in inspect.signature(gnn.forward).parameters:
        raise SagpoolError(f"PyG's {type(gnn).__name__} takes no edge_weight.")
    if weight.numel() != edges:
        raise SagpoolError(f"edge_weight has {weight.numel()} numbers for {edges} edges.")


def _narrow_sum(gnn: Any, x: Tensor, edges: Edges) -> Tensor:
    """``X Θ_root + aggr_j x_j Θ + b``: the product first, so the sum has one number per edge.

    PyG sums whole rows first. Self-loops count, as in PyG.
    """
    if type(gnn).__name__ == "GraphConv":
        own, other = gnn.lin_root, gnn.lin_rel
    else:
        own, other = gnn.lin_r if gnn.root_weight else None, gnn.lin_l
    source, target = edges.pairs
    weights = [other.weight] if own is None else [other.weight, own.weight]
    products = linear(x, torch.cat(weights))  # [rows, 1 or 2]
    sent = products[:, 0].index_select(0, source)  # [edges]
    if edges.weight is not None:
        sent = sent * edges.weight.view(-1)
    raw = sent.new_zeros(len(x)).index_add(0, target, sent)
    if gnn.aggr == "mean":
        received = torch.zeros_like(raw).index_add(0, target, torch.ones_like(sent))
        raw = raw / received.clamp(min=1)
    if other.bias is not None:
        raw = raw + other.bias
    return raw if own is None else raw + products[:, 1]


def _is_gcn(gnn: Any) -> bool:
    return (
        _is_plain(gnn, "gcn_conv.GCNConv")
        and gnn.aggr == "add"
        and gnn.normalize
        and gnn.add_self_loops
        and not (gnn.improved or gnn.cached)
    )


def _is_linear(gnn: Any) -> bool:
    """Whether the product and the sum over neighbours commute."""
    if _is_plain(gnn, "graph_conv.GraphConv"):
        return gnn.aggr in ("add", "mean")
    return (
        _is_plain(gnn, "sage_conv.SAGEConv")
        and gnn.aggr in ("add", "mean")
        and not (gnn.normalize or gnn.project)
    )


def _is_plain(gnn: Any, name: str) -> bool:
    """Whether it is exactly this class of PyG, without hooks on its messages."""
    kind = type(gnn)
    return (
        f"{kind.__module__}.{kind.__name__}" == f"torch_geometric.nn.conv.{name}"
        and gnn.flow == "source_to_target"
        and gnn.out_channels == 1
        and not gnn.explain
        and not any(getattr(gnn, hooks) for hooks in _HOOKS)
    )
