"""`explain`: what a model says about graphs, and why, as traces."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from sagpool.errors import SagpoolError
from sagpool.explain.inputs import ExplainInput, from_object
from sagpool.explain.model import BATCH_SIZE, GraphClassifier, evaluation_mode, target_of
from sagpool.explain.numbers import PredictedNumbers
from sagpool.explain.parts import ShownNet
from sagpool.explain.target import Target
from sagpool.explain.trace import Level, Trace
from sagpool.graphs import Batch, Graphs, pack
from sagpool.models import Output
from sagpool.nn import Streams

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


def explain(
    model: GraphClassifier | nn.Module,
    graph: Graphs | Data | networkx.Graph | str,
    number: int = 0,
    *,
    target: str | None = None,
) -> Trace:
    """How ``model`` pools one graph, what it counts in it, and what it predicts.

    Args:
        model: a `TrainedModel`, or a module from `sagpool.models.build` with one member
        graph: a collection, a PyG or networkx graph, or a molecule as a SMILES string
        number: which graph of a collection
        target: which one of several tasks or numbers; by default the first
    """
    vocabulary = None if isinstance(model, nn.Module) else model.vocabulary
    given = from_object(graph, vocabulary)
    return explain_given(model, given, [number], target)[0]


def explain_many(
    model: GraphClassifier | nn.Module,
    graphs: Graphs,
    numbers: Iterable[int],
    *,
    target: str | None = None,
) -> list[Trace]:
    """As `explain`, for each of these graphs, computed in batches."""
    return explain_given(model, ExplainInput(graphs, len(graphs)), numbers, target)


def explain_given(
    model: GraphClassifier | nn.Module,
    given: ExplainInput,
    numbers: Iterable[int],
    wanted_target: str | None = None,
) -> list[Trace]:
    """The same, with what else is known about the graphs."""
    graphs = given.graphs
    wanted = [operator.index(number) for number in numbers]
    for number in wanted:
        if not 0 <= number < len(graphs):
            raise SagpoolError(f"There is no graph {number}; graphs are 0 to {len(graphs) - 1}.")
    target = target_of(model, graphs, wanted_target)
    if isinstance(model, nn.Module):
        traces = _net_traces(model, graphs, wanted, target)
    else:
        traces = _model_traces(model, given, wanted, target)
    # Fitted graphs have no names for labels that the model does not know, but `graphs` has.
    labels = [_labels(graphs[number]) for number in wanted]
    return [
        given.annotate(replace(trace, node_labels=names))
        for trace, names in zip(traces, labels, strict=True)
    ]


def _model_traces(
    model: GraphClassifier, given: ExplainInput, wanted: list[int], target: Target
) -> list[Trace]:
    """Predictions of the whole model, levels of its best net, reasons of its best simple part."""
    if not wanted:
        return []
    chosen = model.vocabulary.fit(given.graphs[wanted]).graphs
    found = model.predict_proba(given.graphs[wanted])
    outputs = target.outputs(found.probabilities)  # [graphs, classes or targets]
    predicted = found.predicted  # [graphs]
    if target.names:
        predicted = predicted[:, target.place]
    molecules = [given.molecules[number] if given.molecules else None for number in wanted]
    reasons = model.reasons(chosen, target, predicted, molecules)
    net = model.net
    if net is None:
        host = chosen.to("cpu")
        traces = [_trace(host[i], n, outputs[i], (), target) for i, n in enumerate(wanted)]
    else:
        fitted = model.vocabulary.fit(given.graphs).graphs
        traces = _net_traces(model.module(), fitted, wanted, target)
    made = []
    for i, trace in enumerate(traces):
        shown = None
        if net is not None and trace.levels:
            shown = ShownNet(net.name, model.net_weight, net.members, trace.outputs)
        if trace.numbers is None:
            trace = replace(trace, probabilities=outputs[i], predicted=int(predicted[i]))
        else:
            interval = None if found.interval is None else found.interval[i]
            trace = replace(trace, numbers=trace.numbers.with_predictions(outputs[i], interval))
        made.append(
            replace(
                trace,
                net=shown,
                reasons=() if reasons is None else reasons.of_graphs[i],
                reasons_of=None if reasons is None else reasons.source,
                unlike=None if model.novelty is None else bool(found.unlike[i]),
            )
        )
    return made


def _net_traces(
    module: nn.Module, graphs: Graphs, wanted: list[int], target: Target
) -> list[Trace]:
    parts = [wanted[start : start + BATCH_SIZE] for start in range(0, len(wanted), BATCH_SIZE)]
    return [trace for part in parts for trace in _explain_batch(module, graphs, part, target)]


def _explain_batch(
    model: nn.Module, graphs: Graphs, wanted: list[int], target: Target
) -> list[Trace]:
    _check(model, graphs)
    chosen = graphs[wanted].to(next(model.parameters()).device)
    # The graph's number is the random key, so `random-h` keeps the same nodes every time.
    streams = Streams(torch.tensor([wanted[0]], device=chosen.device))
    with evaluation_mode(model), torch.no_grad():
        batch = pack(chosen, [range(len(wanted))])
        output = model(batch, streams)
    if streams.calls and len(wanted) > 1:
        # Random numbers depend on a graph's position in the batch, so each gets its own batch.
        return [_explain_batch(model, graphs, [number], target)[0] for number in wanted]
    raw = output.logits[0].double().cpu().numpy()  # [graphs + 1, outputs]
    if target.names and raw.shape[1] != len(target.names):
        raise SagpoolError(
            f"The model has {raw.shape[1]} targets, but {graphs.name} has {len(target.names)}."
        )
    outputs = target.outputs_of_net(raw)  # [graphs + 1, classes or targets]
    levels = _levels(output, batch)
    host = chosen.to("cpu")
    return [
        _trace(host[position], number, outputs[position], levels[position], target)
        for position, number in enumerate(wanted)
    ]


def _check(model: nn.Module, graphs: Graphs) -> None:
    members = max(len(parameter) for parameter in model.parameters())
    if members > 1:
        raise SagpoolError(f"A fleet of {members} models cannot be explained, only a single model.")
    channels = getattr(model, "in_channels", graphs.num_features)
    if channels != graphs.num_features:
        raise SagpoolError(
            f"The model needs {channels} node features, but {graphs.name} has "
            f"{graphs.num_features}."
        )


def _levels(output: Output, batch: Batch) -> list[tuple[Level, ...]]:
    """The levels of each graph, without the filler graph at the end of the batch."""
    sizes = batch.structure.layout.sizes[0]
    first = np.cumsum(sizes) - sizes  # [graphs + 1]
    levels: list[list[Level]] = [[] for _ in first[:-1]]
    rows = np.arange(sizes.sum())
    for pooled in output.levels:
        sizes = pooled.structure.layout.sizes  # [masks, graphs + 1]
        if len(rows) == batch.structure.layout.rows and len(sizes) > 1:
            rows = np.tile(rows, len(sizes))  # the first pooling with masks repeats the graphs
        rows = rows[pooled.perm.cpu().numpy()]  # [new rows], as rows of the input
        score = None if pooled.score is None else pooled.score.double().cpu().numpy()
        there = np.ones(len(rows), bool)
        if pooled.presence is not None:
            there = pooled.presence.cpu().numpy() > 0
        ends = np.cumsum(sizes).reshape(sizes.shape)
        for graph, of_graph in enumerate(levels):
            masks = []
            for end, size in zip(ends[:, graph], sizes[:, graph], strict=True):
                kept = end - size + np.flatnonzero(there[end - size : end])
                own = None if score is None else score[kept]
                masks.append(Level(rows[kept] - first[graph], own))
            of_graph.append(masks[0] if len(masks) == 1 else Level.of_masks(masks))
    return [tuple(of_graph) for of_graph in levels]


def _trace(
    graph: Graphs, number: int, outputs: np.ndarray, levels: tuple[Level, ...], target: Target
) -> Trace:
    """``graph`` is a collection of one, in host memory."""
    measured = None if graph.targets is None else graph.targets[0].numpy()  # [targets]
    names: tuple[str, ...] = ()
    true_class, numbers = None, None
    if target.task == "regression":
        numbers = PredictedNumbers.of(target.names, outputs, measured, target.place)
    elif target.task == "multitask":
        names = ("0", "1")
        if measured is not None and not np.isnan(measured[target.place]):
            true_class = int(measured[target.place])
    else:
        names = graph.class_names or tuple(str(i) for i in range(len(outputs)))
        true_class = None if graph.y is None else int(graph.y[0])
        if len(names) != len(outputs):
            raise SagpoolError(
                f"The model has {len(outputs)} classes, but {graph.name} has {len(names)}."
            )
    edges, truth = graph.edge_index.T.numpy(), graph.ground_truth
    return Trace(
        name=graph.name,
        number=number,
        num_nodes=graph.num_nodes,
        edges=edges[edges[:, 0] < edges[:, 1]],
        node_labels=(),
        class_names=names,
        true_class=true_class,
        probabilities=outputs if numbers is None else np.zeros(0),
        ground_truth=None if truth is None else np.flatnonzero(truth.numpy()),
        levels=levels,
        target=target.name,
        numbers=numbers,
    )


def _labels(graph: Graphs) -> tuple[str, ...]:
    if graph.node_label is None:
        return ("",) * graph.num_nodes
    names = graph.node_label_names
    return tuple(names[i] if i >= 0 else "" for i in graph.node_label.tolist())
