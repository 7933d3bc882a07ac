"""`Explained`: the explanations of many graphs, as files and JSON."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.explain.effects import Effect, PartPrediction, effects
from sagpool.explain.fidelity import Fidelity, fidelity_of
from sagpool.explain.forward import explain_many
from sagpool.explain.inputs import ExplainInput
from sagpool.explain.model import GraphClassifier
from sagpool.explain.trace import Trace
from sagpool.spreadsheet import as_text

MAX_ID = 200  # characters of a name in each row of scores.csv; a SMILES can have thousands


@dataclass(frozen=True, eq=False)
class Explained:
    """Traces of some graphs through one model."""

    method: str
    data: str  # name of the data set
    total: int | None  # number of graphs in the data set, if known
    traces: tuple[Trace, ...]
    effects: tuple[Effect | None, ...]  # one for each trace; None if it lost no nodes
    fidelity: Fidelity
    unseen: Counter[str]  # number of nodes for each node label that the model does not know

    def scores(self) -> str:
        """CSV with one row for each node of the input graphs at each level."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["graph", "id", "level", "node", "label", "score", "kept"])
        for trace in self.traces:
            name = as_text(_short(trace.title or str(trace.number)))
            for number, level in enumerate(trace.levels, 1):
                kept = np.isin(np.arange(trace.num_nodes), level.kept)
                score = [""] * trace.num_nodes
                if level.score is not None:
                    for node, value in zip(level.kept, level.score, strict=True):
                        score[node] = "" if np.isnan(value) else f"{value:.6g}"
                for node, label in enumerate(trace.node_labels):
                    about = (as_text(label), score[node], int(kept[node]))
                    table.writerow((trace.number, name, number, node, *about))
        return text.getvalue()

    def to_json(self) -> dict[str, Any]:
        by_confidence = sorted(
            zip(self.traces, self.effects, strict=True), key=lambda one: -one[0].confidence
        )
        return {
            "method": self.method,
            "data": self.data,
            "graphs": [_graph_to_json(trace, effect) for trace, effect in by_confidence],
            "fidelity": self.fidelity.to_json(),
            "unseen_labels": dict(self.unseen),
        }


def _graph_to_json(trace: Trace, effect: Effect | None) -> dict[str, Any]:
    names = trace.class_names

    def part(given: PartPrediction) -> dict[str, Any]:
        return {"prediction": names[given.prediction], "probability": given.probability}

    return {
        "graph": trace.number,
        "id": trace.title or str(trace.number),
        "class": None if trace.true_class is None else names[trace.true_class],
        "prediction": names[trace.prediction],
        "probability": trace.confidence,
        "kept": [level.kept.tolist() for level in trace.levels],
        "only_kept": None if effect is None else part(effect.only_kept),
        "only_dropped": None if effect is None else part(effect.only_dropped),
    }


def _short(name: str) -> str:
    return name if len(name) <= MAX_ID else f"{name[: MAX_ID - 1]}…"


def explain_input(model: GraphClassifier, given: ExplainInput) -> Explained:
    """Explain all of these graphs."""
    traces = explain_many(model, given.graphs, range(len(given.graphs)))
    if not traces[0].levels:
        raise SagpoolError(f"{model.method} keeps no nodes, so there is nothing to draw.")
    found = effects(model, given.graphs, traces)
    return Explained(
        method=model.method,
        data=given.graphs.name,
        total=given.total,
        traces=tuple(given.annotate(trace) for trace in traces),
        effects=tuple(found),
        fidelity=fidelity_of(traces, found),
        unseen=model.vocabulary.fit(given.graphs).unseen,
    )
