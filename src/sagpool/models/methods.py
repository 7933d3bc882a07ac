"""The methods of the paper, its variants, and controls."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.models.architectures import LAYERS, GlobalPooling, HierarchicalPooling
from sagpool.models.registry import Shape, Value, register
from sagpool.nn import (
    GPool,
    LearnedRatioPool,
    NoPool,
    Pool,
    RandomPool,
    SAGPool,
    Set2Set,
    SortConv,
    SortPool,
)

BLOCKS = 3
# The fraction of the training graphs that have more than K nodes, as SortPool's authors chose it.
LARGER, SIX_TENTHS = "larger_than_k", 0.6
K_SETTINGS: dict[str, Value] = {LARGER: SIX_TENTHS}


def sort_k(node_counts: np.ndarray | Tensor, fraction: float = SIX_TENTHS) -> int:
    """SortPool's K: the largest K such that this fraction of the graphs has more than K nodes.

    At least 1. Called with the graphs of the training part.
    """
    largest_first = np.sort(np.asarray(node_counts))[::-1]
    if not 0 < fraction <= 1 or not len(largest_first):
        raise SagpoolError(f"K needs graphs and a fraction in (0, 1], not {fraction}.")
    exact = Fraction(fraction).limit_denominator(10**9)  # exact, so that 0.55 of 20 graphs are 11
    smallest_above = largest_first[max(1, math.ceil(exact * len(largest_first))) - 1]
    return max(1, int(smallest_above) - 1)


def _k(shape: Shape, name: str) -> int | np.ndarray:
    _ = shape.settings[LARGER]  # used: `shape_of` computed k from it
    return needed(shape.k, "k, the number of nodes to keep", name)


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
    # A layer that leaves graphs needs no readout.
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


def needed(value: Any, what: str, name: str) -> Any:
    if value is None:
        raise SagpoolError(f"{name} needs {what}.")
    return value


def choice(shape: Shape, setting: str, known: tuple[str, ...]) -> str:
    value = str(shape.settings[setting])
    if value not in known:
        raise SagpoolError(f"{setting} must be one of {', '.join(known)}, not '{value}'.")
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
    settings = {"augmentation": "walks"} if "augmentation" in options else {}

    def options_of(shape: Shape) -> dict[str, Any]:
        if settings and choice(shape, "augmentation", ("walks", "two-hop")) == "two-hop":
            return {**options, "augmentation": "two-hop"}
        return options

    @register(f"sagpool-h{suffix}", settings=settings)
    def sagpool_h(shape: Shape) -> nn.Module:
        own = options_of(shape)
        return hierarchical(
            shape,
            lambda _: SAGPool(shape.hidden, shape.ratio, members=shape.members, **own),
        )

    @register(f"sagpool-g{suffix}", settings={**settings, **K_SETTINGS})
    def sagpool_g(shape: Shape) -> nn.Module:
        k = _k(shape, f"sagpool-g{suffix}")
        width, own = LAYERS * shape.hidden, options_of(shape)
        return global_(shape, SAGPool(width, k=k, members=shape.members, **own))


for _suffix, _options in VARIANTS.items():
    _register_sagpool(_suffix, _options)


def _register_masks(masks: int) -> None:
    @register(f"sagpool-h-masks{masks}")
    def sagpool_h_masks(shape: Shape) -> nn.Module:
        """SAGPool with several scores, each of which keeps its own nodes."""
        return hierarchical(
            shape,
            lambda _: SAGPool(shape.hidden, shape.ratio, masks=masks, members=shape.members),
        )


for _masks in (2, 4):
    _register_masks(_masks)


# Version 1 had soft gates in training, and began with half of the nodes.
RATIO_VERSION = "2"
RATIO_SETTINGS: dict[str, Value] = {"score": "gcn", "budget": 0.01, "start": 3.0}


def _learned_ratio(in_channels: int, shape: Shape, supervision: float = 0) -> LearnedRatioPool:
    return LearnedRatioPool(
        in_channels,
        str(shape.settings["score"]),
        budget=float(shape.settings["budget"]),
        start=float(shape.settings["start"]),
        supervision=supervision,
        members=shape.members,
    )


@register("sagpool-h-ratio", settings=RATIO_SETTINGS, version=RATIO_VERSION)
def sagpool_h_ratio(shape: Shape) -> nn.Module:
    """SAGPool with a learnt number of nodes, instead of a ratio."""
    return hierarchical(shape, lambda _: _learned_ratio(shape.hidden, shape))


@register("sagpool-g-ratio", settings={**RATIO_SETTINGS, "supervision": 0.0}, version=RATIO_VERSION)
def sagpool_g_ratio(shape: Shape) -> nn.Module:
    """SAGPool with a learnt number of nodes, instead of k."""
    supervision = float(shape.settings["supervision"])
    return global_(shape, _learned_ratio(LAYERS * shape.hidden, shape, supervision))


@register("gpool-h")
def gpool_h(shape: Shape) -> nn.Module:
    return hierarchical(shape, lambda _: GPool(shape.hidden, shape.ratio, members=shape.members))


@register("complement-h")
def complement_h(shape: Shape) -> nn.Module:
    """SAGPool that keeps the nodes with the lowest scores."""
    return hierarchical(
        shape, lambda _: SAGPool(shape.hidden, shape.ratio, lowest=True, members=shape.members)
    )


@register("random-h")
def random_h(shape: Shape) -> nn.Module:
    return hierarchical(shape, lambda _: RandomPool(shape.ratio))


@register("nopool-h")
def nopool_h(shape: Shape) -> nn.Module:
    return hierarchical(shape, lambda _: NoPool())


@register("sortpool-g", settings={"channels": "as-they-are", **K_SETTINGS})
def sortpool_g(shape: Shape) -> nn.Module:
    """SortPool with the paper's readout, like the other methods in its table."""
    k = _k(shape, "sortpool-g")
    channels = choice(shape, "channels", ("as-they-are", "sorted"))
    return global_(shape, SortPool(k, sort_channels=channels == "sorted"))


@register("sortpool-g-conv1d", settings=K_SETTINGS, without=["readout"])
def sortpool_g_conv1d(shape: Shape) -> nn.Module:
    """SortPool with DGCNN's one-dimensional convolutions in place of the readout."""
    k = _k(shape, "sortpool-g-conv1d")
    lengths = np.unique(np.maximum(10, k) // 2 * 2)  # max-pooling of pairs drops an odd node
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


@register("mlp-g", without=["conv"])
def mlp_g(shape: Shape) -> nn.Module:
    """`nopool-g` without the edges."""
    settings = {"readout": shape.settings["readout"], "conv": "mlp"}
    return global_(replace(shape, settings=settings), NoPool())
