"""Methods that coarsen sparse graphs, by scores or once for a whole data set."""

from typing import Any

from torch import nn

from sagpool.graphs import Coarsening
from sagpool.models.methods import hierarchical
from sagpool.models.registry import Shape, register
from sagpool.nn import KMIS, NDP, ASAPool, EdgePool, Graclus, HierarchyPool, PANPool


@register("asap-h")
def asap_h(shape: Shape) -> nn.Module:
    return hierarchical(shape, lambda _: ASAPool(shape.hidden, shape.ratio, members=shape.members))


def _precomputed(shape: Shape, coarsening: Coarsening) -> nn.Module:
    reduce: Any = shape.settings["reduce"]
    return hierarchical(shape, lambda _: HierarchyPool(coarsening, reduce))


@register("graclus-h", settings={"reduce": "max"})
def graclus_h(shape: Shape) -> nn.Module:
    """Leaves about half of the nodes, whatever the ratio; clusters take the maximum."""
    return _precomputed(shape, Graclus())


@register("kmis-h", settings={"hops": 1, "reduce": "mean"})
def kmis_h(shape: Shape) -> nn.Module:
    """The number of nodes left depends on the hops, not on the ratio."""
    return _precomputed(shape, KMIS(int(shape.settings["hops"])))


# In version 1 rounding decided which side of a symmetric cut stays.
@register("ndp-h", settings={"threshold": 0.01}, version="2")
def ndp_h(shape: Shape) -> nn.Module:
    """Leaves about half of the nodes, whatever the ratio."""
    coarsening = NDP(float(shape.settings["threshold"]))
    # Clusters of one node each.
    return hierarchical(shape, lambda _: HierarchyPool(coarsening, "sum"))


# In version 1 the edges of the first nodes came first among edges of equal score.
@register("edgepool-h", version="2")
def edgepool_h(shape: Shape) -> nn.Module:
    """The number of nodes left (at least half) depends on the scores, not on the ratio."""
    return hierarchical(shape, lambda _: EdgePool(shape.hidden, members=shape.members))


@register("panpool-h")
def panpool_h(shape: Shape) -> nn.Module:
    return hierarchical(shape, lambda _: PANPool(shape.hidden, shape.ratio, members=shape.members))
