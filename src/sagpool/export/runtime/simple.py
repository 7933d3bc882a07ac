"""Simple models: counts of whole graphs with a linear model or a forest, and unusual graphs."""

from typing import Any

from sagpool.export.runtime.arrays import Array
from sagpool.export.runtime.features import Columns
from sagpool.export.runtime.structure import Sparse

COUNT_LIMIT = 1e30
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64  # of SplitMix64


def simple_outputs(
    ops: Any, part: dict[str, Any], columns: Columns, structure: Sparse, inputs: dict[str, Array]
) -> Array:
    """``[graphs, outputs]`` float64"""
    features = part["features"]
    matrix = MATRICES[features["kind"]](ops, features, columns, structure, inputs)
    if part["log"]:
        matrix = ops.log(matrix + 1.0)
    raw = MODELS[part["kind"]](ops, part, matrix)
    if part["binary"]:  # of one class; the other one has the rest
        return ops.concat([1.0 - raw, raw], 1)
    return raw


def counts(
    ops: Any, config: Any, columns: Columns, structure: Sparse, inputs: dict[str, Array]
) -> Array:
    """Sizes, sums and means of node features, degrees and edge features, ``[graphs, columns]``."""

    def sums(values: Array) -> Array:
        return ops.segment_sum(ops.as_double(values), structure.graph, structure.graphs)

    nodes = ops.reshape(ops.as_double(structure.sizes), (-1, 1))
    degree = ops.as_int(ops.reshape(structure.degree, (-1,)))
    edges = sums(structure.degree) / 2.0
    density = edges * 2.0 / ops.maximum(nodes * (nodes - 1.0), 1.0)
    blocks = [nodes, edges, density, edges / nodes]
    total = sums(columns.x) if config["features"] else None
    if total is not None:
        blocks += [total, total / nodes]
    if config["measured"]:
        picked = [ops.columns(columns.attr, one, one + 1) for one in config["measured"]]
        values = ops.as_double(ops.concat(picked, 1))
        mean = ops.gather(sums(values) / nodes, structure.graph)
        spread = ops.sqrt(sums((values - mean) * (values - mean)) / nodes)
        low = ops.segment_max(values * -1.0, structure.graph, structure.graphs) * -1.0
        blocks += [spread, low, ops.segment_max(values, structure.graph, structure.graphs)]
    capped = ops.minimum(degree, degree * 0 + config["degrees"])
    blocks.append(sums(ops.one_hot(capped, config["degrees"] + 1)))
    if config["edge_features"]:
        edge_graph = ops.gather(structure.graph, structure.edges.target)
        values = ops.as_double(columns.edge_attr)
        of_edges = ops.segment_sum(values, edge_graph, structure.graphs) / 2.0
        blocks += [of_edges, of_edges / ops.maximum(edges, 1.0)]
    dense = ops.concat(blocks, 1)
    bounded = ops.minimum(ops.maximum(dense, -COUNT_LIMIT), dense * 0.0 + COUNT_LIMIT)
    return ops.as_double(ops.as_float(bounded))  # rounded as in training


def subtrees(
    ops: Any, config: Any, columns: Columns, structure: Sparse, inputs: dict[str, Array]
) -> Array:
    """Counts of Weisfeiler-Lehman colours, 64-bit hashes of what surrounds a node."""
    rows = ops.arange(structure.rows) * 0
    colour = mix(ops, (rows if columns.label is None else columns.label + 1) + 1)
    rounds = [colour]
    if config["whole"]:
        picked = [ops.columns(columns.attr, one, one + 1) for one in config["whole"]]
        colour = mix(ops, ops.xor(colour, hashed_rows(ops, picked)))
        rounds.append(colour)
    edges = structure.edges
    kinds = None
    if config["edges"]:
        width = config["edge_features"]
        picked = [ops.columns(columns.edge_attr, one, one + 1) for one in range(width)]
        kinds = hashed_rows(ops, picked)
    while len(rounds) <= config["rounds"]:
        sent = ops.gather(mix(ops, colour), edges.source)
        sent = mix(ops, sent if kinds is None else ops.xor(sent, kinds))
        received = ops.segment_sum(ops.reshape(sent, (-1, 1)), edges.target, structure.rows)
        colour = mix(ops, mix(ops, colour + 1) + ops.reshape(received, (-1,)))
        rounds.append(colour)
    graph = ops.concat([structure.graph] * len(rounds), 0)
    known = ops.places(ops.concat(rounds, 0), config["vocabulary"])
    ones = ops.reshape(ops.as_float(known == known), (-1, 1))
    return count_matrix(ops, graph, known, ones, structure.graphs, config["columns"])


def environments(
    ops: Any, config: Any, columns: Columns, structure: Sparse, inputs: dict[str, Array]
) -> Array:
    """Counts of Morgan environments, which the caller gives."""
    known = ops.places(inputs["fragments"], config["vocabulary"])
    found = ops.reshape(ops.as_float(inputs["fragment_counts"]), (-1, 1))
    graph = inputs["fragment_graphs"]
    return count_matrix(ops, graph, known, found, structure.graphs, config["columns"])


def count_matrix(
    ops: Any, graph: Array, code: Array, values: Array, graphs: Any, columns: int
) -> Array:
    """``[graphs, columns]`` float64: sums of the values of each graph and code; -1 is no code."""
    there = ops.nonzero(code >= 0)
    keys = ops.gather(graph, there) * columns + ops.gather(code, there)
    order = ops.by_rising(keys)
    summed = ops.segment_sum(
        ops.as_double(ops.gather(ops.gather(values, there), order)),
        ops.gather(keys, order),
        graphs * columns,
    )
    return ops.reshape(summed, (graphs, columns))


def mix(ops: Any, z: Array) -> Array:
    """The finaliser of SplitMix64 of each 64-bit number, in int64 that wraps."""
    z = ops.xor(z, ops.shifted(z, 30)) * MIX_1
    z = ops.xor(z, ops.shifted(z, 27)) * MIX_2
    return ops.xor(z, ops.shifted(z, 31))


def hashed_rows(ops: Any, values: list[Array]) -> Array:
    """A hash of each row of these columns."""
    hashed = None
    for column in values:
        bits = ops.float_bits(ops.reshape(column, (-1,)))
        hashed = mix(ops, bits if hashed is None else ops.xor(hashed, bits))
    return hashed


def linear_model(ops: Any, part: dict[str, Any], matrix: Array) -> Array:
    raw = matrix @ ops.as_double(ops.weight(part["weight"])) + ops.weight(part["bias"])
    if part["link"] == "softmax":
        return ops.softmax(raw)
    return ops.sigmoid(raw) if part["link"] == "sigmoid" else raw


def forest(ops: Any, part: dict[str, Any], matrix: Array) -> Array:
    """The mean over trees; a graph goes left where its column is at most the threshold."""
    trees, columns, width = part["trees"], part["columns"], part["width"]
    column, threshold, right = (ops.weight(part[name]) for name in ("column", "threshold", "right"))
    x = ops.reshape(ops.as_float(matrix), (-1,))
    graphs = ops.rows(matrix)
    place = ops.arange(graphs * trees)
    first = place // trees * columns  # where the graph's numbers begin
    node = ops.gather(ops.weight(part["roots"]), place % trees)  # [graphs * trees]
    for _ in range(part["depth"]):
        asked = ops.gather(column, node)
        value = ops.gather(x, first + ops.where(asked < 0, 0, asked))
        left = value <= ops.gather(threshold, node)
        onward = ops.where(left, node + 1, ops.gather(right, node))
        node = ops.where(asked < 0, node, onward)
    leaf = ops.as_double(ops.gather(ops.weight(part["value"]), node))  # [graphs * trees, width]
    if width == 1 and part["outputs"] > 1:  # every tree is for one output
        return ops.reshape(leaf, (graphs, trees)) @ ops.weight(part["averages"])
    return ops.sum(ops.reshape(leaf, (graphs, trees, width)), 1) / float(trees)


def unlike(ops: Any, config: Any, columns: Columns, structure: Sparse) -> Array:
    """``[graphs]`` bool: what the graph has on average is far from the training graphs."""
    nodes = ops.reshape(ops.as_double(structure.sizes), (-1, 1))

    def sums(values: Array) -> Array:
        return ops.segment_sum(ops.as_double(values), structure.graph, structure.graphs)

    highest = ops.segment_max(structure.degree, structure.graph, structure.graphs)
    blocks = [ops.log(nodes), sums(structure.degree) / nodes]
    blocks.append(ops.log(ops.as_double(highest) + 1.0))
    if config["attributes"]:
        blocks.append(sums(ops.columns(columns.attr, 0, config["attributes"])) / nodes)
    if config["labels"]:
        width = config["labels"]  # the last is for labels that have no other column
        other = ops.where(columns.label < 0, width - 1, columns.label)
        other = ops.minimum(other, other * 0 + (width - 1))
        blocks.append(sums(ops.one_hot(other, width)) / nodes)
    z = (ops.concat(blocks, 1) - ops.weight(config["mean"])) @ ops.weight(config["root"])
    return ops.sqrt(ops.sum(z * z, 1)) > config["threshold"]


MATRICES = {"counts": counts, "subtrees": subtrees, "environments": environments}
MODELS = {"linear": linear_model, "forest": forest}
