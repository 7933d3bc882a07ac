"""Turns any list of edges into the form that is stored: undirected, no duplicates, CSR."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Repairs:
    """How many input edges did not fit a simple undirected graph."""

    one_way: int = 0  # given in one direction only: the other direction was added
    duplicates: int = 0  # given more than once: the first was used
    self_loops: int = 0  # from a node to itself: dropped (convolutions add their own)

    def __bool__(self) -> bool:
        return bool(self.one_way or self.duplicates or self.self_loops)

    def __str__(self) -> str:
        parts = [
            f"{self.one_way} one-way edges were made undirected" if self.one_way else "",
            f"{self.duplicates} duplicate edges were merged" if self.duplicates else "",
            f"{self.self_loops} self-loops were dropped" if self.self_loops else "",
        ]
        return ", ".join(filter(None, parts))


NO_REPAIRS = Repairs()


class PackedEdges(NamedTuple):
    edge_counts: np.ndarray  # [graphs] int64
    degree: np.ndarray  # [nodes] int32
    col: np.ndarray  # [edges] int32, neighbours as indices inside their graph
    origin: np.ndarray | None  # [edges] int64, the input edge from which each edge has its features
    repairs: Repairs


def pack_edges(
    source: np.ndarray,
    target: np.ndarray,
    node_counts: np.ndarray,
    *,
    with_origin: bool = True,
    undirected: bool = False,
) -> PackedEdges:
    """Add missing directions, merge duplicates, drop self-loops, and sort.

    Args:
        source: ``[input edges]`` int64, nodes numbered through the whole collection
        target: ``[input edges]`` int64, nodes of the same graphs, whose CSR rows get the edges
        node_counts: ``[graphs]`` nodes per graph
        with_origin: whether ``origin`` is needed; a plain sort is enough without it
        undirected: whether the input may give each edge once or in both directions; then neither
            counts as a repair

    Returns:
        each pair of neighbours in both directions, sorted by node, then by neighbour
    """
    node_ptr = np.concatenate([[0], np.cumsum(node_counts)])
    simple = source != target
    self_loops = len(source) - int(simple.sum())
    # Pairs as single integers, which sort by node, then by neighbour.
    forward, backward = (target << 32) | source, (source << 32) | target
    if self_loops:
        forward, backward = forward[simple], backward[simple]
    origin, one_way, duplicates = None, 0, 0
    if with_origin:
        keys, origin, one_way, duplicates = _symmetric_with_origin(forward, backward)
        origin = np.flatnonzero(simple)[origin]
    elif undirected:
        keys = _sorted_unique(np.concatenate([forward, backward]))
    else:
        keys, one_way, duplicates = _symmetric(forward, backward)
    node, neighbour = keys >> 32, keys & 0xFFFFFFFF
    edge_counts = np.diff(np.searchsorted(node, node_ptr))
    return PackedEdges(
        edge_counts=edge_counts,
        degree=np.bincount(node, minlength=int(node_ptr[-1])).astype(np.int32),
        col=(neighbour - np.repeat(node_ptr[:-1], edge_counts)).astype(np.int32),
        origin=origin,
        repairs=Repairs(0, 0, self_loops)
        if undirected
        else Repairs(one_way, duplicates, self_loops),
    )


def _symmetric(forward: np.ndarray, backward: np.ndarray) -> tuple[np.ndarray, int, int]:
    keys, reverse = _sorted_unique(forward), _sorted_unique(backward)
    duplicates = len(forward) - len(keys)
    if np.array_equal(keys, reverse):
        return keys, 0, duplicates
    both = _sorted_unique(np.concatenate([keys, reverse]))
    return both, len(both) - len(keys), duplicates


def _sorted_unique(keys: np.ndarray) -> np.ndarray:
    keys = np.sort(keys)
    new = keys[1:] != keys[:-1]
    return keys if new.all() else keys[np.concatenate([[True], new])]


def _symmetric_with_origin(
    forward: np.ndarray, backward: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int, int]:
    keys, first = np.unique(forward, return_index=True)
    duplicates = len(forward) - len(keys)
    reverse = backward[first]
    missing = ~np.isin(reverse, keys)
    # An added direction has the features of the given one.
    keys = np.concatenate([keys, reverse[missing]])
    origin = np.concatenate([first, first[missing]])
    order = np.argsort(keys)
    return keys[order], origin[order], int(missing.sum()), duplicates
