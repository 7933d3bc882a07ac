"""A forward pass, watched: from a model and graphs to traces."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from sagpool.errors import SagpoolError
from sagpool.explain.trace import Level, Trace
from sagpool.graphs import Adjacency, Graphs, pack
from sagpool.models import GlobalPooling, HierarchicalPooling, Output
from sagpool.nn import Linear, Streams


def explain(model: nn.Module, graphs: Graphs, number: int = 0) -> Trace:
    """What ``model`` does with one graph.

    Args:
        model: as `sagpool.models.build` makes it, of one member, on any device
        graphs: the collection that the graph is in
        number: which of them
    """
    return explain_many(model, graphs, [number])[0]


def explain_many(model: nn.Module, graphs: Graphs, numbers: Iterable[int]) -> list[Trace]:
    """What ``model`` does with each of these graphs, all of them in one batch."""
    wanted = [operator.index(number) for number in numbers]
    if not wanted:
        return []
    _check(model, graphs, wanted)
    chosen = graphs[wanted].to(next(model.parameters()).device)
    # The key is the graph's number: the control too shows the same nodes each time.
    streams = Streams(torch.tensor([wanted[0]], device=chosen.device))
    with _evaluating(model), torch.no_grad():
        batch = pack(chosen, [range(len(wanted))])
        output = model(batch, streams)
    if streams.calls and len(wanted) > 1:
        # What is drawn for a graph depends on its place in a batch: so each has one of its own.
        return [explain(model, graphs, number) for number in wanted]
    probabilities = output.logits[0].double().softmax(1).cpu().numpy()  # [graphs + 1, classes]
    levels = _levels(output, batch.adjacency)
    host = chosen.to("cpu")
    return [
        _trace(host[place], number, probabilities[place], levels[place])
        for place, number in enumerate(wanted)
    ]


def _check(model: nn.Module, graphs: Graphs, numbers: list[int]) -> None:
    for number in numbers:
        if not 0 <= number < len(graphs):
            raise SagpoolError(f"Graph {number} is not one of the graphs 0 to {len(graphs) - 1}.")
    members = max(len(parameter) for parameter in model.parameters())
    if members > 1:
        raise SagpoolError(f"A model of one member is explained, not a fleet of {members}.")
    if isinstance(model, (GlobalPooling, HierarchicalPooling)):
        first = next(layer for layer in model.convs[0].modules() if isinstance(layer, Linear))
        channels = first.weight.shape[1]
        if channels != graphs.num_features:
            raise SagpoolError(
                f"The model is for graphs with {channels} node features; those of {graphs.name} "
                f"have {graphs.num_features}."
            )


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards each layer is in the mode that it was in."""
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training


def _levels(output: Output, adjacency: Adjacency) -> list[tuple[Level, ...]]:
    """The levels of each graph but the filler, which is the last one of the batch."""
    first = np.cumsum(adjacency.sizes[0]) - adjacency.sizes[0]
    levels: list[list[Level]] = [[] for _ in first[:-1]]
    rows = np.arange(adjacency.rows)
    for pooled in output.levels:
        rows = rows[pooled.perm.cpu().numpy()]  # [new rows], as rows of the input
        score = None if pooled.score is None else pooled.score.double().cpu().numpy()
        ends = np.cumsum(pooled.adjacency.sizes[0])
        for graph, of_graph in enumerate(levels):
            part = slice(ends[graph] - pooled.adjacency.sizes[0, graph], ends[graph])
            of_graph.append(
                Level(rows[part] - first[graph], None if score is None else score[part].copy())
            )
    return [tuple(of_graph) for of_graph in levels]


def _trace(
    graph: Graphs, number: int, probabilities: np.ndarray, levels: tuple[Level, ...]
) -> Trace:
    """``graph`` is a collection of one, on the host."""
    names = graph.class_names or tuple(str(i) for i in range(len(probabilities)))
    if len(names) != len(probabilities):
        raise SagpoolError(
            f"The model knows {len(probabilities)} classes, {graph.name} has {len(names)}."
        )
    edges, truth = graph.edge_index.T.numpy(), graph.ground_truth
    if graph.node_label is None:
        labels = [""] * graph.num_nodes
    else:
        labels = [graph.node_label_names[i] if i >= 0 else "" for i in graph.node_label.tolist()]
    return Trace(
        name=graph.name,
        number=number,
        num_nodes=graph.num_nodes,
        edges=edges[edges[:, 0] < edges[:, 1]],
        node_labels=tuple(labels),
        class_names=names,
        true_class=None if graph.y is None else int(graph.y[0]),
        probabilities=probabilities,
        ground_truth=None if truth is None else np.flatnonzero(truth.numpy()),
        levels=levels,
    )
