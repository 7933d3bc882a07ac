"""Sparse counts of things that are identified by integers of up to 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Counted(NamedTuple):
    """How often each thing occurs in each graph, one entry per pair."""

    graph: np.ndarray  # [entries] int64, ascending
    thing: np.ndarray  # [entries] int64
    times: np.ndarray  # [entries] float32
    graphs: int

    def columns(self, vocabulary: np.ndarray) -> csr_array:
        """The counts of the things in a sorted vocabulary, ``[graphs, vocabulary]`` float32."""
        from scipy.sparse import csr_array

        place = np.searchsorted(vocabulary, self.thing)
        known = place < len(vocabulary)
        known[known] = vocabulary[place[known]] == self.thing[known]
        ptr = np.zeros(self.graphs + 1, np.int64)
        np.cumsum(np.bincount(self.graph[known], minlength=self.graphs), out=ptr[1:])
        shape = (self.graphs, len(vocabulary))
        return csr_array((self.times[known], place[known], ptr), shape=shape)


def counted(graph: np.ndarray, thing: np.ndarray, graphs: int) -> Counted:
    """Count equal pairs of a graph and a thing."""
    order = np.lexsort((thing, graph))
    graph, thing = graph[order], thing[order]
    first = np.ones(len(graph), bool)
    first[1:] = (graph[1:] != graph[:-1]) | (thing[1:] != thing[:-1])
    starts = np.flatnonzero(first)
    times = np.diff(np.append(starts, len(graph))).astype(np.float32)
    return Counted(graph[starts], thing[starts], times, graphs)


def frequent(found: Counted, most: int) -> np.ndarray:
    """The things in at least two graphs, or the most frequent of them, ascending, int64."""
    things, graphs = np.unique(found.thing, return_counts=True)
    things, graphs = things[graphs >= 2], graphs[graphs >= 2]
    if len(things) > most:
        things = np.sort(things[np.argsort(-graphs, kind="stable")[:most]])
    return things
