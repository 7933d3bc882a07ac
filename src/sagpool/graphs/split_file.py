"""Splits in files: a CSV that says for each graph to which part it belongs."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.foreign.paths import user_path
from sagpool.foreign.values import shorten
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.splits import TEST, TRAIN, VALIDATION, fixed_split

NUMBER, ID, PART = "graph", "id", "part"  # columns
MOST_PARTS = 50  # more parts mean that a wrong column was named


def with_split(graphs: Graphs, file: str | Path) -> Graphs:
    """The graphs with the split of a file, for ``split="fixed"``.

    The file is a CSV with two columns: ``graph``, the number of a graph, counted from 0, or ``id``,
    its name in the data; and ``part``: ``train``, ``validation``, or the name of a test. Each graph
    has one row. There may be several tests; *the* test is the one named ``test``, or if there is
    none, the first one in the file.
    """
    path = user_path(file)
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            part, names = _read(lines, graphs, path)
    except OSError as error:
        raise SagpoolError(f"The split {path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise SagpoolError(f"The split {path} cannot be read: it is not UTF-8 text.") from None
    missing = np.flatnonzero(part < 0)
    if len(missing):
        raise SagpoolError(
            f"{path} has no row for {len(missing)} of the {len(graphs)} graphs of {graphs.name}; "
            f"the first is graph {_name(graphs, int(missing[0]))}."
        )
    try:
        fixed_split(part, names)
    except SagpoolError as error:
        raise SagpoolError(f"{path}: {error}") from None
    part, names = _main_test_first(part, names)
    return replace(graphs, part=torch.from_numpy(part).to(graphs.device), part_names=names)


def _main_test_first(
    part: np.ndarray, names: tuple[str, ...]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The parts with ``test``, if there is one, before the other tests.

    The order of the names is part of the fingerprint, so trainings of the same key have the same
    main test. Other parts stay where they are, so that files without ``test`` keep their keys.
    """
    tests = [name for name in names if name not in (TRAIN, VALIDATION)]
    if TEST not in tests or tests[0] == TEST:
        return part, names
    order = [name for name in names if name != TEST]
    order.insert(order.index(tests[0]), TEST)
    return np.array([order.index(name) for name in names])[part], tuple(order)


def _read(lines: TextIO, graphs: Graphs, path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """``[graphs]`` number of each graph's part, -1 for none; and the names of the parts."""
    rows = csv_rows(lines, path)
    place, head = next(rows, (f"{path}", []))
    if sorted(head) not in ([NUMBER, PART], [ID, PART]):
        raise SagpoolError(
            f"{place} must name the columns {NUMBER} (or {ID}) and {PART}, not "
            f"{shorten(','.join(head))}."
        )
    key = NUMBER if NUMBER in head else ID
    known = _known_ids(graphs, path) if key == ID else None
    part, names = np.full(len(graphs), -1, np.int64), dict[str, int]()
    for place, cells in rows:
        if len(cells) != len(head):
            raise SagpoolError(f"{place} has {len(cells)} columns, not {len(head)}.")
        row = dict(zip(head, cells, strict=True))
        number = graph_number(row[key], graphs, place) if known is None else known.get(row[key], -1)
        if number < 0:
            raise SagpoolError(f"{place}: {graphs.name} has no graph {shorten(row[key])}.")
        if part[number] >= 0:
            raise SagpoolError(f"{place}: graph {shorten(row[key])} has a row already.")
        if not row[PART]:
            raise SagpoolError(f"{place} names no part.")
        part[number] = names.setdefault(row[PART], len(names))
        if len(names) > MOST_PARTS:
            raise SagpoolError(f"{path} has more than {MOST_PARTS} different parts.")
    return part, tuple(names)


def csv_rows(lines: TextIO, path: Path) -> Iterator[tuple[str, list[str]]]:
    """The place and the cells of each row that is not empty."""
    table = csv.reader(lines, strict=True)
    try:
        for cells in table:
            if any(cells):
                yield f"{path}, line {table.line_num}", [cell.strip() for cell in cells]
    except csv.Error as error:
        raise SagpoolError(f"{path}, line {table.line_num}: {error}.") from None


def graph_number(text: str, graphs: Graphs, place: str) -> int:
    """The number of a graph; -1 if there is none with it."""
    if not (text.isascii() and text.isdigit()):
        raise SagpoolError(f"{place}: {shorten(text)} is not the number of a graph.")
    return int(text) if len(text) < 19 and int(text) < len(graphs) else -1


def _known_ids(graphs: Graphs, path: Path) -> dict[str, int]:
    if graphs.ids is None:
        raise SagpoolError(
            f"{path} names graphs by their {ID}, and those of {graphs.name} have none; use the "
            f"column {NUMBER}, counted from 0."
        )
    known = {str(name): number for number, name in enumerate(graphs.ids)}
    if len(known) < len(graphs):
        raise SagpoolError(
            f"{graphs.name} has graphs with the same {ID}; use the column {NUMBER}, counted from 0."
        )
    return known


def _name(graphs: Graphs, number: int) -> str:
    return str(number) if graphs.ids is None else f"{number} ({shorten(str(graphs.ids[number]))})"
