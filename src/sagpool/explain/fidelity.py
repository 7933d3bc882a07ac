"""Whether the nodes that a model keeps are those that it decides by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from sagpool.classifier.model import BATCH, TrainedModel
from sagpool.errors import SagpoolError
from sagpool.explain.forward import evaluating, fitted
from sagpool.explain.subgraphs import induced
from sagpool.explain.trace import Trace
from sagpool.fleet.evaluate import predict
from sagpool.graphs import Graphs


@dataclass(frozen=True)
class Probability:
    """What the model gives to the class that it predicts for a whole graph; means over graphs."""

    whole: float
    only_kept: float  # with the nodes alone that the last level keeps, and the edges among them
    only_dropped: float  # with all the others, and the edges among them


@dataclass(frozen=True)
class Found:
    """The nodes that decide the class, among those that a level keeps; means over graphs."""

    recall: float  # share of the true nodes that is kept
    precision: float  # share of the kept nodes that is true
    random_recall: float  # what is expected of as many nodes drawn at random
    random_precision: float


@dataclass(frozen=True)
class Fidelity:
    """How faithful an explanation by kept nodes is.

    Args:
        graphs: over which the probabilities are averaged
        left_out: graphs of which nothing was dropped: there is nothing to compare
        kept: mean share of the nodes that the last level keeps, over the same graphs
        probability: None if all graphs were left out
        found: one for each level, over all graphs; empty where the true nodes are not known
    """

    graphs: int
    left_out: int
    kept: float | None
    probability: Probability | None
    found: tuple[Found, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentences(self) -> list[str]:
        """What it says, for a person."""
        told = []
        if self.probability is not None and self.kept is not None:
            p = self.probability
            told.append(
                f"The class that the model predicts has a probability of {p.whole:.2f} on average: "
                f"{p.only_kept:.2f} ({_signed(p.only_kept - p.whole)}) with the kept nodes alone, "
                f"{p.only_dropped:.2f} ({_signed(p.only_dropped - p.whole)}) with the dropped ones "
                f"alone. Kept are {self.kept:.0%} of the nodes."
            )
        if self.left_out:
            told.append(
                f"Left out of these means, since nothing was dropped: {self.left_out} of "
                f"{self.left_out + self.graphs} graphs."
            )
        for level, found in enumerate(self.found, 1):
            told.append(
                f"Level {level} keeps {found.recall:.0%} of the nodes that decide the class; as "
                f"many nodes at random would be expected to hold {found.random_recall:.0%}. Of the "
                f"kept nodes {found.precision:.0%} decide it, of all nodes "
                f"{found.random_precision:.0%}."
            )
        return told


def fidelity(model: TrainedModel | nn.Module, graphs: Graphs, traces: Sequence[Trace]) -> Fidelity:
    """Give the model parts of graphs, and see what it makes of them.

    Nodes have in a part the features that they have in the whole, degrees too.

    Args:
        model: that made the traces
        graphs: in which a trace's graph has the trace's number
        traces: with levels
    """
    if not traces or not all(trace.levels for trace in traces):
        raise SagpoolError("Fidelity needs traces of a model that keeps nodes.")
    compared = [trace for trace in traces if len(trace.levels[-1].kept) < trace.num_nodes]
    probability = kept = None
    if compared:
        module, chosen = fitted(model, graphs)
        probability = _probability(module, chosen[[t.number for t in compared]], compared)
        kept = float(np.mean([len(t.levels[-1].kept) / t.num_nodes for t in compared]))
    return Fidelity(
        graphs=len(compared),
        left_out=len(traces) - len(compared),
        kept=kept,
        probability=probability,
        found=_found(traces),
    )


def _probability(module: nn.Module, graphs: Graphs, traces: Sequence[Trace]) -> Probability:
    device = next(module.parameters()).device
    host = graphs.to("cpu")
    keep = np.zeros(host.num_nodes, bool)
    for first, trace in zip(host.node_ptr, traces, strict=False):
        keep[first + trace.levels[-1].kept] = True
    classes = [trace.prediction for trace in traces]
    means = []
    for part in (keep, ~keep):
        keys = torch.zeros(1, dtype=torch.int64, device=device)
        with evaluating(module):
            log_share = predict(module, induced(host, part).to(device), 1, keys, BATCH)[0]
        means.append(float(np.exp(log_share[np.arange(len(classes)), classes]).mean()))
    whole = float(np.mean([trace.confidence for trace in traces]))
    return Probability(whole, *means)


def _found(traces: Sequence[Trace]) -> tuple[Found, ...]:
    known = [
        trace for trace in traces if trace.ground_truth is not None and len(trace.ground_truth)
    ]
    if not known:
        return ()
    return tuple(_found_at(level, known) for level in range(len(known[0].levels)))


def _found_at(level: int, traces: Sequence[Trace]) -> Found:
    rows = []
    for trace in traces:
        kept, truth = trace.levels[level].kept, trace.ground_truth
        assert truth is not None
        both = len(np.intersect1d(kept, truth))
        rows.append(
            (
                both / len(truth), both / len(kept), len(kept) / trace.num_nodes,
                len(truth) / trace.num_nodes,
            )
        )  # fmt: skip
    return Found(*(float(mean) for mean in np.mean(rows, axis=0)))


def _signed(change: float) -> str:
    return f"{change:+.2f}".replace("-", "−")
