"""A forward pass, watched: from a model and graphs to traces."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from sagpool.classifier.model import BATCH, TrainedModel
from sagpool.errors import SagpoolError
from sagpool.explain.inputs import from_object
from sagpool.explain.trace import Level, Trace
from sagpool.graphs import Adjacency, Graphs, pack
from sagpool.models import GlobalPooling, HierarchicalPooling, Output
from sagpool.nn import Linear, Streams

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


def explain(
    model: TrainedModel | nn.Module, graph: Graphs | Data | networkx.Graph | str, number: int = 0
) -> Trace:
    """What ``model`` does with one graph.

    Args:
        model: a trained one, or as `sagpool.models.build` makes it, of one member, on any device
        graph: a collection, a PyG or networkx graph, or a molecule as a SMILES string
        number: which graph of a collection
    """
    given = from_object(graph, model.vocabulary if isinstance(model, TrainedModel) else None)
    return given.named(explain_many(model, given.graphs, [number])[0])


def explain_many(
    model: TrainedModel | nn.Module, graphs: Graphs, numbers: Iterable[int]
) -> list[Trace]:
    """What ``model`` does with each of these graphs, many of them in one batch."""
    wanted = [operator.index(number) for number in numbers]
    for number in wanted:
        if not 0 <= number < len(graphs):
            raise SagpoolError(f"Graph {number} is not one of the graphs 0 to {len(graphs) - 1}.")
    module, chosen = fitted(model, graphs)
    parts = [wanted[start : start + BATCH] for start in range(0, len(wanted), BATCH)]
    traces = [trace for part in parts for trace in _explain_batch(module, chosen, part)]
    # A label that the model does not know is none to it, but still has a name.
    return [
        replace(trace, node_labels=_labels(graphs[number].to("cpu")))
        for trace, number in zip(traces, wanted, strict=True)
    ]


def fitted(model: TrainedModel | nn.Module, graphs: Graphs) -> tuple[nn.Module, Graphs]:
    """A module, and the graphs with the features and classes that it knows."""
    if isinstance(model, TrainedModel):
        return model.module(), model.vocabulary.fit(graphs).graphs
    return model, graphs


def _explain_batch(model: nn.Module, graphs: Graphs, wanted: list[int]) -> list[Trace]:
    _check(model, graphs)
    chosen = graphs[wanted].to(next(model.parameters()).device)
    # The key is the graph's number: the control too shows the same nodes each time.
    streams = Streams(torch.tensor([wanted[0]], device=chosen.device))
    with evaluating(model), torch.no_grad():
        batch = pack(chosen, [range(len(wanted))])
        output = model(batch, streams)
    if streams.calls and len(wanted) > 1:
        # What is drawn for a graph depends on its place in a batch: so each has one of its own.
        return [_explain_batch(model, graphs, [number])[0] for number in wanted]
    probabilities = output.logits[0].double().softmax(1).cpu().numpy()  # [graphs + 1, classes]
    levels = _levels(output, batch.structure)
    host = chosen.to("cpu")
    return [
        _trace(host[place], number, probabilities[place], levels[place])
        for place, number in enumerate(wanted)
    ]


def _check(model: nn.Module, graphs: Graphs) -> None:
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
def evaluating(model: nn.Module) -> Iterator[None]:
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
    first = np.cumsum(adjacency.layout.sizes[0]) - adjacency.layout.sizes[0]
    levels: list[list[Level]] = [[] for _ in first[:-1]]
    rows = np.arange(adjacency.layout.rows)
    for pooled in output.levels:
        rows = rows[pooled.perm.cpu().numpy()]  # [new rows], as rows of the input
        score = None if pooled.score is None else pooled.score.double().cpu().numpy()
        ends = np.cumsum(pooled.structure.layout.sizes[0])
        for graph, of_graph in enumerate(levels):
            part = slice(ends[graph] - pooled.structure.layout.sizes[0, graph], ends[graph])
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
    return Trace(
        name=graph.name,
        number=number,
        num_nodes=graph.num_nodes,
        edges=edges[edges[:, 0] < edges[:, 1]],
        node_labels=_labels(graph),
        class_names=names,
        true_class=None if graph.y is None else int(graph.y[0]),
        probabilities=probabilities,
        ground_truth=None if truth is None else np.flatnonzero(truth.numpy()),
        levels=levels,
    )


def _labels(graph: Graphs) -> tuple[str, ...]:
    if graph.node_label is None:
        return ("",) * graph.num_nodes
    names = graph.node_label_names
    return tuple(names[i] if i >= 0 else "" for i in graph.node_label.tolist())
