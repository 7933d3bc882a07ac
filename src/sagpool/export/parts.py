"""Descriptions of the parts of a mixture: graph nets and simple models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sagpool.classifier.parts import NetPart, SimplePart
from sagpool.classifier.simple import SimpleModel
from sagpool.classifier.simple.counts import DEGREES, Counts
from sagpool.classifier.simple.environments import Environments
from sagpool.classifier.simple.features import Block
from sagpool.classifier.simple.forest import Forest
from sagpool.classifier.simple.subtrees import ROUNDS
from sagpool.errors import SagpoolError
from sagpool.export.layers import Describer

Arrays = dict[str, np.ndarray]
LINKS = {"classification": "softmax", "multitask": "sigmoid", "regression": "identity"}


def groups_of(part: NetPart) -> list[np.ndarray]:
    """Groups of members that keep equally many nodes, and so have equally many rows."""
    k = part.shape.k
    if not isinstance(k, np.ndarray):
        return [np.arange(part.members)]
    return [np.flatnonzero(k.reshape(-1) == one) for one in dict.fromkeys(k.reshape(-1).tolist())]


def same_k(part: NetPart) -> list[NetPart]:
    """The members in the groups of `groups_of`."""
    k = part.shape.k
    if not isinstance(k, np.ndarray):
        return [part]
    return [_members(part, group, int(k.reshape(-1)[group[0]])) for group in groups_of(part)]


def _members(part: NetPart, members: np.ndarray, k: int) -> NetPart:
    weights = {name: tensor[members] for name, tensor in part.weights.items()}
    return replace(part, shape=replace(part.shape, k=k), weights=weights)


def describe_nets(part: NetPart, task: str, prefix: str, arrays: Arrays) -> dict[str, Any]:
    """The description of graph nets; their weights are added to the arrays."""
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


def describe_simple(part: SimplePart, prefix: str, arrays: Arrays) -> dict[str, Any]:
    """The description of a simple model; its arrays are added to the arrays."""
    model = part.model
    if not isinstance(model, SimpleModel):
        raise SagpoolError(f"{part.name} cannot be exported: it is not a model of sagpool.")
    described = {
        "features": [
            _features(block, f"{prefix}{number}.", arrays)
            for number, block in enumerate(model.features.blocks)
        ],
        "binary": model.task == "classification" and model.outputs == 2,
        "link": model.fitted.link,
        "bias": f"{prefix}bias",
    }
    arrays[f"{prefix}bias"] = model.fitted.bias
    if isinstance(model.fitted, Forest):
        return described | _forest(model.fitted, len(model.features.names()), prefix, arrays)
    widths = [len(block.names()) for block in model.features.blocks]
    weights = np.split(model.fitted.weight, np.cumsum(widths)[:-1])
    names = [f"{prefix}{number}.weight" for number in range(len(weights))]
    arrays |= dict(zip(names, weights, strict=True))
    return described | {"kind": "linear", "weights": names}


def _features(block: Block, prefix: str, arrays: Arrays) -> dict[str, Any]:
    if isinstance(block, Counts):
        return {
            "kind": "counts",
            "features": len(block.attributes) + len(block.labels),
            "measured": list(block.measured),
            "degrees": DEGREES,
        }
    arrays[f"{prefix}vocabulary"] = block.vocabulary
    known = {"vocabulary": f"{prefix}vocabulary", "columns": len(block.vocabulary)}
    if isinstance(block, Environments):
        return {"kind": "environments", **known}
    return {"kind": "subtrees", "whole": list(block.whole), "rounds": ROUNDS, **known}


def _forest(forest: Forest, columns: int, prefix: str, arrays: Arrays) -> dict[str, Any]:
    width, trees = forest.value.shape[1], len(forest.roots)
    for name in ("column", "right", "roots"):
        arrays[f"{prefix}{name}"] = getattr(forest, name).astype(np.int64)
    arrays[f"{prefix}threshold"], arrays[f"{prefix}value"] = forest.threshold, forest.value
    described = {name: f"{prefix}{name}" for name in ("column", "right", "roots", "threshold")}
    outputs = len(forest.bias)
    if width == 1 and outputs > 1:
        of_output = np.eye(outputs)[forest.output]  # [trees, outputs]
        arrays[f"{prefix}averages"] = of_output / of_output.sum(0)
    return described | {
        "kind": "forest",
        "value": f"{prefix}value",
        "averages": f"{prefix}averages",
        "trees": trees,
        "columns": columns,
        "width": width,
        "outputs": outputs,
        "depth": _depth(forest),
    }


def _depth(forest: Forest) -> int:
    """Number of steps from a root to the deepest leaf."""
    depth = np.zeros(len(forest.column), np.int64)
    for node in np.flatnonzero(forest.column >= 0).tolist():  # parents come before children
        depth[[node + 1, forest.right[node]]] = depth[node] + 1
    return int(depth.max(initial=0))
