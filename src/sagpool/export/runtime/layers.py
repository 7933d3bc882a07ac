"""Layers with weights, and graph convolutions by their kinds.

Every layer is a function of array operations, a description (`layer`, JSON values that name the
layer's weights), and rows. There are rows for all members, member after member.
"""

from typing import Any

from sagpool.export.runtime.arrays import Array
from sagpool.export.runtime.structure import Walks

Layer = dict[str, Any]
ATTENTION_SLOPE = 0.2  # negative slope of the leaky ReLU of GAT
NORM_EPS = 1e-5


def linear(ops: Any, layer: Layer, x: Array) -> Array:
    """``x W + b``, with weights ``[members, in, out]``."""
    members, fan_in, fan_out = layer["shape"]
    y = ops.reshape(x, (members, -1, fan_in)) @ ops.weight(layer["weight"])
    if layer["bias"] is not None:
        y = y + ops.weight(layer["bias"])
    return ops.reshape(y, (-1, fan_out))


def product(ops: Any, layer: Layer, x: Array) -> Array:
    """``x W``"""
    return linear(ops, {**layer, "bias": None}, x)


def add_bias(ops: Any, layer: Layer, y: Array) -> Array:
    if layer["bias"] is None:
        return y
    members, _, fan_out = layer["shape"]
    shifted = ops.reshape(y, (members, -1, fan_out)) + ops.weight(layer["bias"])
    return ops.reshape(shifted, (-1, fan_out))


def standardise(ops: Any, layer: Layer, x: Array) -> Array:
    """``asinh((x - μ) ⊙ s)``"""
    by_member = ops.reshape(x, (layer["members"], -1, layer["channels"]))
    scaled = (by_member - ops.weight(layer["mean"])) * ops.weight(layer["scale"])
    return ops.reshape(ops.asinh(scaled), (-1, layer["channels"]))


def norm(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    return NORMS[layer["kind"]](ops, layer, x, structure)


def no_norm(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    return x


def row_norm(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """``γ (x - μ) / σ + β``, with μ and σ over the channels of each row."""
    members, channels = layer["members"], layer["channels"]
    centred = x - ops.reshape(ops.sum(x, 1), (-1, 1)) / float(channels)
    variance = ops.reshape(ops.sum(centred * centred, 1), (-1, 1)) / float(channels)
    normal = ops.reshape(centred / ops.sqrt(variance + NORM_EPS), (members, -1, channels))
    scaled = normal * ops.weight(layer["scale"]) + ops.weight(layer["shift"])
    return ops.reshape(scaled, (-1, channels))


def graph_norm(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """``γ (x - α μ) / σ + β``, with μ and σ over the nodes of each graph."""
    by_member = (layer["members"], -1, layer["channels"])
    gamma, beta, alpha = (ops.weight(layer[name]) for name in ("scale", "shift", "mean_scale"))

    def mean(y: Array) -> Array:
        return ops.gather(segment_mean(ops, y, structure), structure.graph)

    centred = ops.reshape(x, by_member) - ops.reshape(mean(x), by_member) * alpha
    flat = ops.reshape(centred, (-1, layer["channels"]))
    normal = flat / ops.sqrt(mean(flat * flat) + NORM_EPS)
    return ops.reshape(ops.reshape(normal, by_member) * gamma + beta, (-1, layer["channels"]))


def segment_mean(ops: Any, x: Array, structure: Any) -> Array:
    """The mean over the rows of each graph, ``[graphs, channels]``."""
    sums = ops.segment_sum(x, structure.graph, structure.graphs)
    return sums / ops.reshape(ops.as_float(structure.sizes), (-1, 1))


def segment_softmax(ops: Any, x: Array, index: Array, rows: Any) -> Array:
    """Softmax over the rows with the same index."""
    highest = ops.gather(ops.segment_max(x, index, rows), index)
    e = ops.exp(x - highest)
    return e / ops.gather(ops.segment_sum(e, index, rows), index)


def linked(ops: Any, link: str, logits: Array) -> Array:
    if link == "softmax":
        return ops.softmax(logits)
    return ops.sigmoid(logits) if link == "sigmoid" else logits


def conv(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """A graph convolution, before the ReLU."""
    return CONVOLUTIONS[layer["kind"]](ops, layer, x, structure)


def gcn(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """``D̃^-1/2 Ã D̃^-1/2 X Θ + b``; sums over neighbours on the side where rows are narrower."""
    own = layer["linear"]
    if own["shape"][2] < own["shape"][1]:
        return add_bias(ops, own, structure.gcn(product(ops, own, x)))
    return linear(ops, own, structure.gcn(x))


def cheb(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """``Σ_k T_k(L̂) X Θ_k + b`` with L̂ = -D^-1/2 A D^-1/2, by Clenshaw's recurrence."""
    there = structure.degree > 0.0
    scale = ops.as_float(there) / ops.sqrt(ops.where(there, structure.degree, 1.0))

    def laplacian(y: Array) -> Array:
        return scale * structure.neighbour_sum(scale * y) * -1.0

    terms = [linear(ops, one, x) for one in layer["linears"]]
    if len(terms) == 1:
        return terms[0]
    after, current = None, terms[-1]
    for term in terms[-2:0:-1]:
        following = term + laplacian(current) * 2.0
        after, current = current, following if after is None else following - after
    result = terms[0] + laplacian(current)
    return result if after is None else result - after


def sage(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """``X Θ_root + D^-1 A X Θ + b``"""
    sums = structure.neighbour_sum(product(ops, layer["neighbours"], x))
    mean = sums / ops.maximum(structure.degree, 1.0)
    return linear(ops, layer["root"], x) + add_bias(ops, layer["neighbours"], mean)


def gin(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """``MLP(X + A X)``"""
    hidden = ops.relu(linear(ops, layer["first"], x + structure.neighbour_sum(x)))
    return linear(ops, layer["second"], hidden)


def mlp(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    return linear(ops, layer["linear"], x)


def gat(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """``Σ_j α_ij Θ x_j + b``, averaged over the heads."""
    pairs = structure.pairs() if isinstance(structure, Walks) else structure
    members, heads, out = layer["members"], layer["heads"], layer["out"]
    shape = (members, -1, heads, out)
    h = linear(ops, layer["linear"], x)  # [rows, heads * out]
    by_head = ops.reshape(h, shape)
    to_target = ops.reshape(ops.sum(by_head * ops.weight(layer["target"]), 3), (-1, heads))
    from_source = ops.reshape(ops.sum(by_head * ops.weight(layer["source"]), 3), (-1, heads))
    energy = ops.gather(to_target, pairs.target) + ops.gather(from_source, pairs.source)
    energy = ops.where(energy >= 0.0, energy, energy * ATTENTION_SLOPE)
    alpha = segment_softmax(ops, energy, pairs.target, pairs.rows)  # [entries, heads]
    sent = ops.reshape(ops.gather(h, pairs.source), (-1, heads, out))
    messages = ops.reshape(ops.reshape(alpha, (-1, heads, 1)) * sent, (-1, heads * out))
    received = ops.segment_sum(messages, pairs.target, pairs.rows)
    mean = ops.sum(ops.reshape(received, shape), 2) / float(heads)  # [members, rows, out]
    if layer["bias"] is not None:
        mean = mean + ops.weight(layer["bias"])
    return ops.reshape(mean, (-1, out))


CONVOLUTIONS = {"gcn": gcn, "cheb": cheb, "sage": sage, "gin": gin, "mlp": mlp, "gat": gat}
NORMS = {"none": no_norm, "row": row_norm, "graph": graph_norm}
