"""Targets of the records that readers yield; graphs without any are left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.values import shorten
from sagpool.graphs.graphs import Task
from sagpool.graphs.raw_graphs import RawGraphs
from sagpool.graphs.records import Columns, Record
from sagpool.graphs.skipped import Skipped

ONE = "label"  # name of a target that has no name
MAX_TARGET = 3.4e38  # float32 is infinite beyond


class Targets(NamedTuple):
    values: np.ndarray  # [graphs, targets] float32, NaN where not measured
    names: tuple[str, ...]


def check_task(task: str) -> None:
    if task not in get_args(Task):
        known = ", ".join(get_args(Task))
        raise SagpoolError(f"Unknown task '{task}'; choose one of {known}.")


def only_labelled(
    records: Sequence[Record], name: str, columns: Columns, task: Task
) -> list[Record]:
    """The records that have a class or a target; all records if none has any."""
    has = [_has_target(record, columns, task) for record in records]
    if not any(has):
        if columns.need_label:
            raise SagpoolError(f"{name}: no graph has a label to train with.")
        return list(records)
    labelled = []
    what = "class" if task == "classification" else "target"
    with Skipped(name, "graphs") as skipped:
        for record, keep in zip(records, has, strict=True):
            if keep:
                skipped.read += 1
                labelled.append(record)
            else:
                skipped.add(record.place, f"it has no {what}")
    return labelled


def with_targets(
    raw: RawGraphs, records: Sequence[Record], task: Task, names: Sequence[str] = ()
) -> RawGraphs:
    """The graphs with targets in place of classes, unless the task has classes."""
    if task == "classification":
        return raw
    values, names = target_values(records, task, names)
    found = values if names and not np.isnan(values).all() else None
    return replace(raw, y=None, class_names=(), task=task, targets=found, target_names=names)


def target_values(records: Sequence[Record], task: Task, names: Sequence[str] = ()) -> Targets:
    """The targets of records by name; without names, all that occur, in order of appearance."""
    found = [_by_name(record) for record in records]
    names = tuple(names) or tuple(dict.fromkeys(name for targets in found for name in targets))
    values = np.full((len(records), len(names)), np.nan, np.float32)
    for row, (record, targets) in enumerate(zip(records, found, strict=True)):
        for column, name in enumerate(names):
            values[row, column] = number_of(targets.get(name), task, record.place, name)
    return Targets(values, names)


def number_of(value: Any, task: Task, place: str, name: str) -> float:
    """A target as a number, NaN if it is missing; an error that names the place otherwise."""
    if value is None or value == "":
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.inf
    where = f"{place}: the value of '{name}'"
    if math.isnan(number):
        return number
    if task == "multitask" and number not in (0, 1):
        raise SagpoolError(f"{where} must be 0 or 1, or empty, not {shorten(value)}.")
    if abs(number) > MAX_TARGET:
        raise SagpoolError(f"{where} must be a number, or empty, not {shorten(value)}.")
    return number


def renamed(record: Record, names: Sequence[str]) -> Record:
    """The record with its only target renamed to a model's only target."""
    targets = _by_name(record)
    if len(names) != 1 or len(targets) != 1 or names[0] in targets:
        return record
    return replace(record, targets={names[0]: next(iter(targets.values()))})


def refuse_several(records: Sequence[Record], name: str) -> None:
    """Raise an error if graphs have several targets, which cannot be classes."""
    for record in records:
        if record.target is None and record.targets is not None and len(record.targets) > 1:
            listed = ", ".join(map(str, record.targets))[:200]
            raise SagpoolError(
                f"{name} has several labels for a graph ({listed}): choose one of them, or the "
                "task multitask or regression."
            )


def _by_name(record: Record) -> dict[str, Any]:
    if record.targets is not None:
        return dict(record.targets)
    return {} if record.target is None else {ONE: record.target}


def _has_target(record: Record, columns: Columns, task: Task) -> bool:
    if task == "classification":
        return record.target is not None
    targets = _by_name(record)
    names = columns.labels or tuple(targets)
    return any(
        not math.isnan(number_of(targets.get(name), task, record.place, name)) for name in names
    )
