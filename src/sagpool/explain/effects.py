"""What a model predicts given only the nodes that it keeps, or only those that it drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from sagpool.errors import SagpoolError
from sagpool.explain.model import (
    BATCH_SIZE,
    GraphClassifier,
    evaluation_mode,
    module_and_graphs,
    target_of,
)
from sagpool.explain.subgraphs import induced_subgraphs
from sagpool.explain.target import Target
from sagpool.explain.trace import Trace
from sagpool.fleet.evaluate import predict
from sagpool.graphs import Graphs


@dataclass(frozen=True)
class PartPrediction:
    """The prediction given only some nodes of a graph, with the edges among them."""

    prediction: int  # class
    probability: float  # of the class predicted for the whole graph


@dataclass(frozen=True)
class PartNumber:
    """The number that is predicted given only some nodes of a graph."""

    value: float
    difference: float  # from the number for the whole graph


@dataclass(frozen=True)
class Effect:
    """The predictions for one graph given only its kept nodes, and given only the others."""

    only_kept: PartPrediction | PartNumber
    only_dropped: PartPrediction | PartNumber


def effects(
    model: GraphClassifier | nn.Module, graphs: Graphs, traces: Sequence[Trace]
) -> list[Effect | None]:
    """Predict subgraphs of kept and of dropped nodes; None for a graph that lost no nodes.

    In a model with several parts, the net whose levels the traces show makes the predictions.

    In a subgraph, nodes have the same features as in the whole graph, including degrees. The
    numbers of the traces refer to ``graphs``.
    """
    if not traces or not all(trace.levels for trace in traces):
        raise SagpoolError("Fidelity needs traces of a model that keeps nodes.")
    if len({trace.target for trace in traces}) > 1:
        raise SagpoolError("Fidelity needs traces of one target.")
    target = target_of(model, graphs, traces[0].target)
    found: list[Effect | None] = [None] * len(traces)
    lossy = [i for i, t in enumerate(traces) if len(t.levels[-1].kept) < t.num_nodes]
    if lossy:
        compared = [traces[i] for i in lossy]
        module, chosen = module_and_graphs(model, graphs)
        parts = _predict_parts(module, chosen[[t.number for t in compared]], compared, target)
        for i, kept, dropped in zip(lossy, *parts, strict=True):
            found[i] = Effect(kept, dropped)
    return found


def _predict_parts(
    module: nn.Module, graphs: Graphs, traces: Sequence[Trace], target: Target
) -> tuple[list[PartPrediction | PartNumber], list[PartPrediction | PartNumber]]:
    """Given the kept nodes of each graph, and given the dropped ones."""
    device = next(module.parameters()).device
    host = graphs.to("cpu")
    keep = np.zeros(host.num_nodes, bool)
    for first, trace in zip(host.node_ptr, traces, strict=False):
        keep[first + trace.levels[-1].kept] = True
    keys = torch.zeros(1, dtype=torch.int64, device=device)

    def given(part: np.ndarray) -> list[PartPrediction | PartNumber]:
        subgraphs = induced_subgraphs(host, part).to(device)
        with evaluation_mode(module):
            raw = predict(module, subgraphs, 1, keys, BATCH_SIZE, target.task)[0]
        outputs = target.outputs_of_net(raw)  # [graphs, classes or targets]
        return [_given(one, trace) for one, trace in zip(outputs, traces, strict=True)]

    return given(keep), given(~keep)


def _given(outputs: np.ndarray, trace: Trace) -> PartPrediction | PartNumber:
    """From ``[classes or targets]``, and the prediction for the whole graph."""
    if trace.numbers is None:
        return PartPrediction(int(outputs.argmax()), float(outputs[trace.prediction]))
    value = float(outputs[trace.numbers.place])
    return PartNumber(value, value - trace.net_output)
