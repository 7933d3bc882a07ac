"""From what the caller has (labels, features, edges) to the rows that a network reads."""

from typing import Any, NamedTuple

from sagpool.export.runtime.arrays import Array
from sagpool.export.runtime.structure import Sparse


class NodeFeatures(NamedTuple):
    x: Array  # [nodes, columns] float32: numbers and counts, then one-hot labels
    label: Array | None  # [nodes] column of the one-hot label, -1 if it is unknown
    attr: Array | None  # [nodes, columns] float32, x without the labels
    unknown: Array | None  # [nodes] bool, nodes with a label that the model does not know


def node_features(
    ops: Any, plan: dict[str, Any], inputs: dict[str, Array], structure: Sparse
) -> NodeFeatures:
    """The columns of each node as in training."""
    names = plan["labels"]
    attr = ops.as_float(inputs["features"]) if plan["features"] else None
    label = None
    if plan["feature_kind"] == "degree":
        label = degree_codes(ops, names, structure)
    elif names:
        label = ops.codes(inputs["labels"], names)
    if label is None:
        return NodeFeatures(attr, None, attr, None)
    hot = ops.one_hot(label, len(names))
    x = hot if attr is None else ops.concat([attr, hot], 1)
    return NodeFeatures(x, label, attr, label < 0)


def degree_codes(ops: Any, names: list[str], structure: Sparse) -> Array:
    """The column of each node's degree; degrees above the highest known one count as that one."""
    column = {int(name): number for number, name in enumerate(names)}
    highest = max(column)
    table = [column.get(degree, -1) for degree in range(highest + 1)]
    degree = ops.reshape(structure.lengths, (-1,)) - 1
    return ops.gather(ops.integers(table), ops.minimum(degree, degree * 0 + highest))
