"""Weisfeiler-Lehman subtree counts of whole graphs, by hashing.

The colour of a node is a 64-bit hash of what is seen within so many steps: first its label, then
all of its columns of whole numbers, then, round by round, its own colour and the multiset of the
colours of its edges and neighbours. Multisets are hashed by a sum of mixed hashes, so no node is
sorted or looked at on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.classifier.simple.nodes import whole_columns
from sagpool.classifier.simple.saved import Arrays, take_ascending
from sagpool.classifier.simple.sparse import counted, frequent
from sagpool.errors import SagpoolError
from sagpool.foreign.values import decode
from sagpool.graphs.graphs import Graphs
from sagpool.randomness import mix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ROUNDS = 3
MOST_COLUMNS = 50_000
MOST_EDGE_KINDS = 256  # more different rows of edge features are measurements, not labels


@dataclass(frozen=True)
class _Columns:
    """Which columns are part of a colour."""

    whole: tuple[int, ...]  # columns of `Graphs.node_attr`
    edges: bool  # whether edge features are part of it


@dataclass(frozen=True)
class Subtrees:
    """The colours of the training graphs that are counted."""

    columns: _Columns
    vocabulary: np.ndarray  # [columns] int64, ascending

    @staticmethod
    def fit(graphs: Graphs) -> Subtrees:
        """The colours that occur in at least two of the graphs, the most frequent first."""
        whole = whole_columns(graphs.node_attr)
        whole[: graphs.continuous] = False
        columns = _Columns(tuple(map(int, np.flatnonzero(whole))), _labelled_edges(graphs))
        found = counted(*_colours(graphs, columns), len(graphs))
        return Subtrees(columns, frequent(found, MOST_COLUMNS))

    @staticmethod
    def from_saved(config: Any, arrays: Arrays) -> Subtrees:
        columns = decode(_Columns, config, "subtrees")
        if any(column < 0 for column in columns.whole):
            raise SagpoolError("A simple model is damaged: a column of its subtrees is negative.")
        return Subtrees(columns, take_ascending(arrays, "vocabulary"))

    def to_saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        config = {"whole": list(self.columns.whole), "edges": self.columns.edges}
        return config, {"vocabulary": self.vocabulary}

    def names(self) -> list[str]:
        return [f"subtree {colour & (2**64 - 1):016x}" for colour in self.vocabulary.tolist()]

    def matrix(self, graphs: Graphs) -> csr_array:
        """``[graphs, columns]`` float32"""
        width = 0 if graphs.node_attr is None else graphs.node_attr.shape[1]
        if max(self.columns.whole, default=-1) >= width:
            raise SagpoolError(
                f"{graphs.name} lacks node attributes that the model was trained with."
            )
        if self.columns.edges and graphs.edge_attr is None:
            raise SagpoolError(
                f"{graphs.name} has no edge features; the model was trained with them."
            )
        found = counted(*_colours(graphs, self.columns), len(graphs))
        return found.columns(self.vocabulary)


def _labelled_edges(graphs: Graphs) -> bool:
    if graphs.edge_attr is None or not graphs.edge_attr.shape[1]:
        return False
    return len(np.unique(_hashed_rows(graphs.edge_attr.cpu().numpy()))) <= MOST_EDGE_KINDS


def _colours(graphs: Graphs, columns: _Columns) -> tuple[np.ndarray, np.ndarray]:
    """The graph and the colour of each node in each round, ``[rounds * nodes]`` int64."""
    graph = np.repeat(np.arange(len(graphs)), graphs.node_counts)
    rounds = _rounds(graphs, columns)
    return np.tile(graph, len(rounds)), np.concatenate(rounds).view(np.int64)


def _rounds(graphs: Graphs, columns: _Columns) -> list[np.ndarray]:
    """``[nodes]`` uint64 for each round: labels, columns, one step, two steps, ..."""
    label = np.zeros(graphs.num_nodes, np.int64)
    if graphs.node_label is not None:
        label = graphs.node_label.cpu().numpy().astype(np.int64) + 1
    colour = mix(label.view(np.uint64) + np.uint64(1))
    rounds = [colour]
    if columns.whole and graphs.node_attr is not None:
        whole = graphs.node_attr.cpu().numpy()[:, columns.whole]
        colour = mix(colour ^ _hashed_rows(whole))
        rounds.append(colour)
    edge = np.zeros(graphs.num_edges, np.uint64)
    if columns.edges and graphs.edge_attr is not None:
        edge = _hashed_rows(graphs.edge_attr.cpu().numpy())
    neighbour = graphs.edge_index[0].cpu().numpy()
    ptr = graphs.row_ptr.cpu().numpy()
    while len(rounds) <= ROUNDS:
        messages = np.zeros(graphs.num_edges + 1, np.uint64)
        np.cumsum(mix(mix(colour)[neighbour] ^ edge), out=messages[1:])  # modulo 2**64
        colour = mix(mix(colour + np.uint64(1)) + messages[ptr[1:]] - messages[ptr[:-1]])
        rounds.append(colour)
    return rounds


def _hashed_rows(values: np.ndarray) -> np.ndarray:
    """``[rows]`` uint64, a hash of each row of numbers."""
    hashed = np.zeros(len(values), np.uint64)
    for column in np.ascontiguousarray(values.T, dtype=np.float64) + 0.0:  # -0.0 becomes 0.0
        hashed = mix(hashed ^ column.view(np.uint64))
    return hashed
