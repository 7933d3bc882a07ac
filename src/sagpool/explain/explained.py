"""`Explained`: the explanations of many graphs, as files and JSON."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.explain.effects import Effect, PartNumber, PartPrediction, effects
from sagpool.explain.fidelity import Fidelity, fidelity_of
from sagpool.explain.forward import explain_given
from sagpool.explain.inputs import ExplainInput
from sagpool.explain.model import GraphClassifier, target_of
from sagpool.explain.target import Target
from sagpool.explain.trace import UNLIKE, Trace
from sagpool.spreadsheet import as_text

UNLIKE_COLUMN = "unlike_training_data"  # as in predictions
MAX_ID = 200  # characters of a name in each row of scores.csv; a SMILES can have thousands


@dataclass(frozen=True, eq=False)
class Explained:
    """Traces of some graphs through one model."""

    method: str  # the parts of the model
    data: str  # name of the data set
    target: Target  # what is explained
    total: int | None  # number of graphs in the data set, if known
    traces: tuple[Trace, ...]
    effects: tuple[Effect | None, ...]  # one for each trace; None if it lost no nodes
    fidelity: Fidelity | None  # of the net whose levels are shown; None without levels
    unseen: Counter[str]  # number of nodes for each node label that the model does not know

    @property
    def has_levels(self) -> bool:
        return bool(self.traces[0].levels)  # every trace has as many

    @property
    def has_reasons(self) -> bool:
        return any(trace.reasons for trace in self.traces)

    @property
    def flags_unlike(self) -> bool:
        """Whether the model can tell which graphs are unlike the training data."""
        return self.traces[0].unlike is not None

    @property
    def unlike_warning(self) -> str | None:
        """How many graphs are unlike the training data; None if there are none."""
        unlike = sum(bool(trace.unlike) for trace in self.traces)
        if not unlike:
            return None
        return (
            f"{unlike} of {len(self.traces)} graphs are {UNLIKE}: do not rely on what is "
            "predicted and explained for them."
        )

    @property
    def sentences(self) -> list[str]:
        """How far to trust the pictures, and which parts of the model they are about."""
        first = self.traces[0]
        about = [self.target.sentence]
        about += [] if first.net is None else [first.net.sentence]
        about += [] if first.reasons_of is None else [first.reasons_of.sentence]
        found = [] if self.fidelity is None else self.fidelity.sentences
        return [sentence for sentence in about if sentence is not None] + found

    def reasons(self) -> str:
        """CSV with one row for each reason; nodes are separated by spaces."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        columns = ["graph", "id", "rank", "reason", "value", "amount", "nodes"]
        table.writerow([*columns, *self._unlike_column])
        for trace in self.traces:
            name, unlike = as_text(_short(trace.title or str(trace.number))), _unlike_cell(trace)
            for rank, reason in enumerate(trace.reasons, 1):
                numbers = (f"{reason.value:.6g}", f"{reason.amount:.6g}")
                nodes = " ".join(map(str, reason.nodes))
                about = (as_text(_short(reason.name)), *numbers, nodes)
                table.writerow((trace.number, name, rank, *about, *unlike))
        return text.getvalue()

    def scores(self) -> str:
        """CSV with one row for each node of the input graphs at each level."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        columns = ["graph", "id", "level", "node", "label", "score", "kept"]
        table.writerow([*columns, *self._unlike_column])
        for trace in self.traces:
            name, unlike = as_text(_short(trace.title or str(trace.number))), _unlike_cell(trace)
            for number, level in enumerate(trace.levels, 1):
                kept = np.isin(np.arange(trace.num_nodes), level.kept)
                score = [""] * trace.num_nodes
                if level.score is not None:
                    for node, value in zip(level.kept, level.score, strict=True):
                        score[node] = "" if np.isnan(value) else f"{value:.6g}"
                for node, label in enumerate(trace.node_labels):
                    about = (as_text(label), score[node], int(kept[node]))
                    table.writerow((trace.number, name, number, node, *about, *unlike))
        return text.getvalue()

    @property
    def _unlike_column(self) -> list[str]:
        """The last column of both tables; none if the model cannot tell."""
        return [UNLIKE_COLUMN] if self.flags_unlike else []

    def to_json(self) -> dict[str, Any]:
        pairs = sorted(zip(self.traces, self.effects, strict=True), key=lambda one: _first(one[0]))
        first = self.traces[0]
        net, source = first.net, first.reasons_of
        return {
            "method": self.method,
            "data": self.data,
            "target": self.target.name,
            "net": None if net is None else {"name": net.name, "weight": net.weight},
            "reasons_of": None if source is None else asdict(source),
            "graphs": [_graph_to_json(trace, effect) for trace, effect in pairs],
            "fidelity": None if self.fidelity is None else self.fidelity.to_json(),
            "unseen_labels": dict(self.unseen),
        }


def _first(trace: Trace) -> float:
    """The most confident predictions, or the highest numbers, come first."""
    return -(trace.confidence if trace.numbers is None else trace.numbers.value)


def _graph_to_json(trace: Trace, effect: Effect | None) -> dict[str, Any]:
    names = trace.class_names

    def part(given: PartPrediction | PartNumber) -> dict[str, Any]:
        if isinstance(given, PartNumber):
            return asdict(given)
        return {"prediction": names[given.prediction], "probability": given.probability}

    predicted: dict[str, Any]
    if trace.numbers is not None:
        predicted = {"targets": trace.numbers.by_name()}
    else:
        predicted = {
            "class": None if trace.true_class is None else names[trace.true_class],
            "prediction": names[trace.prediction],
            "probability": trace.confidence,
        }
    return {
        "graph": trace.number,
        "id": trace.title or str(trace.number),
        **predicted,
        **({} if trace.unlike is None else {UNLIKE_COLUMN: trace.unlike}),
        "kept": [level.kept.tolist() for level in trace.levels],
        **(
            {"kept_by_mask": [[m.kept.tolist() for m in level.masks] for level in trace.levels]}
            if any(level.masks for level in trace.levels)
            else {}
        ),
        "only_kept": None if effect is None else part(effect.only_kept),
        "only_dropped": None if effect is None else part(effect.only_dropped),
        "reasons": [asdict(reason) for reason in trace.reasons],
    }


def _unlike_cell(trace: Trace) -> list[str]:
    return [] if trace.unlike is None else ["yes" if trace.unlike else ""]


def _short(name: str) -> str:
    return name if len(name) <= MAX_ID else f"{name[: MAX_ID - 1]}…"


def is_explained(trace: Trace) -> bool:
    """Whether there is anything to draw: kept nodes, or the reasons of a simple model."""
    return bool(trace.levels) or trace.reasons_of is not None


def explain_input(
    model: GraphClassifier, given: ExplainInput, target: str | None = None
) -> Explained:
    """Explain all of these graphs, for the target of this name or else the first."""
    traces = explain_given(model, given, range(len(given.graphs)), target)
    if not is_explained(traces[0]):
        raise SagpoolError(f"{model.name} keeps no nodes, so there is nothing to draw.")
    found: list[Effect | None] = [None] * len(traces)
    faithful = None
    if traces[0].levels:
        found = effects(model, given.graphs, traces)
        faithful = fidelity_of(traces, found)
    return Explained(
        method=model.name,
        data=given.graphs.name,
        target=target_of(model, given.graphs, target),
        total=given.total,
        traces=tuple(traces),
        effects=tuple(found),
        fidelity=faithful,
        unseen=model.vocabulary.fit(given.graphs).unseen,
    )
