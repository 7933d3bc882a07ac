"""The part of a very large graph that is drawn: the surroundings of a node that was kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from sagpool.explain.parts import Reason, strongest
from sagpool.explain.trace import Level, Trace

MOST_DRAWN_NODES = 10_000


def drawn_part(trace: Trace) -> Trace:
    """The trace itself, or the part of it that fits into a picture."""
    nodes = drawn_nodes(trace)
    return trace if nodes is None else induced(trace, nodes)


def drawn_nodes(trace: Trace) -> np.ndarray | None:
    """The nodes that fit into a picture, in ascending order; None for all.

    They surround the node with the highest score that the last level keeps or, without levels, a
    node that the strongest reason counts. If its component is too small, nodes of other components
    follow, kept or counted nodes first.
    """
    if trace.num_nodes <= MOST_DRAWN_NODES:
        return None
    shape = (trace.num_nodes, trace.num_nodes)
    graph = csr_array((np.ones(len(trace.edges)), trace.edges.T), shape=shape)
    first, *_ = kept = _central(trace)
    to_first, to_kept = (
        dijkstra(graph, directed=False, indices=nodes, unweighted=True, min_only=True)
        for nodes in (first, kept)
    )
    return np.sort(np.lexsort((to_kept, to_first))[:MOST_DRAWN_NODES])


def _central(trace: Trace) -> np.ndarray:
    """What the last level keeps, the node with the highest score first; or what is counted."""
    if not trace.levels:
        reason = strongest(trace.reasons)
        return np.array([0] if reason is None else reason.nodes)
    last = trace.levels[-1]
    return last.kept if last.score is None else last.kept[np.argsort(-last.score, kind="stable")]


def induced(trace: Trace, nodes: np.ndarray) -> Trace:
    """The trace of these nodes and the edges among them."""
    place = np.full(trace.num_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    edges = place[trace.edges]
    truth = None if trace.ground_truth is None else place[trace.ground_truth]
    return replace(
        trace,
        num_nodes=len(nodes),
        edges=edges[(edges >= 0).all(axis=1)],
        node_labels=tuple(trace.node_labels[node] for node in nodes),
        ground_truth=None if truth is None else truth[truth >= 0],
        levels=tuple(_level(level, place) for level in trace.levels),
        reasons=tuple(_reason(reason, place) for reason in trace.reasons),
    )


def _level(level: Level, place: np.ndarray) -> Level:
    kept = place[level.kept]
    score = None if level.score is None else level.score[kept >= 0]
    return Level(kept[kept >= 0], score, tuple(_level(mask, place) for mask in level.masks))


def _reason(reason: Reason, place: np.ndarray) -> Reason:
    nodes = place[list(reason.nodes)]
    return replace(reason, nodes=tuple(nodes[nodes >= 0].tolist()))
