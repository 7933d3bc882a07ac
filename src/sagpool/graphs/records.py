"""`Record`: one graph as a reader yields it; and code shared by all readers of files."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import LINE
from sagpool.foreign.values import shorten

if TYPE_CHECKING:
    from rdkit.Chem import Mol


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One graph. Lengths and node numbers are checked when it is made."""

    place: str  # where it was read, for messages: "graphs.jsonl, line 7"
    name: str  # its id in the source
    nodes: int  # number of nodes
    edges: Sequence[int] | np.ndarray  # source, target, source, ...; nodes are numbered from 0
    labels: Sequence[str] | None = None  # labels of the nodes
    features: Sequence[float] | np.ndarray | None = None  # features of the nodes, row after row
    target: Any = None  # class of the graph
    attribute_names: tuple[str, ...] = ()  # names of the features; numbers if they have none
    # Features of the edges, row after row.
    edge_features: Sequence[float] | np.ndarray | None = None
    molecule: Mol | None = None  # the molecule that the graph was made from, for drawing it
    targets: Mapping[str, Any] | None = None  # by name, if the source has names; None is missing
    # Further labels of the nodes, by title; None is no label.
    more_labels: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    # Labels of the edges, by title; the first title is also used to describe neighbours.
    edge_labels: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    fragments: Mapping[int, int] | None = None  # counts of the Morgan environments of a molecule
    group: str | None = None  # graphs of one group are never split up
    time: str | None = None  # when it was made: a number or a date

    def __post_init__(self) -> None:
        nodes, edges = self.nodes, self.edges
        if nodes < 1:
            raise SagpoolError(f"{self.place} has no nodes.")
        if len(edges):
            if isinstance(edges, np.ndarray):
                low, high = int(edges.min()), int(edges.max())
            else:
                low, high = min(edges), max(edges)
            if low < 0 or high >= nodes:
                wrong = f"an edge names node {shorten(low if low < 0 else high)}"
                raise SagpoolError(f"{self.place}: {wrong}; the {nodes} nodes are numbered from 0.")
        if len(edges) % 2:
            raise SagpoolError(f"{self.place}: the last edge has one end only.")
        if self.labels is not None and len(self.labels) != nodes:
            raise SagpoolError(f"{self.place} has {len(self.labels)} labels for {nodes} nodes.")
        if self.features is not None and len(self.features) % nodes:
            raise SagpoolError(f"{self.place}: not all nodes have the same number of features.")
        if self.edge_features is not None and len(self.edge_features) % max(self.num_edges, 1):
            raise SagpoolError(f"{self.place}: not all edges have the same number of features.")
        for title, labels in self.edge_labels.items():
            if len(labels) != self.num_edges:
                raise SagpoolError(
                    f"{self.place}: {len(labels)} values of '{title}' for {self.num_edges} edges."
                )

    @property
    def num_edges(self) -> int:
        return len(self.edges) // 2

    @property
    def bare_nodes(self) -> int:
        """A lower bound on the number of nodes without a label, features and edges."""
        described = self.labels is not None or self.features is not None
        return 0 if described else max(0, self.nodes - len(self.edges))

    @property
    def width(self) -> int:
        """Features per node."""
        return 0 if self.features is None else len(self.features) // self.nodes


@dataclass(frozen=True)
class Columns:
    """Titles of the columns of a table of molecules, if not the standard ones.

    In an SDF file they name properties; in JSON Lines, ``label`` selects among ``labels``.
    """

    smiles: str | None = None
    label: str | tuple[str, ...] | None = None  # title of the class, or of several targets
    id: str | None = None
    time: str | None = None  # when each graph was made: numbers or dates
    expected: tuple[str, ...] = ()  # titles of labels that are read if present, without ``label``
    need_label: bool = False  # whether a file without any label is an error

    @property
    def labels(self) -> tuple[str, ...]:
        """The titles that must be present."""
        return (self.label,) if isinstance(self.label, str) else self.label or ()


def all_or_none(records: Sequence[Record], field: str, what: str) -> bool:
    """Whether all records have this field; an error if only some do."""
    has = [getattr(record, field) is not None for record in records]
    if any(has) and not all(has):
        without, with_ = records[has.index(False)], records[has.index(True)]
        raise SagpoolError(f"{without.place} has no {what}, but {with_.place} has.")
    return any(has)


def text_lines(file: BinaryIO, name: str, newline: str) -> Iterator[str]:
    """The lines of a UTF-8 file; ``newline`` as in `open`."""
    # Invalid bytes are decoded to surrogates first, so that the error can name their line.
    with io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline=newline) as text:
        most = LINE.most
        for number in count(1):
            try:
                line = text.readline(most + 1)
                if not line.isascii():
                    line.encode()
            except UnicodeEncodeError:
                raise SagpoolError(f"{name}, line {number} is not UTF-8 text.") from None
            except OSError as error:
                raise SagpoolError(f"{name} cannot be read: {error.strerror}.") from None
            if not line:
                return
            if len(line) > most and line[-1] not in "\r\n":
                LINE.check(len(line), f"{name}, line {number}")
            yield line
