"""Descriptions of torch layers for the runtime; one line in the table for each kind of layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from sagpool.errors import SagpoolError
from sagpool.models.architectures import Classifier, GlobalPooling, HierarchicalPooling
from sagpool.models.rescaled import Rescaled
from sagpool.models.sagnet import GIN, Block, SAGNet, Unchanged
from sagpool.nn import (
    GMT,
    DiffPool,
    DMoNPool,
    GPool,
    HOSCPool,
    JustBalancePool,
    LearnedRatioPool,
    Linear,
    MinCutPool,
    NoPool,
    Norm,
    RandomPool,
    RowNorm,
    SAGPool,
    Selection,
    Set2Set,
    SortConv,
    SortPool,
    Standardise,
    StandardisedLinear,
)
from sagpool.nn.conv import ChebConv, GATConv, GCNConv, GINConv, MLPConv, SAGEConv
from sagpool.nn.pool import AttentionScore

Description = dict[str, Any]


class Describer:
    """Describes a module, and collects its weights by name.

    Args:
        module: a module with one or more members
        prefix: prefix of the names of its weights
    """

    def __init__(self, module: nn.Module, prefix: str) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._names = {id(tensor): f"{prefix}{name}" for name, tensor in module.named_parameters()}

    def weight(self, tensor: Tensor | None) -> str | None:
        """The name of a parameter; None for None."""
        if tensor is None:
            return None
        return self.computed(self.name(tensor), tensor)

    def name(self, tensor: Tensor) -> str:
        return self._names[id(tensor)]

    def computed(self, name: str, array: Tensor) -> str:
        """The name of an array that is computed from parameters."""
        self.arrays[name] = array.detach().cpu().numpy()
        return name

    def describe(self, layer: nn.Module) -> Description:
        """The description of a layer; an error names a layer that cannot be exported."""
        # By exact class: a subclass may compute something else.
        known = KINDS.get(type(layer))
        if known is None:
            raise SagpoolError(
                f"{type(layer).__name__} cannot be exported: it is not a layer of sagpool whose "
                "computation the export knows."
            )
        return known(self, layer)


def _linear(to: Describer, layer: Any) -> Description:
    return {
        "weight": to.weight(layer.weight),
        "bias": to.weight(layer.bias),
        "shape": list(layer.weight.shape),
    }


def _gcn(to: Describer, layer: Any) -> Description:
    return {"kind": "gcn", "linear": to.describe(layer.linear)}


def _cheb(to: Describer, layer: Any) -> Description:
    return {"kind": "cheb", "linears": [to.describe(one) for one in layer.linears]}


def _sage(to: Describer, layer: Any) -> Description:
    return {
        "kind": "sage",
        "neighbours": to.describe(layer.neighbours),
        "root": to.describe(layer.root),
    }


def _gin(to: Describer, layer: Any) -> Description:
    return {
        "kind": "gin",
        "first": to.describe(layer.first),
        "second": to.describe(layer.second),
    }


def _mlp(to: Describer, layer: Any) -> Description:
    return {"kind": "mlp", "linear": to.describe(layer.linear)}


def _gat(to: Describer, layer: Any) -> Description:
    return {
        "kind": "gat",
        "linear": to.describe(layer.linear),
        "source": to.weight(layer.source),
        "target": to.weight(layer.target),
        "bias": to.weight(layer.bias),
        "members": layer.members,
        "heads": layer.heads,
        "out": layer.out_channels,
    }


def _attention(to: Describer, layer: Any) -> Description:
    return {
        "augmentation": layer.augmentation,
        "gnns": [[to.describe(one) for one in gnn] for gnn in layer.gnns],
    }


def _selection(selection: Selection) -> Description:
    if selection.k is not None:
        return {"k": int(np.max(selection.k)), "ratio": None}
    return {"k": None, "ratio": [selection.fraction.numerator, selection.fraction.denominator]}


def _score(layer: Any) -> Description:
    if layer.min_score is not None:
        raise SagpoolError(
            f"{type(layer).__name__} with a min_score cannot be exported: only a ratio or a k can."
        )
    if layer.multiplier != 1 or layer.nonlinearity is not torch.tanh:
        raise SagpoolError(
            f"{type(layer).__name__} with a multiplier or another nonlinearity than tanh cannot be "
            "exported."
        )
    return _selection(layer.selection)


def _sag_pool(to: Describer, layer: Any) -> Description:
    if layer.attention is None:
        raise SagpoolError("SAGPool with a GNN of PyG cannot be exported.")
    if layer.learned and layer.multiplier == 1:
        return _learned_ratio(to, layer)
    if layer.masks > 1:
        raise SagpoolError("SAGPool with several masks cannot be exported.")
    attention = to.describe(layer.attention)
    return {"kind": "sag", "attention": attention, "lowest": layer.lowest, **_score(layer)}


def _gpool(to: Describer, layer: Any) -> Description:
    weight = normalize(layer.projection, dim=1)
    name = to.computed(f"{to.name(layer.projection)} (normalised)", weight)
    projection = {"weight": name, "bias": None, "shape": list(weight.shape)}
    return {"kind": "gpool", "projection": projection, **_score(layer)}


def _learned_ratio(to: Describer, layer: Any) -> Description:
    if layer.selection.fraction < 1:
        raise SagpoolError("A learnt ratio with a max_ratio cannot be exported.")
    attention = to.describe(layer.attention)
    return {"kind": "learned-ratio", "attention": attention, "start": layer.start}


def _sort_pool(to: Describer, layer: Any) -> Description:
    return {"kind": "sort", "sort_channels": layer.sort_channels, **_selection(layer.selection)}


def _sort_conv(to: Describer, layer: Any) -> Description:
    return {
        "kind": "sort-conv",
        "first": to.describe(layer.first),
        "second": to.describe(layer.second),
        "width": layer.WIDTH,
        "channels": layer.first.weight.shape[2],
        **_selection(layer.selection),
    }


def _set2set(to: Describer, layer: Any) -> Description:
    return {
        "kind": "set2set",
        "from_input": to.describe(layer.from_input),
        "from_state": to.describe(layer.from_state),
        "channels": layer.in_channels,
        "steps": layer.steps,
    }


def _diffpool(to: Describer, layer: Any) -> Description:
    return {"kind": "diffpool", "assign": to.describe(layer.assign), "clusters": layer.clusters}


def _soft_pool(to: Describer, layer: Any) -> Description:
    return {
        "kind": "soft",
        "assign": [to.describe(one) for one in layer.assign],
        "clusters": layer.clusters,
        "normalises": layer.normalises,
        "means": isinstance(layer, DMoNPool),
    }


def _gmt(to: Describer, layer: Any) -> Description:
    members, count, hidden = layer.seeds.shape
    sizes = {"members": members, "count": count, "hidden": hidden, "heads": layer.heads}
    return {
        "kind": "gmt",
        **sizes,
        "over": layer.over,
        **{name: to.weight(getattr(layer, name)) for name in ("seeds", "seed")},
        **{name: to.describe(getattr(layer, name)) for name in ("nodes", "rows", "last")},
        "blocks": [_gmt_block(to, one) for one in layer.blocks],
    }


def _gmt_block(to: Describer, layer: Any) -> Description:
    layers = {name: to.describe(getattr(layer, name)) for name in ("query", "out", "feed_forward")}
    return {**layers, "norms": [to.describe(one) for one in layer.norms]}


def _random_pool(to: Describer, layer: Any) -> Description:
    raise SagpoolError(
        "A model that keeps nodes at random cannot be exported: no other program draws the same "
        "random numbers, so the file would not agree with the model."
    )


def _classifier(to: Describer, layer: Any) -> Description:
    return {name: to.describe(getattr(layer, name)) for name in ("first", "second", "last")}


def _hierarchical(to: Describer, layer: Any) -> Description:
    return {
        "kind": "hierarchical",
        "convs": [to.describe(one) for one in layer.convs],
        "pools": [to.describe(one) for one in layer.pools],
        "readout": layer.readout,
        "classifier": to.describe(layer.classifier),
    }


def _global(to: Describer, layer: Any) -> Description:
    return {
        "kind": "global",
        "convs": [to.describe(one) for one in layer.convs],
        "pool": to.describe(layer.pool),
        "readout": layer.readout,
        "hidden": layer.classifier.first.weight.shape[2],
        "classifier": to.describe(layer.classifier),
    }


def _standardised(to: Describer, layer: Any) -> Description:
    """The linear layer, with the standardisation folded into its weights."""
    weight = layer.scale.mT * layer.weight
    bias = layer.bias - torch.bmm(layer.mean, weight)
    name = to.name(layer.weight)
    return {
        "weight": to.computed(f"{name} (standardised)", weight),
        "bias": to.computed(f"{to.name(layer.bias)} (standardised)", bias),
        "shape": list(layer.weight.shape),
    }


def _standardise(to: Describer, layer: Any) -> Description:
    members, _, channels = layer.mean.shape
    names = {name: to.weight(getattr(layer, name)) for name in ("mean", "scale")}
    return {"members": members, "channels": channels, **names}


def _rescaled(to: Describer, layer: Any) -> Description:
    names = {name: to.weight(getattr(layer, name)) for name in ("mean", "spread")}
    members, _, outputs = layer.mean.shape
    sizes = {"members": members, "outputs": outputs}
    return {"kind": "rescaled", "net": to.describe(layer.model), **sizes, **names}


def _norm(kind: str) -> Callable[[Describer, Any], Description]:
    def describe(to: Describer, layer: Any) -> Description:
        members, _, channels = layer.scale.shape
        weights = {name: to.weight(tensor) for name, tensor in layer.named_parameters()}
        return {"kind": kind, "members": members, "channels": channels, **weights}

    return describe


def _block(to: Describer, layer: Any) -> Description:
    return {
        "first": to.describe(layer.first),
        "second": to.describe(layer.second),
        "norms": [to.describe(one) for one in layer.norms],
    }


def _sagnet(to: Describer, layer: Any) -> Description:
    members, _, hidden = layer.encoder.weight.shape
    readout = {"scale": to.weight(layer.readout.scale), "members": members, "channels": hidden}
    return {
        "kind": "sagnet",
        "encoder": to.describe(layer.encoder),
        "blocks": [to.describe(one) for one in layer.blocks],
        "pools": [to.describe(one) for one in layer.pools],
        "readout": readout,
        "of_levels": to.describe(layer.of_levels),
        "of_inputs": to.describe(layer.of_inputs),
        "classifier": to.describe(layer.classifier),
        "linear": to.describe(layer.linear),
    }


def _gin_net(to: Describer, layer: Any) -> Description:
    return {
        "kind": "gin",
        "convs": [to.describe(one) for one in layer.convs],
        "readout": layer.readout,
        "classifier": to.describe(layer.classifier),
    }


KINDS: dict[type[nn.Module], Callable[[Describer, Any], Description]] = {
    Linear: _linear,
    GCNConv: _gcn,
    ChebConv: _cheb,
    SAGEConv: _sage,
    GINConv: _gin,
    MLPConv: _mlp,
    GATConv: _gat,
    AttentionScore: _attention,
    SAGPool: _sag_pool,
    GPool: _gpool,
    LearnedRatioPool: _learned_ratio,
    SortPool: _sort_pool,
    SortConv: _sort_conv,
    Set2Set: _set2set,
    DiffPool: _diffpool,
    MinCutPool: _soft_pool,
    DMoNPool: _soft_pool,
    JustBalancePool: _soft_pool,
    HOSCPool: _soft_pool,
    GMT: _gmt,
    NoPool: lambda to, layer: {"kind": "none"},
    RandomPool: _random_pool,
    Classifier: _classifier,
    HierarchicalPooling: _hierarchical,
    GlobalPooling: _global,
    StandardisedLinear: _standardised,
    Standardise: _standardise,
    Rescaled: _rescaled,
    RowNorm: _norm("row"),
    Norm: _norm("graph"),
    Unchanged: lambda to, layer: {"kind": "none"},
    Block: _block,
    SAGNet: _sagnet,
    GIN: _gin_net,
}
