"""Pooling layers by their kinds, and readouts."""

from collections.abc import Callable
from typing import Any, NamedTuple

from sagpool.export.runtime.arrays import Array
from sagpool.export.runtime.clusters import diff_pool, gmt, soft_pool
from sagpool.export.runtime.layers import (
    Layer,
    conv,
    linear,
    segment_mean,
    segment_softmax,
)
from sagpool.export.runtime.structure import Dense, Sparse, Thinned, Walks


class PooledLevel(NamedTuple):
    """The result of a pooling layer."""

    x: Array  # [rows, channels], or one row for each graph
    structure: Any
    source: Array | None = None  # [rows], the input row of each row, if nodes were selected
    gate: Array | None = None  # [rows] factor of each remaining row
    presence: Array | None = None  # [rows, 1], 0 for rows that are absent


def pool(ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None) -> PooledLevel:
    """Pool rows; ``rank`` ``[rows, 1]`` is the last channel before the last ReLU, if known."""
    return POOLS[layer["kind"]](ops, layer, x, structure, rank)


def readout(ops: Any, kind: str, level: PooledLevel) -> Array:
    """``[graphs, channels of the readout]``"""
    x, structure = level.x, level.structure
    highest = None
    if kind in ("max", "mean-max"):
        highest = ops.segment_max(x, structure.graph, structure.graphs)
        if kind == "max":
            return highest
    if kind == "sum":
        return ops.segment_sum(x, structure.graph, structure.graphs)
    if level.presence is None:
        mean = segment_mean(ops, x, structure)
    else:
        # If less than one node is present, use the sum instead of the mean.
        present = ops.segment_sum(level.presence, structure.graph, structure.graphs)
        sums = ops.segment_sum(x, structure.graph, structure.graphs)
        mean = sums / ops.maximum(present, 1.0)
    return mean if highest is None else ops.concat([mean, highest], 1)


def no_pool(ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None) -> PooledLevel:
    return PooledLevel(x, structure)


def top_rows(ops: Any, rank: Array, structure: Any, kept: Array) -> Array:
    """The ``kept`` ``[graphs]`` rows of each graph with the highest rank, in ascending order.

    Ties go to the lower row.
    """
    rows = structure.rows
    falling = ops.by_falling(rank)
    by_graph = ops.gather(structure.graph, falling) * rows + ops.arange(rows)
    order = ops.gather(falling, ops.by_rising(by_graph))  # graph by graph, the highest first
    place = ops.arange(rows) - ops.gather(structure.first, structure.graph)
    chosen = ops.gather(order, ops.nonzero(place < ops.gather(kept, structure.graph)))
    mask = ops.scatter(rows, chosen, ops.reshape(chosen * 0 + 1, (-1, 1)))
    return ops.nonzero(ops.reshape(mask, (-1,)) >= 1)


def kept_counts(ops: Any, layer: Layer, sizes: Array) -> Array:
    """⌈ratio · N⌉ nodes of each graph, exactly, or k, or all if there are fewer than k."""
    if layer["k"] is not None:
        return ops.minimum(sizes, sizes * 0 + layer["k"])
    numerator, denominator = layer["ratio"]
    return (sizes * numerator + (denominator - 1)) // denominator


def keep_rows(
    ops: Any, layer: Layer, x: Array, structure: Sparse, rank: Array, gate: Array | None
) -> PooledLevel:
    kept = kept_counts(ops, layer, structure.sizes)
    rows = top_rows(ops, rank, structure, kept)
    left = ops.gather(x, rows)
    if gate is not None:
        gate = ops.gather(gate, rows)
        left = left * ops.reshape(gate, (-1, 1))
    return PooledLevel(left, structure.keep(rows, kept), rows, gate)


def attention(ops: Any, layer: Layer, x: Array, structure: Any) -> tuple[Array, Array]:
    """Rank and gate of SAGPool: ``Z = 1/M Σ_m tanh(GNN_m(X, A))``."""
    if layer["augmentation"] == "two-hop":
        structure = structure.two_hop()
    elif layer["augmentation"]:
        structure = Walks(structure)
    scores = []
    for inner in layer["gnns"]:
        h = x
        for one in inner[:-1]:
            h = ops.tanh(conv(ops, one, h, structure))
        scores.append(ops.reshape(conv(ops, inner[-1], h, structure), (-1,)))
    if len(scores) == 1:
        return scores[0], ops.tanh(scores[0])
    mean = ops.tanh(scores[0])
    for score in scores[1:]:
        mean = mean + ops.tanh(score)
    mean = mean / float(len(scores))
    return mean, mean


def sag_pool(ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None) -> PooledLevel:
    own, gate = attention(ops, layer["attention"], x, structure)
    return keep_rows(ops, layer, x, structure, own * -1.0 if layer["lowest"] else own, gate)


def g_pool(ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None) -> PooledLevel:
    own = ops.reshape(linear(ops, layer["projection"], x), (-1,))
    return keep_rows(ops, layer, x, structure, own, ops.tanh(own))


def learned_ratio(
    ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None
) -> PooledLevel:
    raw, _ = attention(ops, layer["attention"], x, structure)
    gate = ops.reshape(ops.sigmoid(raw + layer["start"]), (-1, 1))
    present = ops.as_float(gate >= 0.5)
    gate = gate * present
    base = structure
    if isinstance(structure, Thinned):
        base = structure.base
        present = present * structure.presence
        gate = gate * ops.as_float(structure.presence > 0.0)
    rows = ops.arange(structure.rows)
    flat = ops.reshape(gate, (-1,))
    return PooledLevel(x * gate, Thinned(base, present), rows, flat, present)


def sort_pool(ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None) -> PooledLevel:
    if not layer["sort_channels"]:
        return keep_rows(ops, layer, x, structure, ops.reshape(rank, (-1,)), None)
    level = keep_rows(ops, layer, x, structure, ops.max(x, 1), None)
    return level._replace(x=ops.sort_columns(level.x))


def sort_conv(ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None) -> PooledLevel:
    """DGCNN's ending: 1-D convolutions along the top nodes in descending order."""
    k, width, channels = layer["k"], layer["width"], layer["channels"]
    level = keep_rows(ops, layer, x, structure, ops.reshape(rank, (-1,)), None)
    smaller = level.structure
    falling = ops.by_falling(ops.gather(ops.reshape(rank, (-1,)), level.source))
    by_graph = ops.gather(smaller.graph, falling) * smaller.rows + ops.arange(smaller.rows)
    order = ops.gather(falling, ops.by_rising(by_graph))
    place = ops.arange(smaller.rows) - ops.gather(smaller.first, smaller.graph)
    nodes = ops.scatter(smaller.graphs * k, smaller.graph * k + place, ops.gather(level.x, order))
    h = ops.relu(linear(ops, layer["first"], nodes))  # [graphs * k, channels]
    pairs = ops.max(ops.reshape(h, (-1, 2, channels)), 1)  # [graphs * k / 2, channels]
    flat = ops.reshape(pairs, (-1, k // 2 * channels))
    positions = k // 2 - width + 1
    outs = []
    for position in range(positions):
        window = ops.columns(flat, position * channels, (position + width) * channels)
        # The layer's weights have the channels first, then the positions of the window.
        turned = ops.transpose(ops.reshape(window, (-1, width, channels)))
        outs.append(linear(ops, layer["second"], ops.reshape(turned, (-1, width * channels))))
    return PooledLevel(ops.relu(ops.concat(outs, 1)), structure)


def set2set(ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None) -> PooledLevel:
    """``q = LSTM(q*)``, ``a = softmax(x · q)``, ``r = Σ a x``, ``q* = q ‖ r``, repeatedly."""
    channels, graph = layer["channels"], structure.graph
    state = ops.full(structure.graphs, channels, 0.0)
    cell, read = state, state
    for _ in range(layer["steps"]):
        query = ops.concat([state, read], 1)
        gates = linear(ops, layer["from_input"], query) + linear(ops, layer["from_state"], state)
        keep_in, forget, new, out = (
            ops.columns(gates, i * channels, (i + 1) * channels) for i in range(4)
        )
        cell = ops.sigmoid(forget) * cell + ops.sigmoid(keep_in) * ops.tanh(new)
        state = ops.sigmoid(out) * ops.tanh(cell)
        energy = ops.reshape(ops.sum(x * ops.gather(state, graph), 1), (-1, 1))
        alpha = segment_softmax(ops, energy, graph, structure.graphs)
        read = ops.segment_sum(alpha * x, graph, structure.graphs)
    return PooledLevel(ops.concat([state, read], 1), structure)


def clusters(
    make: Callable[..., tuple[Array, Dense]],
) -> Callable[..., PooledLevel]:
    """A layer that returns the rows and the structure of clusters."""
    return lambda ops, layer, x, structure, rank: PooledLevel(*make(ops, layer, x, structure))


def gmt_pool(ops: Any, layer: Layer, x: Array, structure: Any, rank: Array | None) -> PooledLevel:
    return PooledLevel(gmt(ops, layer, x, structure), structure)


POOLS = {
    "none": no_pool,
    "sag": sag_pool,
    "gpool": g_pool,
    "learned-ratio": learned_ratio,
    "sort": sort_pool,
    "sort-conv": sort_conv,
    "set2set": set2set,
    "diffpool": clusters(diff_pool),
    "soft": clusters(soft_pool),
    "gmt": gmt_pool,
}
