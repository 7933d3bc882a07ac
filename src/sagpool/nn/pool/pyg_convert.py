"""Converts PyG's pooling layers to ours and back, copying their weights."""

from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.nn.conv import ChebConv, Conv, GATConv, GCNConv, GINConv, SAGEConv
from sagpool.nn.linear import Linear
from sagpool.nn.pool.gpool import GPool
from sagpool.nn.pool.pyg_layers import PyGPool, SAGPooling, TopKPooling
from sagpool.nn.pool.sag_pool import SAGPool
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.selection import Selection


def from_pyg(layer: nn.Module) -> SAGPooling | TopKPooling:
    """Our layer in place of PyG's ``SAGPooling`` or ``TopKPooling``.

    It keeps the same nodes and edges and returns the same numbers, except for the order of a
    graph's rows and for ties. Weights and options are copied, and so are type, device and training
    mode.
    """
    from torch_geometric import nn as pyg
    from torch_geometric.nn.pool.connect import FilterEdges
    from torch_geometric.nn.pool.select import SelectTopK

    if type(layer) not in (pyg.SAGPooling, pyg.TopKPooling):
        raise SagpoolError(
            f"from_pyg takes a SAGPooling or a TopKPooling of PyG, not {_kind(layer)}."
        )
    theirs: Any = layer
    if type(theirs.select) is not SelectTopK or type(theirs.connect) is not FilterEdges:
        raise SagpoolError("A layer of PyG with parts of your own has no counterpart here.")
    options = (theirs.min_score, theirs.multiplier)
    ours: SAGPooling | TopKPooling
    if isinstance(theirs, pyg.SAGPooling):
        ours = SAGPooling(theirs.in_channels, theirs.ratio, None, *options)
        ours.gnn = deepcopy(theirs.gnn)
    else:
        ours = TopKPooling(theirs.in_channels, theirs.ratio, *options)
    ours.set_parts(deepcopy(theirs.select), deepcopy(theirs.connect))
    return ours.train(theirs.training)


def to_pyg(layer: ScorePool) -> nn.Module:
    """PyG's layer in place of one of ours.

    A ratio of `SAGPool` and `GPool` is reduced by a factor of 2e-7 unless it is exact in binary:
    PyG multiplies in floating point, so that 0.6 of 25 nodes would be 16. The graphs may have
    self-loops (unless conv is ``sage``) and directed edges (unless it is ``cheb``).
    """
    from torch_geometric import nn as pyg

    theirs: Any
    options: tuple[Any, ...]
    if isinstance(layer, PyGPool):
        options = (layer.min_score, layer.multiplier)
        if isinstance(layer, SAGPooling):
            theirs = pyg.SAGPooling(layer.in_channels, layer.ratio, pyg.GraphConv, *options)
            theirs.gnn = deepcopy(layer.gnn)
        else:
            theirs = pyg.TopKPooling(layer.in_channels, layer.ratio, *options)
        theirs.select = deepcopy(layer.select)
        return theirs.train(layer.training)
    if not isinstance(layer, SAGPool | GPool):
        raise SagpoolError(f"PyG has no layer like {_kind(layer)}.")
    options = (layer.min_score, layer.multiplier, deepcopy(layer.nonlinearity))
    ratio = _pyg_ratio(layer.selection)
    if isinstance(layer, GPool):
        theirs = pyg.TopKPooling(layer.in_channels, ratio, *options)
        _check_members(len(layer.projection))
        weight = layer.projection.detach().view(1, -1)
    else:
        if layer.lowest:
            raise SagpoolError("PyG has no layer that keeps the nodes with the lowest scores.")
        theirs = pyg.SAGPooling(layer.in_channels, ratio, pyg.GraphConv, *options)
        theirs.gnn = deepcopy(layer.gnn) if layer.attention is None else _pyg_gnn(layer)
        weight = torch.ones(1, 1).to(next(layer.parameters()))
    theirs.select.weight = nn.Parameter(weight.clone())
    return theirs.train(layer.training)


def _pyg_ratio(selection: Selection) -> float | int:
    if selection.k is not None:
        if np.ndim(selection.k):
            raise SagpoolError("PyG has no layer with a k for each graph.")
        return int(selection.k)
    fraction = selection.fraction
    # PyG reads 1.0 as one node.
    exact = fraction < 1 and Fraction(float(np.float32(fraction))) == fraction
    return float(fraction) * (1 if exact else 1 - 2e-7)


def _pyg_gnn(layer: SAGPool) -> nn.Module:
    """The convolution of PyG with the same scores."""
    attention = layer.attention
    assert attention is not None
    convs: list[Any] = [conv for gnn in attention.gnns for conv in gnn.children()]
    if len(convs) > 1 or attention.augmentation:
        raise SagpoolError("PyG has no layer with augmentation, serial or parallel scores.")
    conv = convs[0]
    if type(conv) not in _CONVS:
        raise SagpoolError(f"PyG has no convolution like {_kind(conv)}.")
    _check_members(len(next(conv.parameters())))
    theirs, weights = _CONVS[type(conv)](conv)
    theirs = theirs.to(next(conv.parameters()))
    with torch.no_grad():
        for parameter, weight in weights:
            if weight is not None:
                parameter.copy_(weight.view_as(parameter))
    return theirs


# A new layer of PyG, and its parameters with their new values.
_Made = tuple[nn.Module, list[tuple[Tensor, Tensor | None]]]


def _transposed(linear: Any) -> Tensor:
    """The ``[in, out]`` weight of the only member as PyG's ``[out, in]``."""
    return linear.weight[0].T.contiguous()


def _gcn(conv: Any) -> _Made:
    from torch_geometric.nn import GCNConv as Theirs

    made = Theirs(*_sizes(conv.linear), bias=conv.linear.bias is not None)
    return made, [(made.lin.weight, _transposed(conv.linear)), (made.bias, conv.linear.bias)]


def _cheb(conv: Any) -> _Made:
    from torch_geometric.nn import ChebConv as Theirs

    first = conv.linears[0]
    made = Theirs(*_sizes(first), K=len(conv.linears), bias=first.bias is not None)
    terms = zip(made.lins, conv.linears, strict=True)
    weights = [(theirs.weight, _transposed(ours)) for theirs, ours in terms]
    return made, [*weights, (made.bias, first.bias)]


def _sage(conv: Any) -> _Made:
    from torch_geometric.nn import SAGEConv as Theirs

    made = Theirs(*_sizes(conv.root), bias=conv.neighbours.bias is not None)
    return made, [
        (made.lin_l.weight, _transposed(conv.neighbours)),
        (made.lin_l.bias, conv.neighbours.bias),
        (made.lin_r.weight, _transposed(conv.root)),
    ]


def _gat(conv: Any) -> _Made:
    from torch_geometric.nn import GATConv as Theirs

    channels = conv.linear.weight.shape[1]
    made = Theirs(
        channels, conv.out_channels, heads=conv.heads, concat=False, bias=conv.bias is not None
    )
    return made, [
        (made.lin.weight, _transposed(conv.linear)),
        (made.att_src, conv.source),
        (made.att_dst, conv.target),
        (made.bias, conv.bias),
    ]


def _gin(conv: Any) -> _Made:
    from torch_geometric.nn import GINConv as Theirs

    first, second = nn.Linear(*_sizes(conv.first)), nn.Linear(*_sizes(conv.second))
    return Theirs(nn.Sequential(first, nn.ReLU(), second)), [
        (first.weight, _transposed(conv.first)),
        (first.bias, conv.first.bias),
        (second.weight, _transposed(conv.second)),
        (second.bias, conv.second.bias),
    ]


_CONVS: dict[type[Conv], Callable[[Any], _Made]] = {
    GCNConv: _gcn,
    ChebConv: _cheb,
    SAGEConv: _sage,
    GATConv: _gat,
    GINConv: _gin,
}


def _sizes(linear: Linear) -> tuple[int, int]:
    _, fan_in, fan_out = linear.weight.shape
    return fan_in, fan_out


def _check_members(members: int) -> None:
    if members > 1:
        raise SagpoolError(f"A layer of {members} models has no counterpart in PyG.")


def _kind(layer: Any) -> str:
    return f"{type(layer).__module__}.{type(layer).__name__}"
