"""Pooling layers that assign nodes to clusters, or seeds to nodes."""

from typing import Any

from sagpool.export.runtime.arrays import Array
from sagpool.export.runtime.layers import Layer, conv, linear, row_norm, segment_softmax
from sagpool.export.runtime.structure import Dense, Sparse

SMALLEST = 1e-12  # sums of weights below this count as 0
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def padded(ops: Any, x: Array, structure: Sparse) -> Array:
    """``[graphs, rows of the largest graph, channels]``, zeros where a graph has fewer rows."""
    most = ops.max(structure.sizes, 0)
    place = ops.arange(structure.rows) - ops.gather(structure.first, structure.graph)
    flat = ops.scatter(structure.graphs * most, structure.graph * most + place, x)
    return ops.reshape(flat, (structure.graphs, most, -1))


def by_graph(ops: Any, x: Array, structure: Any) -> Array:
    return structure.by_graph(x) if isinstance(structure, Dense) else padded(ops, x, structure)


def diff_pool(ops: Any, layer: Layer, x: Array, structure: Any) -> tuple[Array, Dense]:
    """``S = softmax(GCN(X, A))``, ``X' = Sᵀ X``, ``A' = Sᵀ A S``"""
    clusters = layer["clusters"]
    s = ops.softmax(conv(ops, layer["assign"], x, structure))  # [rows, clusters]
    around = structure.neighbour_sum(s)
    s, around, x = (by_graph(ops, one, structure) for one in (s, around, x))
    back = ops.transpose(s)  # [graphs, clusters, rows of the largest graph]
    pooled = Dense(ops, back @ around, clusters)
    return ops.reshape(back @ x, (pooled.rows, -1)), pooled


def soft_pool(ops: Any, layer: Layer, x: Array, structure: Any) -> tuple[Array, Dense]:
    """``S = softmax(MLP(X))``, ``X' = Sᵀ X``, ``A' = Sᵀ A S``, with the features of the method."""
    clusters, s = layer["clusters"], x
    for number, one in enumerate(layer["assign"]):
        s = linear(ops, one, ops.relu(s) if number else s)
    s = ops.softmax(s)  # [rows, clusters]
    weighted = s
    if layer["normalises"] and not isinstance(structure, Dense):
        weighted = s * inverse_root(ops, structure.degree)
    around = by_graph(ops, structure.neighbour_sum(weighted), structure)
    matrix = ops.transpose(by_graph(ops, weighted, structure)) @ around
    s = by_graph(ops, s, structure)
    pooled = ops.transpose(s) @ by_graph(ops, x, structure)  # [graphs, clusters, channels]
    if layer["means"]:
        pooled = selu(ops, pooled / ops.reshape(ops.sum(s, 1), (-1, clusters, 1)))
    else:
        matrix = without_loops(ops, matrix, clusters)
    left = Dense(ops, matrix, clusters)
    return ops.reshape(pooled, (left.rows, -1)), left


def without_loops(ops: Any, matrix: Array, clusters: int) -> Array:
    """``D^-1/2 (A - diag(A)) D^-1/2``"""
    others = matrix * (1.0 + ops.one_hot(ops.arange(clusters), clusters) * -1.0)
    scale = inverse_root(ops, ops.sum(others, 2))
    left, right = ((-1, clusters, 1), (-1, 1, clusters))
    return others * ops.reshape(scale, left) * ops.reshape(scale, right)


def inverse_root(ops: Any, degree: Array) -> Array:
    """``d^-1/2``, and 0 for 0."""
    there = degree > SMALLEST
    return ops.as_float(there) / ops.sqrt(ops.where(there, degree, 1.0))


def selu(ops: Any, x: Array) -> Array:
    above = ops.relu(x)
    return (above + (ops.exp(x - above) - 1.0) * SELU_ALPHA) * SELU_SCALE


def gmt(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """``GMPool_1(SelfAtt(GMPool_k(H, A)))``, ``[graphs, hidden]``"""
    hidden, graphs = layer["hidden"], structure.graphs
    of_nodes, of_seeds, of_one = layer["blocks"]
    seeds, seed = (ops.reshape(ops.weight(layer[name]), (-1, hidden)) for name in ("seeds", "seed"))
    query = linear(ops, of_nodes["query"], seeds)
    pairs = conv(ops, layer["nodes"], x, structure)
    read = attend_to_nodes(ops, layer, query, pairs, structure)
    rows = block(ops, of_nodes, for_each_graph(ops, layer, seeds, graphs), read)
    query, pairs = linear(ops, of_seeds["query"], rows), linear(ops, layer["rows"], rows)
    rows = block(ops, of_seeds, rows, attend(ops, layer, query, pairs, graphs, layer["over"]))
    query = for_each_graph(ops, layer, linear(ops, of_one["query"], seed), graphs)
    read = attend(ops, layer, query, linear(ops, layer["last"], rows), graphs, "nodes")
    return block(ops, of_one, for_each_graph(ops, layer, seed, graphs), read)


def for_each_graph(ops: Any, layer: Layer, seeds: Array, graphs: Any) -> Array:
    """``[members * k, hidden]`` to ``[graphs of all members * k, hidden]``."""
    members, hidden = layer["members"], layer["hidden"]
    by_member = ops.reshape(seeds, (members, -1))
    member = ops.arange(graphs) // (graphs // members)
    return ops.reshape(ops.gather(by_member, member), (-1, hidden))


def attend_to_nodes(ops: Any, layer: Layer, query: Array, pairs: Array, structure: Any) -> Array:
    """``[graphs * k, hidden]``, from keys ‖ values of the nodes, ``[rows, 2 * hidden]``."""
    members, hidden, width = layer["members"], layer["hidden"], layer["hidden"] // layer["heads"]
    heads = []
    for start in range(0, hidden, width):
        q, k, v = parts_of_head(ops, query, pairs, start, width, hidden)
        k, q = ops.reshape(k, (members, -1, width)), ops.reshape(q, (members, -1, width))
        energy = k @ ops.transpose(q) / float(hidden) ** 0.5  # [members, rows, k]
        energy = ops.reshape(energy, (-1, layer["count"]))
        if layer["over"] == "seeds":
            weight = ops.softmax(energy)
        else:
            weight = segment_softmax(ops, energy, structure.graph, structure.graphs)
        weight, v = padded(ops, weight, structure), padded(ops, v, structure)
        heads.append(ops.reshape(ops.transpose(weight) @ v, (-1, width)))
    return ops.concat(heads, 1)


def attend(ops: Any, layer: Layer, query: Array, pairs: Array, graphs: Any, over: str) -> Array:
    """``[graphs * q, hidden]`` like the query, from keys ‖ values, ``[graphs * k, 2 * hidden]``."""
    hidden, width = layer["hidden"], layer["hidden"] // layer["heads"]
    heads = []
    for start in range(0, hidden, width):
        parts = parts_of_head(ops, query, pairs, start, width, hidden)
        q, k, v = (ops.reshape(part, (graphs, -1, width)) for part in parts)
        energy = q @ ops.transpose(k) / float(hidden) ** 0.5  # [graphs, q, k]
        if over == "seeds":
            weight = ops.transpose(ops.softmax(ops.transpose(energy)))
        else:
            weight = ops.softmax(energy)
        heads.append(ops.reshape(weight @ v, (-1, width)))
    return ops.concat(heads, 1)


def parts_of_head(
    ops: Any, query: Array, pairs: Array, start: int, width: int, hidden: int
) -> tuple[Array, Array, Array]:
    """Query, key and value of the head whose channels begin at ``start``."""
    return (
        ops.columns(query, start, start + width),
        ops.columns(pairs, start, start + width),
        ops.columns(pairs, hidden + start, hidden + start + width),
    )


def block(ops: Any, layer: Layer, query: Array, attended: Array) -> Array:
    """``LN(Z + rFF(Z))`` with ``Z = LN(Q + O W^O)``"""
    first, second = layer["norms"]
    z = row_norm(ops, first, query + linear(ops, layer["out"], attended), None)
    return row_norm(ops, second, z + ops.relu(linear(ops, layer["feed_forward"], z)), None)
