"""Descriptions of the parts of a mixture: graph nets and simple models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sagpool.classifier.parts import NetPart
from sagpool.errors import SagpoolError
from sagpool.export.layers import Describer

LINKS = {"classification": "softmax", "multitask": "sigmoid", "regression": "identity"}


def same_k(part: NetPart) -> list[NetPart]:
    """The members in groups that keep equally many nodes, so that all have as many rows."""
    k = part.shape.k
    if not isinstance(k, np.ndarray):
        return [part]
    groups = dict.fromkeys(k.reshape(-1).tolist())
    return [_members(part, np.flatnonzero(k.reshape(-1) == one), int(one)) for one in groups]


def _members(part: NetPart, members: np.ndarray, k: int) -> NetPart:
    weights = {name: tensor[members] for name, tensor in part.weights.items()}
    return replace(part, shape=replace(part.shape, k=k), weights=weights)


def describe_nets(
    part: NetPart, task: str, prefix: str, arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    """The description of graph nets, whose weights are added to the arrays."""
    nets = []
    for place, group in enumerate(same_k(part)):
        module = group.module()
        describer = Describer(module, f"{prefix}{place}.")
        nets.append({"members": group.members, "net": describer.describe(module)})
        arrays |= describer.arrays
    return {
        "kind": "nets",
        "members": part.members,
        "outputs": part.shape.classes,
        "link": LINKS[task],
        "nets": nets,
    }
