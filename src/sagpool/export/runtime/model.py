"""The forward pass of a whole model, and `Model`, which runs it in NumPy."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sagpool.export.runtime.arrays import Array, NumpyArrays
from sagpool.export.runtime.features import NodeFeatures, node_features
from sagpool.export.runtime.nets import NetOutput, net
from sagpool.export.runtime.structure import Sparse, joined, repeated


def forward(ops: Any, plan: dict[str, Any], inputs: dict[str, Array]) -> dict[str, Array]:
    """The outputs of a model, by name.

    Args:
        ops: array operations
        plan: the description of the model
        inputs: ``edges`` ``[edges, 2]``, ``sizes`` ``[graphs]`` and, as the plan says, ``labels``
            ``[nodes]`` and ``features`` ``[nodes, columns]``
    """
    sizes = inputs["sizes"]
    structure = joined(ops, inputs["edges"], sizes, ops.last(ops.cumsum(sizes)))
    features = node_features(ops, plan, inputs, structure)
    mean, levels = None, {}
    for number, part in enumerate(plan["parts"]):
        own, kept = part_outputs(ops, part, features, structure)
        own = ops.as_double(own) * part["mixture"]
        mean = own if mean is None else mean + own
        if number == plan["kept"]:
            levels = kept
    outputs = decided(ops, plan, with_temperature(ops, plan, mean))
    if features.unknown is not None:
        count = ops.reshape(ops.as_int(features.unknown), (-1, 1))
        sums = ops.segment_sum(count, structure.graph, structure.graphs)
        outputs["unknown"] = ops.reshape(sums, (-1,))
    return outputs | levels


def part_outputs(
    ops: Any, part: dict[str, Any], features: NodeFeatures, structure: Sparse
) -> tuple[Array, dict[str, Array]]:
    """The outputs ``[graphs, outputs]`` of a part of the mixture, and the nodes that it kept."""
    mean, kept = None, {}
    for number, group in enumerate(part["nets"]):
        members = group["members"]
        x = features.x if members == 1 else ops.concat([features.x] * members, 0)
        found = net(ops, group["net"], x, repeated(ops, structure, members))
        own = linked(ops, part["link"], found.logits)
        own = ops.sum(ops.reshape(own, (members, -1, part["outputs"])), 0)
        mean = own if mean is None else mean + own
        if not number:
            kept = kept_nodes(ops, members, found)
    return mean / float(part["members"]), kept


def linked(ops: Any, link: str, logits: Array) -> Array:
    if link == "softmax":
        return ops.softmax(logits)
    return ops.sigmoid(logits) if link == "sigmoid" else logits


def kept_nodes(ops: Any, members: int, output: NetOutput) -> dict[str, Array]:
    """For each level the nodes of the input that the first member kept, and their scores."""
    found, rows = {}, None
    for number, level in enumerate(output.levels, 1):
        source, gate, presence = level.source, level.gate, level.presence
        rows = source if rows is None else ops.gather(rows, source)
        own, of_own = first_member(ops, rows, members), lambda x: first_member(ops, x, members)
        if presence is not None:
            there = ops.nonzero(of_own(ops.reshape(presence, (-1,))) > 0.0)
            own = ops.gather(own, there)
            gate = None if gate is None else ops.gather(of_own(gate), there)
        elif gate is not None:
            gate = of_own(gate)
        found[f"kept_{number}"] = own
        if gate is not None:
            found[f"score_{number}"] = gate
    return found


def first_member(ops: Any, x: Array, members: int) -> Array:
    if members == 1:
        return x
    return ops.reshape(ops.gather(ops.reshape(x, (members, -1)), ops.integers([0])), (-1,))


def with_temperature(ops: Any, plan: dict[str, Any], p: Array) -> Array:
    """The log-odds divided by the temperature."""
    temperature, least = plan["temperature"], plan["least"]
    if plan["task"] == "regression" or temperature == 1:
        return p
    if plan["task"] == "multitask":
        p = ops.minimum(ops.maximum(p, least), p * 0.0 + (1 - least))
        return 1.0 / (ops.exp(ops.log(p / (1.0 - p)) / -temperature) + 1.0)
    return ops.softmax(ops.log(ops.maximum(p, least)) / temperature)


def decided(ops: Any, plan: dict[str, Any], p: Array) -> dict[str, Array]:
    """Probabilities, the predicted class, and the classes that are possible."""
    outputs = {"probabilities": ops.as_float(p)}
    weighted = p if plan["decision"] is None else p * ops.doubles(plan["decision"])
    outputs["predicted"] = ops.argmax(weighted)
    if plan["conformal"] is not None:
        likely = p >= ops.reshape(ops.max(p, 1), (-1, 1))
        outputs["prediction_set"] = (1.0 - p <= plan["conformal"][0]) | likely
    return outputs


class Model:
    """An exported model, run by NumPy alone.

    >>> model = Model("model.npz")
    >>> out = model(labels=["C", "C", "O"], edges=[[0, 1], [1, 2]])
    >>> out["probabilities"], model.class_names

    Args:
        path: of the ``.npz`` file; by default the one beside this file, with its name
    """

    def __init__(self, path: str | Path | None = None) -> None:
        with np.load(path or Path(__file__).with_suffix(".npz"), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        self.plan: dict[str, Any] = json.loads(arrays.pop("plan").tobytes())
        self.ops = NumpyArrays(arrays)
        self.class_names: list[str] = self.plan["class_names"]

    def __call__(
        self,
        *,
        edges: Any,
        sizes: Sequence[int] | np.ndarray | None = None,
        labels: Sequence[str] | None = None,
        features: Any = None,
    ) -> dict[str, np.ndarray]:
        """The outputs for a batch of graphs, by name.

        Args:
            edges: ``[edges, 2]`` nodes, numbered through all graphs; each edge in one direction or
                in both
            sizes: ``[graphs]`` nodes of each graph; by default all nodes are one graph
            labels: ``[nodes]`` texts, if the model has node labels
            features: ``[nodes, columns]``, if the model has node features
        """
        given = {"labels": labels, "features": features}
        inputs = checked_inputs(self.plan, given, edges, sizes)
        return forward(self.ops, self.plan, inputs)


def checked_inputs(
    plan: dict[str, Any], given: dict[str, Any], edges: Any, sizes: Any
) -> dict[str, Any]:
    """Arrays of the right types; a ValueError that says what is wrong with them."""
    inputs: dict[str, Any] = {}
    lengths = {}
    for name in ("labels", "features"):
        if name not in plan["inputs"]:
            continue
        if given[name] is None:
            raise ValueError(f"The model needs {name}.")
        values = given[name]
        inputs[name] = [*values] if name == "labels" else np.asarray(values, np.float32)
        lengths[name] = len(inputs[name])
    if sizes is None:
        if not lengths:
            raise ValueError("The model needs sizes: without labels, nodes are not counted.")
        sizes = [next(iter(lengths.values()))]
    sizes = np.asarray(sizes, np.int64)
    if sizes.ndim != 1 or not len(sizes) or sizes.min() < 1:
        raise ValueError("sizes must be at least one number, each at least 1.")
    nodes = int(sizes.sum())
    for name, length in lengths.items():
        if length != nodes:
            raise ValueError(f"There are {length} {name} for {nodes} nodes.")
    width = plan["features"]
    if width and inputs["features"].shape != (nodes, width):
        raise ValueError(f"features must have {width} columns.")
    if width and not np.isfinite(inputs["features"]).all():
        raise ValueError("A feature is not a finite number.")
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    if len(edges) and (edges.min() < 0 or edges.max() >= nodes):
        raise ValueError(f"An edge names a node that is not one of 0 to {nodes - 1}.")
    graph = np.repeat(np.arange(len(sizes)), sizes)
    if (graph[edges[:, 0]] != graph[edges[:, 1]]).any():
        raise ValueError("An edge joins nodes of different graphs.")
    return inputs | {"edges": edges, "sizes": sizes}
