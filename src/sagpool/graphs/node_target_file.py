"""Targets of node scores, from a CSV file with a number for each node."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.foreign.paths import user_path
from sagpool.foreign.values import shorten
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.split_file import csv_rows, graph_number

COLUMNS = ["graph", "node", "target"]


def with_node_targets(graphs: Graphs, file: str | Path) -> Graphs:
    """The graphs with the node targets of a file, for methods with ``supervision``.

    The file is a CSV with three columns: ``graph`` and ``node``, the numbers of a graph and of a
    node in it, both counted from 0, and ``target``, how relevant that node is for the class, at
    least 0. Nodes without a row have the target 0. Targets are relative to the other nodes of the
    graph; a graph without targets does not contribute to the loss of the scores.
    """
    path = user_path(file)
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            target = _read(lines, graphs, path)
    except OSError as error:
        raise SagpoolError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise SagpoolError(f"{path} cannot be read: it is not UTF-8 text.") from None
    if np.isnan(target).all():
        raise SagpoolError(f"{path} has no row.")
    found = torch.from_numpy(np.nan_to_num(target).astype(np.float32))
    return replace(graphs, node_target=found.to(graphs.device))


def _read(lines: TextIO, graphs: Graphs, path: Path) -> np.ndarray:
    """``[nodes]`` targets, NaN for nodes without a row."""
    rows = csv_rows(lines, path)
    place, head = next(rows, (f"{path}", []))
    if head != COLUMNS:
        raise SagpoolError(
            f"{place} must name the columns {','.join(COLUMNS)}, not {shorten(','.join(head))}."
        )
    target = np.full(graphs.num_nodes, np.nan)
    for place, cells in rows:
        if len(cells) != len(head):
            raise SagpoolError(f"{place} has {len(cells)} columns, not {len(head)}.")
        number = graph_number(cells[0], graphs, place)
        if number < 0:
            raise SagpoolError(f"{place}: {graphs.name} has no graph {shorten(cells[0])}.")
        nodes = int(graphs.node_counts[number])
        known = cells[1].isascii() and cells[1].isdigit() and len(cells[1]) < 19
        if not known or int(cells[1]) >= nodes:
            raise SagpoolError(
                f"{place}: graph {number} has the nodes 0 to {nodes - 1}, no {shorten(cells[1])}."
            )
        row = int(graphs.node_ptr[number]) + int(cells[1])
        if not np.isnan(target[row]):
            raise SagpoolError(f"{place}: node {cells[1]} of graph {number} has a row already.")
        target[row] = _value(cells[2], place)
    return target


def _value(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e30:  # larger targets fit float32, but their sums do not
        raise SagpoolError(f"{place}: the target must be a number of at least 0: {shorten(text)}.")
    return value
