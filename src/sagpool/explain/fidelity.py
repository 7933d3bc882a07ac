"""Fidelity: does a model decide by the nodes that it keeps?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from sagpool.explain.effects import Effect, PartNumber, PartPrediction, effects
from sagpool.explain.model import GraphClassifier
from sagpool.explain.numbers import number_text
from sagpool.explain.trace import Trace
from sagpool.graphs import Graphs


@dataclass(frozen=True)
class Probability:
    """Probability of the predicted class, by the net that pools; means over graphs."""

    whole: float  # given the whole graph
    only_kept: float  # given the subgraph of the nodes that the last level keeps
    only_dropped: float  # given the subgraph of all other nodes


@dataclass(frozen=True)
class Difference:
    """From the number that the net predicts for the whole graph; means of absolute values."""

    target: str
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
    probability: Probability | None  # of classes; None if all graphs were left out
    difference: Difference | None  # of a regression; None if all graphs were left out
    found: tuple[TruthOverlap, ...]  # one for each level; empty if the true nodes are unknown

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def warning(self) -> str | None:
        """A sentence for readers of the pictures, if the kept part predicts no better."""
        if self.probability is None and self.difference is None:
            return None
        if self.probability and self.probability.only_kept > self.probability.only_dropped:
            return None
        # A number is judged like a class, on average over the graphs: the prediction given only the
        # kept nodes has to be closer to that for the whole graph than given only the dropped ones.
        # Fewer kept nodes are no excuse: a picture of few nodes claims that these few decide.
        if self.difference and self.difference.only_kept < self.difference.only_dropped:
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
        if self.difference is not None and self.kept is not None:
            d = self.difference
            lines.append(
                f"Given only the kept nodes ({self.kept:.0%} of all nodes), the predicted "
                f"{d.target} differs from that for the whole graph by {number_text(d.only_kept)} "
                f"on average (mean absolute difference), given only the dropped nodes by "
                f"{number_text(d.only_dropped)}."
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
    """Predict subgraphs of kept and of dropped nodes, and compare with the whole graphs.

    In a subgraph, nodes have the same features as in the whole graph, including degrees. The
    numbers of the traces refer to ``graphs``.
    """
    return fidelity_of(traces, effects(model, graphs, traces))


def fidelity_of(traces: Sequence[Trace], found: Sequence[Effect | None]) -> Fidelity:
    """The means over traces and their effects."""
    compared = [(t, effect) for t, effect in zip(traces, found, strict=True) if effect is not None]
    probability = difference = kept = None
    if compared:
        only_kept, only_dropped = (
            float(np.mean([_measure(part) for part in parts]))
            for parts in zip(*((e.only_kept, e.only_dropped) for _, e in compared), strict=True)
        )
        target = compared[0][0].target
        if target is None or compared[0][0].numbers is None:
            whole = float(np.mean([trace.net_output for trace, _ in compared]))
            probability = Probability(whole, only_kept, only_dropped)
        else:
            difference = Difference(target, only_kept, only_dropped)
        kept = float(np.mean([len(t.levels[-1].kept) / t.num_nodes for t, _ in compared]))
    return Fidelity(
        graphs=len(compared),
        left_out=len(traces) - len(compared),
        kept=kept,
        probability=probability,
        difference=difference,
        found=_truth_overlaps(traces),
    )


def _measure(part: PartPrediction | PartNumber) -> float:
    return part.probability if isinstance(part, PartPrediction) else abs(part.difference)


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
