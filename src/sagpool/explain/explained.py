"""Many graphs, explained: what the command shows and writes."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from sagpool.classifier.model import TrainedModel
from sagpool.errors import SagpoolError
from sagpool.explain.fidelity import Fidelity, fidelity
from sagpool.explain.forward import explain_many
from sagpool.explain.inputs import Given
from sagpool.explain.trace import Trace

LONGEST_NAME = 60  # of a file


@dataclass(frozen=True, eq=False)
class Explained:
    """What a model did with some graphs.

    Args:
        method: of the model
        data: name of the graphs
        total: how many graphs there were to choose from, if that is known
        traces: in the order of the graphs
        fidelity: of all of them
        unseen: node labels that the model does not know, and how many nodes have them
    """

    method: str
    data: str
    total: int | None
    traces: tuple[Trace, ...]
    fidelity: Fidelity
    unseen: Counter[str]

    @property
    def by_confidence(self) -> list[Trace]:
        """The surest prediction first."""
        return sorted(self.traces, key=lambda trace: -trace.confidence)

    def file_name(self, trace: Trace) -> str:
        """For a picture: the number of the graph and its name, in letters that any system takes."""
        digits = len(str(len(self.traces) - 1))
        title = re.sub(r"[^A-Za-z0-9._-]+", "-", trace.title or "").strip("-.")
        number = f"{trace.number:0{digits}}"
        return f"{number}-{title}"[:LONGEST_NAME].rstrip("-.")

    def scores(self) -> str:
        """CSV: each node at each level, by its number in the input graph."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["graph", "id", "level", "node", "label", "score", "kept"])
        for trace in self.traces:
            for number, level in enumerate(trace.levels, 1):
                score = np.full(trace.num_nodes, np.nan)
                if level.score is not None:
                    score[level.kept] = level.score
                kept = np.isin(np.arange(trace.num_nodes), level.kept)
                for node, label in enumerate(trace.node_labels):
                    told = "" if np.isnan(score[node]) else f"{score[node]:.6g}"
                    name = trace.title or trace.number
                    row = (trace.number, name, number, node, label, told, int(kept[node]))
                    table.writerow(row)
        return text.getvalue()

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "data": self.data,
            "graphs": [
                {
                    "graph": trace.number,
                    "id": trace.title or str(trace.number),
                    "class": None
                    if trace.true_class is None
                    else trace.class_names[trace.true_class],
                    "prediction": trace.class_names[trace.prediction],
                    "probability": trace.confidence,
                    "kept": [level.kept.tolist() for level in trace.levels],
                    "picture": f"pictures/{self.file_name(trace)}.png",
                }
                for trace in self.by_confidence
            ],
            "fidelity": self.fidelity.to_json(),
            "unseen_labels": dict(self.unseen),
        }


def explain_given(model: TrainedModel, given: Given) -> Explained:
    """Explain all of these graphs."""
    fitted = model.vocabulary.fit(given.graphs)
    traces = explain_many(model, given.graphs, range(len(given.graphs)))
    if not traces[0].levels:
        raise SagpoolError(f"{model.method} keeps no nodes, so there is nothing to draw.")
    return Explained(
        method=model.method,
        data=given.graphs.name,
        total=given.total,
        traces=tuple(given.named(trace) for trace in traces),
        fidelity=fidelity(model, given.graphs, traces),
        unseen=fitted.unseen,
    )
