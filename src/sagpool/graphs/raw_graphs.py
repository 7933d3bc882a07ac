"""`RawGraphs`: everything that a source has; and the numbering of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sagpool.graphs.edge_cleaning import NO_REPAIRS, Repairs
from sagpool.graphs.graphs import Task

if TYPE_CHECKING:
    from scipy.sparse import csr_array


EDGE_LABEL = "edge label"  # default title of the label of an edge


class Codes(NamedTuple):
    """Values as small integers; ``names[code]`` is the value as text."""

    code: np.ndarray
    names: tuple[str, ...]


class Labels(NamedTuple):
    """One label of each node or edge; -1 if it has none."""

    title: str
    code: np.ndarray  # [nodes or edges] int32
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """Packed adjacency as in `Graphs`, with all labels and attributes of the source."""

    name: str
    node_counts: np.ndarray  # [graphs] int64
    edge_counts: np.ndarray  # [graphs] int64
    degree: np.ndarray  # [nodes] int32
    col: np.ndarray  # [edges] int32
    y: np.ndarray | None = None  # [graphs] int64
    class_names: tuple[str, ...] = ()
    node_labels: np.ndarray | None = None  # [nodes, label columns] int32 codes
    node_label_names: tuple[tuple[str, ...], ...] = ()  # one tuple for each label column
    node_attr: np.ndarray | None = None  # [nodes, attributes] float32
    attribute_names: tuple[str, ...] = ()  # names of the attributes; numbers if they have none
    # Further labels of the nodes, which only ``features="all"`` uses.
    more_labels: tuple[Labels, ...] = ()
    edge_labels: tuple[Labels, ...] = ()
    edge_attr: np.ndarray | None = None  # [edges, edge features] float32
    targets: np.ndarray | None = None  # [graphs, tasks] float32
    target_names: tuple[str, ...] = ()
    task: Task = "classification"
    group: np.ndarray | None = None  # [graphs] int64
    time: np.ndarray | None = None  # [graphs] int64, higher is later
    fragments: csr_array | None = None  # [graphs, 2**32]
    ids: np.ndarray | None = None  # [graphs] texts
    repairs: Repairs = NO_REPAIRS


def encode(values: Sequence[object] | np.ndarray) -> Codes:
    """Number the values that occur, in ascending order."""
    array = np.asarray(values)
    if array.dtype.kind == "U" and any(str(value).endswith("\0") for value in values):
        array = np.array(values, object)  # NumPy's texts lose null characters at their end
    unique, code = np.unique(array, return_inverse=True)
    return Codes(code.reshape(-1), tuple(str(value) for value in unique))


def encode_degrees(degree: np.ndarray, cap: int) -> Codes:
    """Number the degrees that occur, in ascending order; degrees above the cap count as the cap."""
    capped = np.minimum(degree, np.int32(min(cap, 2**31 - 1)))
    occurs = np.bincount(capped) > 0
    code_of = (np.cumsum(occurs) - 1).astype(np.int32)
    return Codes(code_of[capped], tuple(map(str, np.flatnonzero(occurs).tolist())))


def encode_texts(texts: Sequence[str]) -> Codes:
    """Number the texts that occur, in ascending order; by size if all are finite numbers."""
    names = sorted(set(texts))
    with suppress(ValueError):  # raised by float for a text that is not a number
        if all(math.isfinite(float(name)) for name in names):
            names.sort(key=float)
    code = {name: number for number, name in enumerate(names)}
    return Codes(np.fromiter(map(code.__getitem__, texts), np.int64, len(texts)), tuple(names))


def encode_some(texts: Sequence[str | None]) -> Codes:
    """Like `encode_texts`; None becomes -1."""
    code, names = encode_texts([text for text in texts if text is not None])
    if len(code) == len(texts):
        return Codes(code, names)
    all_codes = np.full(len(texts), -1)
    all_codes[[text is not None for text in texts]] = code
    return Codes(all_codes, names)


def dense_matrix(attributes: np.ndarray | None, labels: Sequence[Codes]) -> np.ndarray | None:
    """``[rows, columns]`` float32: attributes, then one-hot labels; None if there is neither."""
    if not labels:
        return attributes
    width = 0 if attributes is None else attributes.shape[1]
    rows = np.arange(len(labels[0].code))
    matrix = np.zeros((len(rows), width + sum(len(codes.names) for codes in labels)), np.float32)
    if attributes is not None:
        matrix[:, :width] = attributes
    for code, names in labels:
        has = code >= 0
        matrix[rows[has], width + code[has]] = 1
        width += len(names)
    return matrix
