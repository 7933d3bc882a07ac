"""Graphs one at a time, as files of JSON Lines and molecules give them, and packing them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.graphs.edges import Repairs
from sagpool.graphs.features import Codes, RawGraphs

if TYPE_CHECKING:
    from rdkit.Chem import Mol


class Record(NamedTuple):
    """One graph, whose reader vouches for it: node numbers are in range, features finite."""

    place: str  # where it stands, for messages: "graphs.jsonl, line 7"
    name: str  # by which its owner knows it
    nodes: int  # how many
    edges: Sequence[int]  # source, target, source, target, ...; nodes are numbered from 0
    labels: Sequence[str] | None = None  # one for each node, if it has any
    features: Sequence[float] | None = None  # the same number for each node, row after row
    target: str | None = None  # its class, if it is known
    molecule: Mol | None = None  # what it was made of, to be drawn

    @property
    def width(self) -> int:
        """Features of each node."""
        return len(self.features or ()) // self.nodes


def pack_records(records: Sequence[Record], name: str) -> RawGraphs:
    """Pack them; all of one collection have labels or features, or none.

    They come out with classes if all have one.
    """
    if not records:
        raise SagpoolError(f"{name} has no graph.")
    node_counts = np.array([record.nodes for record in records], np.int64)
    edge_counts = [len(record.edges) // 2 for record in records]
    ends = np.fromiter(chain.from_iterable(record.edges for record in records), np.int64)
    edges = _undirected(ends.reshape(-1, 2), edge_counts, node_counts)
    labels = _labels(records)
    classes = _classes(records)
    return RawGraphs(
        name=name,
        node_counts=node_counts,
        edge_counts=edges.edge_counts,
        degree=edges.degree,
        col=edges.col,
        y=None if classes is None else classes.code,
        class_names=() if classes is None else classes.names,
        node_labels=None if labels is None else labels.code[:, None].astype(np.int32),
        node_label_names=() if labels is None else (labels.names,),
        node_attr=_features(records),
        # An edge may be given once or in both directions; both are right here.
        repairs=Repairs(self_loops=edges.self_loops),
    )


class _Edges(NamedTuple):
    edge_counts: np.ndarray  # [graphs] int64
    degree: np.ndarray  # [nodes] int32
    col: np.ndarray  # [edges] int32
    self_loops: int


def _undirected(ends: np.ndarray, edge_counts: list[int], node_counts: np.ndarray) -> _Edges:
    """Each pair of neighbours in both directions, as `edges.pack_edges` gives it.

    That also counts what was given once or twice, which takes two more sorts; nobody asks here.
    """
    node_ptr = np.concatenate([[0], np.cumsum(node_counts)])
    ends = ends + np.repeat(node_ptr[:-1], edge_counts)[:, None]  # [input edges, 2]
    simple = ends[ends[:, 0] != ends[:, 1]]
    keys = np.concatenate(
        [(simple[:, 0] << 32) | simple[:, 1], (simple[:, 1] << 32) | simple[:, 0]]
    )
    keys.sort()
    keys = keys[np.diff(keys, prepend=-1) != 0]
    node = keys >> 32
    degree = np.bincount(node, minlength=node_ptr[-1])
    row_ptr = np.concatenate([[0], np.cumsum(degree)])
    return _Edges(
        np.diff(row_ptr[node_ptr]),
        degree.astype(np.int32),
        ((keys & 0xFFFFFFFF) - np.repeat(node_ptr[:-1], node_counts)[node]).astype(np.int32),
        len(ends) - len(simple),
    )


def _labels(records: Sequence[Record]) -> Codes | None:
    if not all_or_none(records, [record.labels is not None for record in records], "node labels"):
        return None
    return number_texts(chain.from_iterable(record.labels or () for record in records))


def _classes(records: Sequence[Record]) -> Codes | None:
    if any(record.target is None for record in records):
        return None
    return number_texts(record.target or "" for record in records)


def _features(records: Sequence[Record]) -> np.ndarray | None:
    if not all_or_none(records, [r.features is not None for r in records], "node features"):
        return None
    width = records[0].width
    for record in records:
        if record.width != width:
            raise SagpoolError(
                f"{record.place} has {record.width} features a node, where {records[0].place} "
                f"has {width}."
            )
    numbers = np.fromiter(chain.from_iterable(r.features or () for r in records), np.float64)
    return numbers.astype(np.float32).reshape(-1, width)


def all_or_none(records: Sequence[Record], has: list[bool], what: str) -> bool:
    """Whether all have it; what only some have is an error that names the first two."""
    if all(has) or not any(has):
        return all(has)
    without, with_ = records[has.index(False)], records[has.index(True)]
    raise SagpoolError(f"{without.place} has no {what}, while {with_.place} has.")


def number_texts(texts: Iterable[str]) -> Codes:
    """Number the texts that occur, in their order; numbers in that of their size."""
    texts = list(texts)
    names = sorted(set(texts))
    with suppress(ValueError):  # not all are numbers
        names.sort(key=_finite)
    place = {name: number for number, name in enumerate(names)}
    return Codes(np.fromiter(map(place.__getitem__, texts), np.int64, len(texts)), tuple(names))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} has no place among numbers")
    return number
