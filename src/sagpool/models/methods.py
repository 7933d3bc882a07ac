"""The methods of the paper, its variants, and controls."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.models.architectures import LAYERS, GlobalPooling, HierarchicalPooling
from sagpool.models.registry import Shape, register
from sagpool.nn import (
    DiffPool,
    GPool,
    NoPool,
    Pool,
    RandomPool,
    SAGPool,
    Selection,
    Set2Set,
    SortConv,
    SortPool,
)

BLOCKS = 3


def sort_k(node_counts: np.ndarray | Tensor, fraction: float = 0.6) -> int:
    """SortPool's K: the largest with which this fraction of the graphs have more than K nodes.

    Called with the graphs of the training part. At least 1.
    """
    largest_first = np.sort(np.asarray(node_counts))[::-1]
    if not 0 < fraction <= 1 or not len(largest_first):
        raise SagpoolError(f"K needs graphs and a fraction in (0, 1], not {fraction}.")
    exact = Fraction(fraction).limit_denominator(10**9)  # 0.55 of 20 graphs are 11
    smallest_above = largest_first[math.ceil(exact * len(largest_first)) - 1]
    return max(1, int(smallest_above) - 1)


def hierarchical(shape: Shape, pool: Callable[[int], Pool]) -> HierarchicalPooling:
    """The hierarchical architecture with ``pool(block)`` as its pooling layers."""
    return HierarchicalPooling(
        shape.in_channels,
        shape.hidden,
        shape.classes,
        [pool(block) for block in range(BLOCKS)],
        conv=str(shape.settings["conv"]),
        readout=str(shape.settings["readout"]),
        dropout=shape.dropout,
        members=shape.members,
    )


def global_(shape: Shape, pool: Pool) -> GlobalPooling:
    """The global architecture with this pooling layer."""
    # A layer that leaves graphs has no readout.
    readout = {} if pool.leaves == "graphs" else {"readout": str(shape.settings["readout"])}
    return GlobalPooling(
        shape.in_channels,
        shape.hidden,
        shape.classes,
        pool,
        conv=str(shape.settings["conv"]),
        **readout,
        dropout=shape.dropout,
        members=shape.members,
    )


def _needed(value: Any, what: str, name: str) -> Any:
    if value is None:
        raise SagpoolError(f"{name} needs {what}.")
    return value


VARIANTS: dict[str, dict[str, Any]] = {
    "": {},
    "-cheb": {"conv": "cheb"},
    "-sage": {"conv": "sage"},
    "-gat": {"conv": "gat"},
    "-augmentation": {"augmentation": True},
    "-serial2": {"serial": 2},
    "-parallel2": {"parallel": 2},
    "-parallel4": {"parallel": 4},
}


def _register_sagpool(suffix: str, options: dict[str, Any]) -> None:
    @register(f"sagpool-h{suffix}")
    def sagpool_h(shape: Shape) -> nn.Module:
        return hierarchical(
            shape,
            lambda _: SAGPool(shape.hidden, shape.ratio, members=shape.members, **options),
        )

    @register(f"sagpool-g{suffix}")
    def sagpool_g(shape: Shape) -> nn.Module:
        k = _needed(shape.k, "k, the number of nodes to keep", f"sagpool-g{suffix}")
        width = LAYERS * shape.hidden
        return global_(shape, SAGPool(width, k=k, members=shape.members, **options))


for _suffix, _options in VARIANTS.items():
    _register_sagpool(_suffix, _options)


@register("gpool-h")
def gpool_h(shape: Shape) -> nn.Module:
    return hierarchical(shape, lambda _: GPool(shape.hidden, shape.ratio, members=shape.members))


@register("diffpool-h")
def diffpool_h(shape: Shape) -> nn.Module:
    """The first clusters are ``ratio`` of the largest graph, the next ``ratio`` of those."""
    clusters = [_needed(shape.max_nodes, "max_nodes, the size of the largest graph", "diffpool-h")]
    for _ in range(BLOCKS):
        kept = Selection(shape.ratio).counts(np.array([clusters[-1]]))
        clusters.append(int(kept[0]))
    return hierarchical(
        shape,
        lambda block: DiffPool(shape.hidden, clusters[block + 1], members=shape.members),
    )


@register("random-h")
def random_h(shape: Shape) -> nn.Module:
    return hierarchical(shape, lambda _: RandomPool(shape.ratio))


@register("sortpool-g")
def sortpool_g(shape: Shape) -> nn.Module:
    """With the readout of the paper's architecture, like all the others in its table."""
    return global_(
        shape, SortPool(_needed(shape.k, "k, the number of nodes to keep", "sortpool-g"))
    )


@register("sortpool-g-conv1d", without=["readout"])
def sortpool_g_conv1d(shape: Shape) -> nn.Module:
    """With DGCNN's one-dimensional convolutions in place of the readout."""
    k = _needed(shape.k, "k, the number of nodes to keep", "sortpool-g-conv1d")
    lengths = np.unique(np.maximum(10, k) // 2 * 2)  # its max-pooling of pairs drops an odd node
    if len(lengths) > 1:
        raise SagpoolError(
            "sortpool-g-conv1d needs one k for all members: the shape of its layers depends on it."
        )
    return global_(shape, SortConv(LAYERS * shape.hidden, int(lengths[0]), members=shape.members))


@register("set2set-g", without=["readout"])
def set2set_g(shape: Shape) -> nn.Module:
    return global_(shape, Set2Set(LAYERS * shape.hidden, members=shape.members))


@register("nopool-g")
def nopool_g(shape: Shape) -> nn.Module:
    return global_(shape, NoPool())
