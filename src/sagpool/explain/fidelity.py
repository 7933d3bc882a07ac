"""Fidelity: does a model decide by the nodes that it keeps?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from sagpool.errors import SagpoolError
from sagpool.explain.model import BATCH_SIZE, GraphClassifier, evaluation_mode, module_and_graphs
from sagpool.explain.subgraphs import induced_subgraphs
from sagpool.explain.trace import Trace
from sagpool.fleet.evaluate import predict
from sagpool.graphs import Graphs


@dataclass(frozen=True)
class Probability:
    """Probability of the class predicted for the whole graph; means over graphs."""

    whole: float  # given the whole graph
    only_kept: float  # given the subgraph of the nodes that the last level keeps
    only_dropped: float  # given the subgraph of all other nodes


@dataclass(frozen=True)
class TruthOverlap:
    """Overlap of the nodes a level keeps with those that decide the class; means over graphs."""

    recall: float  # fraction of the true nodes that is kept
    precision: float  # fraction of the kept nodes that is true
    random_recall: float  # expected if as many nodes were drawn at random
    random_precision: float


@dataclass(frozen=True)
class Fidelity:
    """How faithful an explanation by kept nodes is."""

    graphs: int  # number of graphs in the means
    left_out: int  # number of graphs that lost no nodes, so there is nothing to compare
    kept: float | None  # mean fraction of the nodes that the last level keeps
    probability: Probability | None  # None if all graphs were left out
    found: tuple[TruthOverlap, ...]  # one for each level; empty if the true nodes are unknown

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentences(self) -> list[str]:
        """The result in words."""
        lines = []
        if self.probability is not None and self.kept is not None:
            p = self.probability
            lines.append(
                f"The predicted class has a mean probability of {p.whole:.2f}: "
                f"{p.only_kept:.2f} ({_signed(p.only_kept - p.whole)}) given only the kept nodes "
                f"({self.kept:.0%} of all nodes), {p.only_dropped:.2f} "
                f"({_signed(p.only_dropped - p.whole)}) given only the dropped nodes."
            )
        if self.left_out:
            lines.append(
                f"{self.left_out} of {self.left_out + self.graphs} graphs lost no nodes and are "
                "not part of these means."
            )
        for level, overlap in enumerate(self.found, 1):
            lines.append(
                f"Level {level} keeps {overlap.recall:.0%} of the nodes that decide the class "
                f"(as many random nodes: {overlap.random_recall:.0%}). Of the kept nodes, "
                f"{overlap.precision:.0%} decide the class (of all nodes: "
                f"{overlap.random_precision:.0%})."
            )
        return lines


def fidelity(
    model: GraphClassifier | nn.Module, graphs: Graphs, traces: Sequence[Trace]
) -> Fidelity:
    """Classify subgraphs of kept and of dropped nodes, and compare with the whole graphs.

    In a subgraph, nodes have the same features as in the whole graph, including degrees. The
    numbers of the traces refer to ``graphs``.
    """
    if not traces or not all(trace.levels for trace in traces):
        raise SagpoolError("Fidelity needs traces of a model that keeps nodes.")
    compared = [trace for trace in traces if len(trace.levels[-1].kept) < trace.num_nodes]
    probability = kept = None
    if compared:
        module, chosen = module_and_graphs(model, graphs)
        probability = _probability(module, chosen[[t.number for t in compared]], compared)
        kept = float(np.mean([len(t.levels[-1].kept) / t.num_nodes for t in compared]))
    return Fidelity(
        graphs=len(compared),
        left_out=len(traces) - len(compared),
        kept=kept,
        probability=probability,
        found=_truth_overlaps(traces),
    )


def _probability(module: nn.Module, graphs: Graphs, traces: Sequence[Trace]) -> Probability:
    device = next(module.parameters()).device
    host = graphs.to("cpu")
    keep = np.zeros(host.num_nodes, bool)
    for first, trace in zip(host.node_ptr, traces, strict=False):
        keep[first + trace.levels[-1].kept] = True
    classes = [trace.prediction for trace in traces]
    keys = torch.zeros(1, dtype=torch.int64, device=device)
    means = []
    for part in (keep, ~keep):
        subgraphs = induced_subgraphs(host, part).to(device)
        with evaluation_mode(module):
            logs = predict(module, subgraphs, 1, keys, BATCH_SIZE)[0]  # [graphs, classes]
        means.append(float(np.exp(logs[np.arange(len(classes)), classes]).mean()))
    whole = float(np.mean([trace.confidence for trace in traces]))
    return Probability(whole, *means)


def _truth_overlaps(traces: Sequence[Trace]) -> tuple[TruthOverlap, ...]:
    """One for each level, over the graphs whose true nodes are known."""
    known = [
        (trace, trace.ground_truth)
        for trace in traces
        if trace.ground_truth is not None and len(trace.ground_truth)
    ]
    overlaps = []
    for level in range(len(known[0][0].levels) if known else 0):
        rows = []
        for trace, truth in known:
            kept = trace.levels[level].kept
            both = len(np.intersect1d(kept, truth))
            recall, precision = both / len(truth), both / len(kept)
            rows.append(
                (recall, precision, len(kept) / trace.num_nodes, len(truth) / trace.num_nodes)
            )
        overlaps.append(TruthOverlap(*np.mean(rows, axis=0).tolist()))
    return tuple(overlaps)


def _signed(change: float) -> str:
    return f"{change:+.2f}".replace("-", "−")
