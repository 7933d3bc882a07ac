"""The forward pass of a whole model, and `Model`, which runs it in NumPy."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sagpool.export.runtime.arrays import Array, NumpyArrays
from sagpool.export.runtime.features import Columns, read_columns
from sagpool.export.runtime.inputs import (
    EDGE_LABELS,
    NODE_LABELS,
    checked_inputs,
    flat_fragments,
)
from sagpool.export.runtime.layers import linked
from sagpool.export.runtime.nets import NetOutput, net
from sagpool.export.runtime.simple import simple_outputs, unlike
from sagpool.export.runtime.structure import Sparse, joined, repeated


def forward(ops: Any, plan: dict[str, Any], inputs: dict[str, Array]) -> dict[str, Array]:
    """The outputs of a model, by name.

    Args:
        ops: array operations
        plan: the description of the model
        inputs: ``edges`` ``[edges, 2]``, ``sizes`` ``[graphs]``, and the inputs that the plan names
    """
    structure = joined(ops, inputs["edges"], inputs["sizes"])
    columns = read_columns(ops, plan, inputs, structure)
    mean: Array = None
    levels: dict[str, Array] = {}
    for number, part in enumerate(plan["parts"]):
        if part["kind"] == "nets":
            own, kept = net_outputs(ops, part, columns, structure)
            levels = kept if number == plan["kept"] else levels
        else:
            own = simple_outputs(ops, part, columns, structure, inputs)
        own = ops.as_double(own) * part["mixture"]
        mean = own if mean is None else mean + own
    outputs = decided(ops, plan, with_temperature(ops, plan, mean))
    if columns.unknown is not None:
        unknown = ops.reshape(columns.unknown, (-1, 1))
        sums = ops.segment_sum(unknown, structure.graph, structure.graphs)
        outputs["unknown"] = ops.reshape(sums, (-1,))
    if plan["novelty"] is not None:
        outputs["unlike"] = unlike(ops, plan["novelty"], columns, structure)
    return outputs | levels


def net_outputs(
    ops: Any, part: dict[str, Any], columns: Columns, structure: Sparse
) -> tuple[Array, dict[str, Array]]:
    """The mean outputs ``[graphs, outputs]`` of graph nets, and the nodes that the first kept."""
    total: Array = None
    kept: dict[str, Array] = {}
    for number, group in enumerate(part["nets"]):
        members = group["members"]
        x = columns.x if members == 1 else ops.concat([columns.x] * members, 0)
        found = net(ops, group["net"], x, repeated(ops, structure, members))
        own = ops.reshape(found.logits, (members, -1, part["outputs"]))
        own = ops.sum(ops.as_double(linked(ops, part["link"], own)), 0)
        total = own if total is None else total + own
        if not number:
            kept = kept_nodes(ops, members, found)
    return total / float(part["members"]), kept


def kept_nodes(ops: Any, members: int, output: NetOutput) -> dict[str, Array]:
    """For each level, the input nodes that the first member kept, and their scores."""
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
    """Probabilities with their log-odds divided by the temperature."""
    temperature, least = plan["temperature"], plan["least"]
    if plan["task"] == "regression" or temperature == 1:
        return p
    if plan["task"] == "multitask":
        p = ops.minimum(ops.maximum(p, least), p * 0.0 + (1 - least))
        return 1.0 / (ops.exp(ops.log(p / (1.0 - p)) / -temperature) + 1.0)
    return ops.softmax(ops.log(ops.maximum(p, least)) / temperature)


def decided(ops: Any, plan: dict[str, Any], p: Array) -> dict[str, Array]:
    """Probabilities, the prediction, and a prediction set or interval.

    With several tasks, a set has two columns for each task: whether it contains 0, and 1.
    """
    task, bounds, tasks = plan["task"], plan["conformal"], len(plan["names"])
    if task == "regression":
        outputs = {"values": ops.as_float(p)}
        if bounds is not None:
            half = ops.doubles(bounds)
            low, high = (ops.reshape(one, (-1, tasks, 1)) for one in (p - half, p + half))
            outputs["interval"] = ops.as_float(ops.concat([low, high], 2))
        return outputs
    outputs = {"probabilities": ops.as_float(p)}
    if task == "multitask":
        outputs["predicted"] = ops.as_int(p >= ops.doubles(plan["decision"] or [0.5] * tasks))
        if bounds is not None:
            either = [ops.reshape(one, (-1, tasks, 1)) for one in (1.0 - p, p)]
            both = ops.concat(either, 2)
            likely = both >= ops.reshape(ops.max(both, 2), (-1, tasks, 1))
            high = ops.reshape(ops.doubles(bounds), (1, tasks, 1))
            outputs["prediction_set"] = (1.0 - both <= high) | likely
        return outputs
    weighted = p if plan["decision"] is None else p * ops.doubles(plan["decision"])
    outputs["predicted"] = ops.argmax(weighted)
    if bounds is not None:
        likely = p >= ops.reshape(ops.max(p, 1), (-1, 1))
        outputs["prediction_set"] = (1.0 - p <= bounds[0]) | likely
    return outputs


class Model:
    """An exported model, run by NumPy.

    >>> model = Model("model.npz")
    >>> out = model(labels=["C", "C", "O"], edges=[[0, 1], [1, 2]])
    >>> out["probabilities"], model.names

    Args:
        path: the ``.npz`` file; by default the one next to this file, with the same name
    """

    def __init__(self, path: Any = None) -> None:
        with np.load(path or Path(__file__).with_suffix(".npz"), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        self.plan: dict[str, Any] = json.loads(arrays.pop("plan").tobytes())
        self.names: list[str] = self.plan["names"]  # names of the classes, or of the targets
        self._ops = NumpyArrays(arrays)

    def __call__(
        self,
        *,
        edges: Any,
        sizes: Sequence[int] | np.ndarray | None = None,
        labels: Sequence[str] | None = None,
        features: Any = None,
        edge_features: Any = None,
        node_labels: Mapping[str, Sequence[str | None]] | None = None,
        edge_labels: Mapping[str, Sequence[str | None]] | None = None,
        fragments: Sequence[Mapping[int, int]] | None = None,
    ) -> dict[str, np.ndarray]:
        """The outputs for a batch of graphs, by name. Inputs that training did not use are ignored.

        Args:
            edges: ``[edges, 2]`` nodes, numbered through all graphs; each edge in one direction or
                in both
            sizes: ``[graphs]`` nodes of each graph; by default all nodes are one graph
            labels: ``[nodes]`` texts
            features: ``[nodes, columns]`` numbers
            edge_features: ``[edges, columns]`` numbers
            node_labels: further labels ``[nodes]`` by title, such as ``charge``; None is no label
            edge_labels: labels ``[edges]`` by title, such as ``bond``
            fragments: for each graph, the counts of its Morgan environments
        """
        titled = {f"{NODE_LABELS}{title}": texts for title, texts in (node_labels or {}).items()}
        titled |= {f"{EDGE_LABELS}{title}": texts for title, texts in (edge_labels or {}).items()}
        given = {"labels": labels, "features": features, "edge_features": edge_features} | titled
        inputs = checked_inputs(self.plan, given, edges, sizes)
        if "fragments" in self.plan["inputs"]:
            inputs |= flat_fragments(fragments, len(inputs["sizes"]))
        return forward(self._ops, self.plan, inputs)
