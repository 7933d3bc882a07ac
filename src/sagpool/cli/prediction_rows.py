"""Predictions as rows of a table or as JSON, one for each graph."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from sagpool.classifier.model import Predictions, TrainedModel
from sagpool.classifier.predict import PredictedChunk
from sagpool.spreadsheet import as_text

BETWEEN = "|"  # separates the classes of a prediction set


def csv_rows(model: TrainedModel, chunks: Iterable[PredictedChunk]) -> Iterator[str]:
    """The table, header first, chunk by chunk."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    header_written = False
    for chunk in chunks:
        columns = table(model, chunk.found)
        if not header_written:
            rows.writerow(["id", *(as_text(title) for title in columns)])
            header_written = True
        names = map(as_text, chunk.names)
        rows.writerows(zip(names, *columns.values(), strict=True))
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def table(model: TrainedModel, found: Predictions) -> dict[str, Sequence[Any]]:
    """The columns by title, with one entry for each graph.

    Outputs that models of older formats lack (sets, graphs unlike the training data) have no
    column.
    """
    outputs, names = found.probabilities, model.output_names
    columns: dict[str, Sequence[Any]] = {}
    if model.task == "classification":
        columns["class"] = [as_text(names[best]) for best in found.predicted.tolist()]
        for name, column in zip(names, outputs.T, strict=True):
            columns[f"p_{name}"] = _numbers(column)
        if found.sets is not None:
            columns["set"] = [as_text(BETWEEN.join(_chosen(names, row))) for row in found.sets]
    else:
        for place, name in enumerate(names):
            columns.update(_target(model, found, place, name))
    if model.novelty is not None:
        columns["unlike_training_data"] = ["yes" if one else "" for one in found.unlike.tolist()]
    columns["unknown_nodes"] = [str(count or "") for count in found.unseen_nodes.tolist()]
    return columns


def _target(
    model: TrainedModel, found: Predictions, place: int, name: str
) -> dict[str, Sequence[Any]]:
    """The columns of one task."""
    values = found.probabilities[:, place]
    if model.task == "regression":
        columns: dict[str, Sequence[Any]] = {name: _numbers(values)}
        if found.interval is not None:
            for end, title in enumerate(("low", "high")):
                columns[f"{title}_{name}"] = _numbers(found.interval[:, place, end])
        return columns
    columns = {name: found.predicted[:, place].tolist(), f"p_{name}": _numbers(values)}
    if found.sets is not None:
        columns[f"set_{name}"] = [
            BETWEEN.join(_chosen(("0", "1"), row)) for row in found.sets[:, place]
        ]
    return columns


def json_lines(model: TrainedModel, chunks: Iterable[PredictedChunk]) -> Iterator[str]:
    """One JSON object for each graph, chunk by chunk."""
    for chunk in chunks:
        lines = []
        for row, name in enumerate(chunk.names):
            record = {"id": name, **_record(model, chunk.found, row)}
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
        yield "".join(lines)


def _record(model: TrainedModel, found: Predictions, row: int) -> dict[str, Any]:
    names, outputs = model.output_names, found.probabilities[row]
    record: dict[str, Any] = {}
    if model.task == "classification":
        record["class"] = names[int(found.predicted[row])]
        record["probabilities"] = {
            one: _number(p) for one, p in zip(names, outputs.tolist(), strict=True)
        }
        if found.sets is not None:
            record["set"] = _chosen(names, found.sets[row])
    else:
        record["targets"] = {
            name: _json_target(model, found, row, place) for place, name in enumerate(names)
        }
    if model.novelty is not None:
        record["unlike_training_data"] = bool(found.unlike[row])
    if found.unseen_nodes[row]:
        record["unknown_nodes"] = int(found.unseen_nodes[row])
    return record


def _json_target(model: TrainedModel, found: Predictions, row: int, place: int) -> dict[str, Any]:
    value = _number(float(found.probabilities[row, place]))
    if model.task == "regression":
        target: dict[str, Any] = {"value": value}
        if found.interval is not None:
            target["interval"] = [_number(float(end)) for end in found.interval[row, place]]
        return target
    target = {"prediction": int(found.predicted[row, place]), "probability": value}
    if found.sets is not None:
        target["set"] = [int(one) for one in _chosen(("0", "1"), found.sets[row, place])]
    return target


def _chosen(names: Sequence[str], inside: np.ndarray) -> list[str]:
    return [name for name, one in zip(names, inside.tolist(), strict=True) if one]


def _numbers(column: np.ndarray) -> list[str]:
    return [f"{value:.6g}" if np.isfinite(value) else "" for value in column.tolist()]


def _number(value: float) -> float | None:
    """The number with six digits; None for an infinite end of an interval."""
    return float(f"{value:.6g}") if np.isfinite(value) else None
