"""The methods that make clusters."""

import math
from typing import Any

import numpy as np
from torch import nn

from sagpool.models.architectures import LAYERS
from sagpool.models.methods import BLOCKS, choice, global_, hierarchical, needed
from sagpool.models.registry import Shape, register
from sagpool.nn import GMT, DiffPool, DMoNPool, HOSCPool, JustBalancePool, MinCutPool, Selection

# Papers after DiffPool count clusters by the mean graph: A' is a matrix, and the largest graph of
# DD has twenty times as many nodes as the mean graph.
MEAN = {"clusters": "mean"}


def cluster_counts(shape: Shape, name: str) -> list[int]:
    """Clusters of each block: ``ratio`` of the largest or mean graph, then of the last block."""
    if choice(shape, "clusters", ("largest", "mean")) == "mean":
        mean = needed(shape.mean_nodes, "mean_nodes, the mean size of the graphs", name)
        counts = [math.ceil(mean)]
    else:
        counts = [needed(shape.max_nodes, "max_nodes, the size of the largest graph", name)]
    for _ in range(BLOCKS):
        kept = Selection(shape.ratio).counts(np.array([counts[-1]]))
        counts.append(int(kept[0]))
    return counts[1:]


@register("diffpool-h", settings={"losses": "both", "clusters": "largest"})
def diffpool_h(shape: Shape) -> nn.Module:
    counts, losses = cluster_counts(shape, "diffpool-h"), shape.settings["losses"]
    own: dict[str, Any] = {"losses": losses, "members": shape.members}
    return hierarchical(shape, lambda block: DiffPool(shape.hidden, counts[block], **own))


@register("mincut-h", settings=MEAN)
def mincut_h(shape: Shape) -> nn.Module:
    counts = cluster_counts(shape, "mincut-h")
    return hierarchical(
        shape, lambda block: MinCutPool(shape.hidden, counts[block], members=shape.members)
    )


@register("dmon-h", settings=MEAN)
def dmon_h(shape: Shape) -> nn.Module:
    counts = cluster_counts(shape, "dmon-h")
    return hierarchical(
        shape, lambda block: DMoNPool(shape.hidden, counts[block], members=shape.members)
    )


@register("justbalance-h", settings=MEAN)
def justbalance_h(shape: Shape) -> nn.Module:
    counts = cluster_counts(shape, "justbalance-h")
    return hierarchical(
        shape, lambda block: JustBalancePool(shape.hidden, counts[block], members=shape.members)
    )


@register("hosc-h", settings={**MEAN, "alpha": 0.5, "mu": 0.1})
def hosc_h(shape: Shape) -> nn.Module:
    """``alpha`` is the weight of triangles, ``mu`` the weight of the orthogonality loss."""
    counts = cluster_counts(shape, "hosc-h")
    own: dict[str, Any] = {name: shape.settings[name] for name in ("alpha", "mu")}
    return hierarchical(
        shape, lambda block: HOSCPool(shape.hidden, counts[block], members=shape.members, **own)
    )


@register("gmt-g", without=["readout"], settings={**MEAN, "heads": 2, "over": "seeds"})
def gmt_g(shape: Shape) -> nn.Module:
    """The number of seeds is ``ratio`` of the mean graph; attention sums to 1 over ``over``."""
    seeds, *_ = cluster_counts(shape, "gmt-g")
    own: dict[str, Any] = {name: shape.settings[name] for name in ("heads", "over")}
    pool = GMT(LAYERS * shape.hidden, shape.hidden, seeds, members=shape.members, **own)
    return global_(shape, pool)
