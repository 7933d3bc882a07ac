"""Weisfeiler-Lehman subtree counts of whole graphs, by hashing.

The colour of a node is a 64-bit hash of its neighbourhood: first of its label, then of all its
columns of whole numbers, then, round by round, of its own colour and the multiset of its
neighbours' colours. Multisets are hashed by a sum of mixed hashes, so nothing is sorted and there
is no loop over nodes. Labels of edges count if they are columns of the nodes (``features="all"``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.classifier.simple.nodes import whole_columns
from sagpool.classifier.simple.saved import Arrays, Saved, take_ascending
from sagpool.classifier.simple.sparse import counted, frequent
from sagpool.errors import SagpoolError
from sagpool.foreign.values import decode
from sagpool.graphs.graphs import Graphs
from sagpool.randomness import mix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ROUNDS = 5  # fewer were worse on NCI1 and NCI109, and no better elsewhere
MOST_COLUMNS = 50_000
ONE = np.uint64(1)


@dataclass(frozen=True)
class Subtrees:
    """The colours of the training graphs that are counted."""

    whole: tuple[int, ...]  # columns of `Graphs.node_attr` that are part of a colour
    vocabulary: np.ndarray  # [columns] int64, ascending

    @staticmethod
    def fit(graphs: Graphs) -> Subtrees:
        """The colours that occur in at least two graphs, or the most frequent of them."""
        whole = tuple(map(int, np.flatnonzero(whole_columns(graphs))))
        found = counted(*_colours(graphs, whole), len(graphs))
        return Subtrees(whole, frequent(found, MOST_COLUMNS))

    @staticmethod
    def from_saved(config: Any, arrays: Arrays) -> Subtrees:
        whole = tuple(decode(list[int], config["whole"], "whole"))
        if any(column < 0 for column in whole):
            raise SagpoolError("A simple model is damaged: a column of its subtrees is negative.")
        return Subtrees(whole, take_ascending(arrays, "vocabulary"))

    def to_saved(self) -> Saved:
        return Saved({"whole": list(self.whole)}, {"vocabulary": self.vocabulary})

    def names(self) -> list[str]:
        """The hashes; `subtree_in_words` describes the subtrees of a graph."""
        return [f"subtree {colour & (2**64 - 1):016x}" for colour in self.vocabulary.tolist()]

    def nodes(self, graph: Graphs, column: int) -> np.ndarray:
        """The roots of this subtree in a single graph, ascending."""
        _, colours = _colours_of_one(graph, self.whole)
        found = np.flatnonzero(colours == self.vocabulary[column])
        return np.unique(found % graph.num_nodes)

    def steps(self, graph: Graphs, column: int) -> int:
        """Number of steps from the root that this subtree of a single graph reaches."""
        _, colours = _colours_of_one(graph, self.whole)
        rounds = np.flatnonzero(colours == self.vocabulary[column]) // graph.num_nodes
        return int(rounds[0])

    def matrix(self, graphs: Graphs) -> csr_array:
        """``[graphs, columns]`` float32."""
        width = graphs.num_features - len(graphs.node_label_names)
        if max(self.whole, default=-1) >= width:
            raise SagpoolError(
                f"{graphs.name} has {width} attributes per node, fewer than the model needs."
            )
        return counted(*_colours(graphs, self.whole), len(graphs)).columns(self.vocabulary)


def _colours(graphs: Graphs, whole: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The graph and the colour of each node in each round, ``[(rounds + 1) * nodes]`` int64."""
    graph = np.repeat(np.arange(len(graphs)), graphs.node_counts)
    rounds = _rounds(graphs, whole)
    return np.tile(graph, len(rounds)), np.concatenate(rounds).view(np.int64)


@lru_cache(maxsize=1)  # several subtrees of one graph are requested in a row
def _colours_of_one(graph: Graphs, whole: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    return _colours(graph, whole)


def _rounds(graphs: Graphs, whole: tuple[int, ...]) -> list[np.ndarray]:
    """``[nodes]`` uint64 for each round: labels, columns (if there are any), neighbours, ..."""
    label = np.zeros(graphs.num_nodes, np.int64)
    if graphs.node_label is not None:
        label = graphs.node_label.cpu().numpy().astype(np.int64) + 1
    rounds = [mix(label.view(np.uint64) + ONE)]
    if whole and graphs.node_attr is not None:
        columns = graphs.node_attr.cpu().numpy()[:, whole]
        rounds.append(mix(rounds[-1] ^ _hashed_rows(columns)))
    neighbour = graphs.edge_index[0].cpu().numpy()
    ptr = graphs.row_ptr.cpu().numpy()
    while len(rounds) <= ROUNDS:
        colour = rounds[-1]
        sums = np.zeros(graphs.num_edges + 1, np.uint64)
        np.cumsum(mix(colour + ONE)[neighbour], out=sums[1:])  # modulo 2**64
        rounds.append(mix(colour + mix(sums[ptr[1:]] - sums[ptr[:-1]])))
    return rounds


def _hashed_rows(values: np.ndarray) -> np.ndarray:
    """``[rows]`` uint64, a hash of each row of numbers."""
    hashed = np.zeros(len(values), np.uint64)
    for column in np.ascontiguousarray(values.T, dtype=np.float64) + 0.0:  # -0.0 becomes 0.0
        hashed = mix(hashed ^ column.view(np.uint64))
    return hashed
