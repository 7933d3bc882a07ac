"""Weighted graphs as NumPy arrays, which are coarsened once, before any training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

_ROUNDS = 8  # rounds of colour refinement: nodes that differ within 8 hops get different colours
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class HostGraphs:
    """Undirected graphs with weights, end to end, without self-loops.

    Args:
        first_node: ``[graphs + 1]``, the first node of each graph, and the end
        row: ``[edges]`` ascending; every edge occurs once in each direction
        col: ``[edges]``, ascending for each row; nodes are numbered through all graphs
        weight: ``[edges]`` float64, above 0
    """

    first_node: np.ndarray
    row: np.ndarray
    col: np.ndarray
    weight: np.ndarray

    @staticmethod
    def of_pairs(
        first_node: np.ndarray, row: np.ndarray, col: np.ndarray, weight: np.ndarray
    ) -> HostGraphs:
        """From pairs in any order; weights of equal pairs are added, self-loops are dropped."""
        nodes = int(first_node[-1])
        apart = row != col
        keys, which = np.unique(row[apart] * nodes + col[apart], return_inverse=True)
        sums = np.bincount(which, weight[apart], len(keys))
        return HostGraphs(first_node, keys // max(nodes, 1), keys % max(nodes, 1), sums)

    @property
    def nodes(self) -> int:
        return int(self.first_node[-1])

    @cached_property
    def row_ptr(self) -> np.ndarray:
        """``[nodes + 1]``, the first edge of each row, and the end."""
        return np.searchsorted(self.row, np.arange(self.nodes + 1))

    @cached_property
    def graph(self) -> np.ndarray:
        """``[nodes]``, the graph of each node."""
        return np.repeat(np.arange(len(self.first_node) - 1), np.diff(self.first_node))

    @property
    def degree(self) -> np.ndarray:
        """``[nodes]`` sums of weights."""
        return np.bincount(self.row, self.weight, self.nodes)

    def reordered(self, order: np.ndarray) -> HostGraphs:
        """The graphs with node ``order[i]``, which must be in the same graph, as node i."""
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return self.of_pairs(self.first_node, place[self.row], place[self.col], self.weight)


class Coarse(NamedTuple):
    """The result of a coarsening."""

    parent: np.ndarray  # [nodes], the new node of each node; -1 if dropped
    graphs: HostGraphs  # new nodes, graph after graph; every graph keeps at least one


class Coarsening(ABC):
    """A way to coarsen graphs, computed once for a whole collection.

    Subclasses are frozen dataclasses; equal ones must give equal results. The result for a graph
    must not depend on the other graphs. Nodes come in a pseudo-random order that does not depend on
    the order of the input (see `canonical_order`), so ties may go to the lower node.
    """

    @abstractmethod
    def coarsen(self, graphs: HostGraphs) -> Coarse:
        """The graphs of the next level."""


def merge(graphs: HostGraphs, label: np.ndarray) -> Coarse:
    """Nodes with the same label become one node; the weights between them are added.

    Args:
        graphs: to be coarsened
        label: ``[nodes]``, the number of a node of the same graph; new nodes are in its order
    """
    labels, parent = np.unique(label, return_inverse=True)
    first_node = np.searchsorted(labels, graphs.first_node)
    pairs = parent[graphs.row], parent[graphs.col]
    return Coarse(parent, HostGraphs.of_pairs(first_node, *pairs, graphs.weight))


def canonical_order(graphs: HostGraphs, start: np.ndarray) -> np.ndarray:
    """``[nodes]``, the nodes of each graph sorted by a hash of all that is known about them.

    The order does not depend on how the nodes of a graph are numbered, except for nodes that
    colour refinement (Weisfeiler and Leman, 1968) cannot tell apart.

    Args:
        graphs: the graphs; weights are ignored
        start: ``[nodes]`` uint64, a hash of the features of each node
    """
    color = _mixed(start)
    for _ in range(_ROUNDS):
        # Sums of uint64 wrap around, and so do their differences.
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(color)[graphs.col])])
        color = _mixed(color * _GOLDEN + (total[graphs.row_ptr[1:]] - total[graphs.row_ptr[:-1]]))
    return np.lexsort((color, graphs.graph))


def _mixed(values: np.ndarray) -> np.ndarray:
    """splitmix64: every bit of the result depends on every bit of the value."""
    mixed = values + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def hash_rows(columns: np.ndarray) -> np.ndarray:
    """``[rows]`` uint64 of ``[rows, columns]`` numbers."""
    found = np.zeros(len(columns), np.uint64)
    for column in columns.astype(np.float64).T:
        found = _mixed(found * _GOLDEN + np.ascontiguousarray(column + 0.0).view(np.uint64))
    return found
