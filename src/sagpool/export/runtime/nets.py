"""The architectures by their kinds: from features to the logits of every member."""

from typing import Any, NamedTuple

from sagpool.export.runtime.arrays import Array
from sagpool.export.runtime.layers import Layer, conv, linear, norm, standardise
from sagpool.export.runtime.pools import PooledLevel, pool, readout
from sagpool.export.runtime.structure import Sparse


class NetOutput(NamedTuple):
    logits: Array  # [members * graphs, outputs]
    levels: list[PooledLevel]  # levels of the pooling layers that selected nodes


def net(ops: Any, layer: Layer, x: Array, structure: Sparse) -> NetOutput:
    """A network on rows x of ``structure``, both repeated for each member."""
    return NETS[layer["kind"]](ops, layer, x, structure)


def hierarchical(ops: Any, layer: Layer, x: Array, structure: Any) -> NetOutput:
    """Three blocks of conv → ReLU → pool → readout; the readouts' sum; an MLP."""
    level = PooledLevel(x, structure)
    levels, read = [], None
    of_nodes = True
    for own, pooling in zip(layer["convs"], layer["pools"], strict=True):
        x = ops.relu(conv(ops, own, level.x, level.structure))
        if level.presence is not None:
            x = x * level.presence
        level = pool(ops, pooling, x, level.structure, None)
        # After a pooling to clusters, rows are no longer nodes of the input.
        of_nodes = of_nodes and pooling["kind"] not in ("diffpool", "soft")
        if of_nodes and level.source is not None:
            levels.append(level)
        one = readout(ops, layer["readout"], level)
        read = one if read is None else read + one
    return NetOutput(classifier(ops, layer["classifier"], read), levels)


def global_net(ops: Any, layer: Layer, x: Array, structure: Any) -> NetOutput:
    """Three conv + ReLU, their outputs side by side, one pooling, readout, MLP."""
    outputs = []
    raw = x
    for own in layer["convs"]:
        raw = conv(ops, own, x, structure)
        x = ops.relu(raw)
        outputs.append(x)
    width = layer["hidden"]
    rank = ops.columns(raw, width - 1, width)
    level = pool(ops, layer["pool"], ops.concat(outputs, 1), structure, rank)
    whole = layer["pool"]["kind"] in ("set2set", "sort-conv", "gmt")  # one row for each graph
    read = level.x if whole else readout(ops, layer["readout"], level)
    levels = [] if level.source is None else [level]
    return NetOutput(classifier(ops, layer["classifier"], read), levels)


def sagnet(ops: Any, layer: Layer, x: Array, structure: Any) -> NetOutput:
    """Normalised GIN layers with SAGPool, readouts of all levels, and a linear path."""
    features, base, levels, read = x, structure, [], []
    x = linear(ops, layer["encoder"], x)
    for number, block in enumerate(layer["blocks"]):
        h = linear(ops, block["first"], structure.propagate(x))
        h = linear(ops, block["second"], ops.relu(norm(ops, block["norms"][0], h, structure)))
        x = x + ops.relu(norm(ops, block["norms"][1], h, structure))
        read.append(sum_mean_max(ops, layer["readout"], x, structure))
        if layer["pools"]:
            level = pool(ops, layer["pools"][number], x, structure, None)
            x, structure = level.x, level.structure
            read.append(sum_mean_max(ops, layer["readout"], x, structure))
            levels.append(level)
    r = standardise(ops, layer["of_levels"], ops.concat(read, 1))
    s = standardise(ops, layer["of_inputs"], ops.segment_sum(features, base.graph, base.graphs))
    logits = classifier(ops, layer["classifier"], r) + linear(ops, layer["linear"], s)
    return NetOutput(logits, levels)


def sum_mean_max(ops: Any, layer: Layer, x: Array, structure: Any) -> Array:
    """Sum ‖ mean ‖ max of each graph; the sum in units of an average graph."""
    total = ops.segment_sum(x, structure.graph, structure.graphs)
    mean = total / ops.reshape(ops.as_float(structure.sizes), (-1, 1))
    by_member = ops.reshape(total, (layer["members"], -1, layer["channels"]))
    scaled = ops.reshape(by_member * ops.weight(layer["scale"]), (-1, layer["channels"]))
    return ops.concat([scaled, mean, ops.segment_max(x, structure.graph, structure.graphs)], 1)


def rescaled(ops: Any, layer: Layer, x: Array, structure: Any) -> NetOutput:
    """A network that learnt standardised targets; its outputs in the units of the targets."""
    found = net(ops, layer["net"], x, structure)
    members = layer["members"]
    values = ops.reshape(found.logits, (members, -1, layer["outputs"]))
    values = values * ops.weight(layer["spread"]) + ops.weight(layer["mean"])
    return found._replace(logits=ops.reshape(values, (-1, layer["outputs"])))


def gin_net(ops: Any, layer: Layer, x: Array, structure: Any) -> NetOutput:
    """GIN layers; the readouts of all layers go to an MLP."""
    read = []
    for own in layer["convs"]:
        x = ops.relu(conv(ops, own, x, structure))
        read.append(readout(ops, layer["readout"], PooledLevel(x, structure)))
    return NetOutput(classifier(ops, layer["classifier"], ops.concat(read, 1)), [])


def classifier(ops: Any, layer: Layer, x: Array) -> Array:
    h = ops.relu(linear(ops, layer["first"], x))
    return linear(ops, layer["last"], ops.relu(linear(ops, layer["second"], h)))


NETS = {
    "hierarchical": hierarchical,
    "global": global_net,
    "sagnet": sagnet,
    "gin": gin_net,
    "rescaled": rescaled,
}
