"""Simple models: counts of whole graphs with a linear model or a forest, and unusual graphs."""

from typing import Any, NamedTuple

from sagpool.export.runtime.arrays import Array
from sagpool.export.runtime.features import Columns
from sagpool.export.runtime.layers import linked
from sagpool.export.runtime.structure import Sparse

COUNT_LIMIT = 1e30
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64  # constants of SplitMix64


class Entries(NamedTuple):
    """The counts of a sparse matrix that are not zero, sorted by row."""

    graph: Array  # [entries]
    column: Array  # [entries]
    count: Array  # [entries, 1] float64


def simple_outputs(
    ops: Any, part: dict[str, Any], columns: Columns, structure: Sparse, inputs: dict[str, Array]
) -> Array:
    """``[graphs, outputs]`` float64"""
    blocks = [
        MATRICES[config["kind"]](ops, config, columns, structure, inputs)
        for config in part["features"]
    ]
    raw = MODELS[part["kind"]](ops, part, blocks, structure.graphs) + ops.weight(part["bias"])
    raw = linked(ops, part["link"], raw)
    if part["binary"]:  # the probability of one class; the other class has the rest
        return ops.concat([1.0 - raw, raw], 1)
    return raw


def counts(
    ops: Any, config: Any, columns: Columns, structure: Sparse, inputs: dict[str, Array]
) -> Array:
    """Sizes, sums and means of node features, and degrees, ``[graphs, columns]``."""

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
    dense = ops.concat(blocks, 1)
    bounded = ops.minimum(ops.maximum(dense, -COUNT_LIMIT), dense * 0.0 + COUNT_LIMIT)
    return ops.as_double(ops.as_float(bounded))  # rounded to float32 as in training


def subtrees(
    ops: Any, config: Any, columns: Columns, structure: Sparse, inputs: dict[str, Array]
) -> Entries:
    """Counts of Weisfeiler-Lehman colours, 64-bit hashes of the neighbourhood of a node."""
    none = ops.arange(structure.rows) * 0
    colour = mix(ops, (none if columns.label is None else columns.label + 1) + 1)
    rounds = [colour]
    if config["whole"]:
        picked = ops.concat([ops.columns(columns.attr, i, i + 1) for i in config["whole"]], 1)
        colour = mix(ops, ops.xor(colour, hashed_rows(ops, picked, len(config["whole"]))))
        rounds.append(colour)
    edges = structure.edges
    while len(rounds) <= config["rounds"]:
        sent = ops.reshape(ops.gather(mix(ops, colour + 1), edges.source), (-1, 1))
        received = ops.reshape(ops.segment_sum(sent, edges.target, structure.rows), (-1,))
        colour = mix(ops, colour + mix(ops, received))
        rounds.append(colour)
    graph = ops.concat([structure.graph] * len(rounds), 0)
    known = ops.places(ops.concat(rounds, 0), config["vocabulary"])
    ones = ops.reshape(ops.as_double(known == known), (-1, 1))
    return counted_entries(ops, graph, known, ones, config["columns"])


def environments(
    ops: Any, config: Any, columns: Columns, structure: Sparse, inputs: dict[str, Array]
) -> Entries:
    """Counts of Morgan environments, which the caller passes."""
    known = ops.places(inputs["fragments"], config["vocabulary"])
    found = ops.reshape(ops.as_double(inputs["fragment_counts"]), (-1, 1))
    return counted_entries(ops, inputs["fragment_graphs"], known, found, config["columns"])


def counted_entries(ops: Any, graph: Array, code: Array, values: Array, columns: int) -> Entries:
    """Sums of the values by graph and code; -1 is no code."""
    there = ops.nonzero(code >= 0)
    keys = ops.gather(graph, there) * columns + ops.gather(code, there)
    order = ops.by_rising(keys)
    keys = ops.gather(keys, order)
    different, first = ops.unique(keys)
    begins = ops.scatter(ops.rows(keys), first, ops.reshape(first * 0 + 1, (-1, 1)))
    place = ops.cumsum(ops.reshape(begins, (-1,))) - 1
    values = ops.gather(ops.gather(values, there), order)
    count = ops.segment_sum(values, place, ops.rows(different))
    return Entries(different // columns, different % columns, count)


def mix(ops: Any, z: Array) -> Array:
    """SplitMix64's finaliser for each 64-bit number, in int64 that wraps around."""
    z = ops.xor(z, ops.shifted(z, 30)) * MIX_1
    z = ops.xor(z, ops.shifted(z, 27)) * MIX_2
    return ops.xor(z, ops.shifted(z, 31))


def hashed_rows(ops: Any, values: Array, columns: int) -> Array:
    """A hash of each row of numbers."""
    bits = ops.float_bits(values)
    hashed = None
    for number in range(columns):
        column = ops.reshape(ops.columns(bits, number, number + 1), (-1,))
        hashed = mix(ops, column if hashed is None else ops.xor(hashed, column))
    return hashed


def linear_model(ops: Any, part: dict[str, Any], blocks: list[Any], graphs: Any) -> Array:
    total = None
    for block, name in zip(blocks, part["weights"], strict=True):
        weight = ops.as_double(ops.weight(name))
        if isinstance(block, Entries):
            # The logarithm of sparse counts is used: further occurrences say less.
            terms = ops.gather(weight, block.column) * ops.log(block.count + 1.0)
            own = ops.segment_sum(terms, block.graph, graphs)
        else:
            own = block @ weight
        total = own if total is None else total + own
    return total


def forest(ops: Any, part: dict[str, Any], blocks: list[Any], graphs: Any) -> Array:
    """The mean over trees; a graph goes left where its column is at most the threshold."""
    trees, columns, width = part["trees"], part["columns"], part["width"]
    column, threshold, right = (ops.weight(part[name]) for name in ("column", "threshold", "right"))
    dense = [
        dense_block(ops, block, config["columns"], graphs) if isinstance(block, Entries) else block
        for block, config in zip(blocks, part["features"], strict=True)
    ]
    matrix = dense[0] if len(dense) == 1 else ops.concat(dense, 1)
    x = ops.reshape(ops.as_float(matrix), (-1,))
    place = ops.arange(graphs * trees)
    first = place // trees * columns  # offset of the graph's numbers
    node = ops.gather(ops.weight(part["roots"]), place % trees)  # [graphs * trees]
    for _ in range(part["depth"]):
        asked = ops.gather(column, node)
        value = ops.gather(x, first + ops.where(asked < 0, 0, asked))
        left = value <= ops.gather(threshold, node)
        onward = ops.where(left, node + 1, ops.gather(right, node))
        node = ops.where(asked < 0, node, onward)
    leaf = ops.as_double(ops.gather(ops.weight(part["value"]), node))  # [graphs * trees, width]
    if width == 1 and part["outputs"] > 1:  # every tree predicts one output
        return ops.reshape(leaf, (graphs, trees)) @ ops.weight(part["averages"])
    return ops.sum(ops.reshape(leaf, (graphs, trees, width)), 1) / float(trees)


def dense_block(ops: Any, block: Entries, columns: int, graphs: Any) -> Array:
    """``[graphs, columns]``"""
    flat = ops.scatter(graphs * columns, block.graph * columns + block.column, block.count)
    return ops.reshape(flat, (graphs, columns))


def unlike(ops: Any, config: Any, columns: Columns, structure: Sparse) -> Array:
    """``[graphs]`` bool: whether the mean descriptors are far from those of the training graphs."""
    nodes = ops.reshape(ops.as_double(structure.sizes), (-1, 1))

    def sums(values: Array) -> Array:
        return ops.segment_sum(ops.as_double(values), structure.graph, structure.graphs)

    highest = ops.segment_max(structure.degree, structure.graph, structure.graphs)
    blocks = [ops.log(nodes), sums(structure.degree) / nodes]
    blocks.append(ops.log(ops.as_double(highest) + 1.0))
    if config["attributes"]:
        blocks.append(sums(ops.columns(columns.attr, 0, config["attributes"])) / nodes)
    if config["labels"]:
        width = config["labels"]  # the last column is for all other labels
        label: Array = columns.label
        other = ops.where(label < 0, width - 1, label)
        other = ops.minimum(other, other * 0 + (width - 1))
        blocks.append(sums(ops.one_hot(other, width)) / nodes)
    z = (ops.concat(blocks, 1) - ops.weight(config["mean"])) @ ops.weight(config["root"])
    return ops.sqrt(ops.sum(z * z, 1)) > config["threshold"]


MATRICES = {"counts": counts, "subtrees": subtrees, "environments": environments}
MODELS = {"linear": linear_model, "forest": forest}
