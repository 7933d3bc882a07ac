"""Fidelity: does a model decide by the nodes that it keeps?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from sagpool.explain.effects import Effect, effects
from sagpool.explain.model import GraphClassifier
from sagpool.explain.trace import Trace
from sagpool.graphs import Graphs


@dataclass(frozen=True)
class Probability:
    """Probability of the predicted class, by the net that pools; means over graphs."""

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
    def warning(self) -> str | None:
        """A sentence for readers of the pictures, if the kept part predicts no better."""
        if self.probability is None or self.probability.only_kept > self.probability.only_dropped:
            return None
        return (
            "The kept nodes alone predict no better than the dropped nodes alone, so what is kept "
            "does not explain the predictions of this model."
        )

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
        if self.warning is not None:
            lines.append(self.warning)
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
    return fidelity_of(traces, effects(model, graphs, traces))


def fidelity_of(traces: Sequence[Trace], found: Sequence[Effect | None]) -> Fidelity:
    """The means over traces and their effects."""
    compared = [(t, effect) for t, effect in zip(traces, found, strict=True) if effect is not None]
    probability = kept = None
    if compared:
        probability = Probability(
            whole=float(np.mean([t.net_probabilities[t.prediction] for t, _ in compared])),
            only_kept=float(np.mean([e.only_kept.probability for _, e in compared])),
            only_dropped=float(np.mean([e.only_dropped.probability for _, e in compared])),
        )
        kept = float(np.mean([len(t.levels[-1].kept) / t.num_nodes for t, _ in compared]))
    return Fidelity(
        graphs=len(compared),
        left_out=len(traces) - len(compared),
        kept=kept,
        probability=probability,
        found=_truth_overlaps(traces),
    )


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
