"""Turns inputs (labels, features, edges) into the columns that a model reads."""

from typing import Any, NamedTuple

from sagpool.export.runtime.arrays import Array
from sagpool.export.runtime.structure import Sparse

MAIN_LABEL = "labels"


class Columns(NamedTuple):
    """The columns of the nodes."""

    x: Array  # [nodes, columns] float32: numbers and counts, then one-hot labels
    label: Array | None  # [nodes] column of the one-hot label, -1 if unknown
    attr: Array | None  # [nodes, columns] float32, x without the labels
    unknown: Array | None  # [nodes] int64, 1 for nodes with a label unknown to the model


def read_columns(
    ops: Any, plan: dict[str, Any], inputs: dict[str, Array], structure: Sparse
) -> Columns:
    """The columns of each node, as in training."""
    names = plan["labels"]
    label, unknown = None, None
    if names:
        if plan["label_is_degree"]:
            label = degree_codes(ops, [int(name) for name in names], structure)
        else:
            label = ops.codes(inputs[MAIN_LABEL], names)
        unknown = ops.as_int(label < 0)
    blocks = []
    for group in plan["groups"]:
        block, is_unknown = GROUPS[group["kind"]](ops, group, inputs, structure)
        if block is not None:
            blocks.append(block)
        if is_unknown is not None:
            unknown = is_unknown if unknown is None else ops.either(unknown, is_unknown)
    attr = None if not blocks else blocks[0] if len(blocks) == 1 else ops.concat(blocks, 1)
    x = attr
    if label is not None:
        hot = ops.one_hot(label, len(names))
        x = hot if attr is None else ops.concat([attr, hot], 1)
    return Columns(x, label, attr, unknown)


def degree_codes(ops: Any, degrees: list[int], structure: Sparse) -> Array:
    """The column of each node's degree; degrees above the highest known one count as that one."""
    column = {degree: number for number, degree in enumerate(degrees)}
    table = [column.get(degree, -1) for degree in range(max(column) + 1)]
    degree = ops.reshape(structure.lengths, (-1,)) - 1
    return ops.gather(ops.integers(table), ops.minimum(degree, degree * 0 + max(column)))


Block = tuple[Array | None, Array | None]  # columns, and 1 for nodes with an unknown value


def attributes(ops: Any, group: Any, inputs: dict[str, Array], structure: Sparse) -> Block:
    return ops.as_float(inputs["features"]), None


def edge_attributes(ops: Any, group: Any, inputs: dict[str, Array], structure: Sparse) -> Block:
    """Sums of the attributes over the edges of each node."""
    edges = structure.edges
    values = ops.as_double(ops.gather(ops.as_float(inputs["edge_features"]), edges.origin))
    return ops.as_float(ops.segment_sum(values, edges.target, structure.rows)), None


def node_labels(ops: Any, group: Any, inputs: dict[str, Array], structure: Sparse) -> Block:
    texts = inputs[group["input"]]
    code = ops.codes(texts, group["names"])
    return hot_columns(ops, code, group), missing(ops, texts, code)


def edge_labels(ops: Any, group: Any, inputs: dict[str, Array], structure: Sparse) -> Block:
    """Number of edges of each label, for each node."""
    edges, texts = structure.edges, inputs[group["input"]]
    code = ops.codes(texts, group["names"])
    unknown = ops.gather(missing(ops, texts, code), edges.origin)
    summed = ops.segment_sum(ops.reshape(unknown, (-1, 1)), edges.target, structure.rows)
    is_unknown = ops.as_int(ops.reshape(summed, (-1,)) >= 1)
    if not group["names"]:
        return None, is_unknown
    hot = ops.one_hot(ops.gather(code, edges.origin), len(group["names"]))
    return ops.segment_sum(hot, edges.target, structure.rows), is_unknown


def degrees(ops: Any, group: Any, inputs: dict[str, Array], structure: Sparse) -> Block:
    if not group["names"]:
        return None, None
    code = degree_codes(ops, [int(name) for name in group["names"]], structure)
    return hot_columns(ops, code, group), ops.as_int(code < 0)


def neighbours(ops: Any, group: Any, inputs: dict[str, Array], structure: Sparse) -> Block:
    """Number of neighbours of each pair of edge label and node label, for each node."""
    if not group["pairs"]:
        return None, None
    edges = structure.edges
    of_edge = {
        name: number for number, name in enumerate(dict.fromkeys(e for e, _ in group["pairs"]))
    }
    of_node = {
        name: number for number, name in enumerate(dict.fromkeys(n for _, n in group["pairs"]))
    }
    # The last row and column of the table are for unknown labels.
    width = len(of_node) + 1
    table = [-1] * ((len(of_edge) + 1) * width)
    for column, (edge, node) in enumerate(group["pairs"]):
        table[of_edge[edge] * width + of_node[node]] = column
    edge_code = ops.codes(inputs[group["input"]], [*of_edge])
    node_code = ops.codes(inputs[MAIN_LABEL], [*of_node])
    edge_code = ops.where(edge_code < 0, len(of_edge), edge_code)
    node_code = ops.where(node_code < 0, len(of_node), node_code)
    pair = ops.gather(edge_code, edges.origin) * width + ops.gather(node_code, edges.source)
    hot = ops.one_hot(ops.gather(ops.integers(table), pair), len(group["pairs"]))
    return ops.segment_sum(hot, edges.target, structure.rows), None


def hot_columns(ops: Any, code: Array, group: Any) -> Array | None:
    return ops.one_hot(code, len(group["names"])) if group["names"] else None


def missing(ops: Any, texts: Array, code: Array) -> Array:
    """1 for labels unknown to the model; an empty text is no label."""
    empty = ops.codes(texts, [""])
    return ops.as_int(code < 0) * ops.as_int(empty < 0)


GROUPS = {
    "attributes": attributes,
    "edge attributes": edge_attributes,
    "node labels": node_labels,
    "edge labels": edge_labels,
    "degree": degrees,
    "neighbours": neighbours,
}
