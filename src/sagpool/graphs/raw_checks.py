"""Checks that the arrays of a `RawGraphs` that was read from a file fit together."""

import numpy as np

from sagpool.foreign.values import DecodingError
from sagpool.graphs.raw_graphs import RawGraphs


def check_raw(raw: RawGraphs) -> RawGraphs:
    """The graphs, if no index is out of range and all edges are as `pack_edges` leaves them.

    Raises an error otherwise.
    """
    graphs = _length(raw.node_counts, "node_counts")
    _expect(graphs > 0 and raw.node_counts.min() > 0, "a graph has no node")
    _expect(raw.edge_counts.shape == (graphs,), "edge_counts has another length")
    _expect(raw.edge_counts.min() >= 0, "edge_counts is negative")
    nodes, edges = _total(raw.node_counts), _total(raw.edge_counts)
    _expect(raw.degree.shape == (nodes,), "degree has another length")
    _expect(raw.degree.min() >= 0, "degree is negative")
    _expect(raw.col.shape == (edges,), "col has another length")
    ends = np.concatenate([[0], np.cumsum(raw.degree, dtype=np.int64)])
    last = np.cumsum(raw.node_counts)
    per_graph = np.diff(ends[np.concatenate([[0], last])])
    _expect(np.array_equal(per_graph, raw.edge_counts), "degree does not fit edge_counts")
    if edges:
        most = np.repeat(raw.node_counts, raw.edge_counts)
        _expect(bool(((raw.col >= 0) & (raw.col < most)).all()), "col names no node of its graph")
        _check_edges(raw)
    if raw.y is not None:
        _expect(raw.y.shape == (graphs,), "y has another length")
        _codes(raw.y, len(raw.class_names), "y")
    if raw.node_labels is not None:
        _expect(raw.node_labels.shape == (nodes, len(raw.node_label_names)), "labels do not fit")
        for column, names in zip(raw.node_labels.T, raw.node_label_names, strict=True):
            _codes(column, len(names), "node_labels")
    for labels in raw.edge_labels:
        _expect(labels.code.shape == (edges,), "edge_labels has another length")
        if edges:
            _codes(labels.code, len(labels.names), "edge_labels")
    for name, rows in (("node_attr", nodes), ("edge_attr", edges)):
        matrix = getattr(raw, name)
        if matrix is not None:
            _expect(matrix.ndim == 2 and len(matrix) == rows, f"{name} has another shape")
            _expect(bool(np.isfinite(matrix).all()), f"{name} is not finite")
    return raw


def _check_edges(raw: RawGraphs) -> None:
    """Check that edges are sorted, once in each direction, and without self-loops."""
    ends = np.cumsum(raw.degree)
    rises = raw.col[1:] > raw.col[:-1]
    rises[ends[(ends > 0) & (ends < len(raw.col))] - 1] = True  # from one node to the next
    _expect(bool(rises.all()), "edges are not in order")
    first_node = np.cumsum(raw.node_counts) - raw.node_counts
    neighbour = raw.col + np.repeat(first_node, raw.edge_counts)
    node = np.repeat(np.arange(len(raw.degree), dtype=np.int32), raw.degree)
    _expect(bool((node != neighbour).all()), "an edge joins a node to itself")
    # For random vectors, xᵀAy = yᵀAx if A is symmetric, and almost never otherwise (Freivalds).
    # This takes a fraction of the time of sorting the edges by their other end.
    x, y = np.random.default_rng().integers(0, 2**32, (2, len(raw.degree)), np.uint32)
    one = (np.repeat(x, raw.degree) * y[neighbour]).sum(dtype=np.uint32)
    other = (np.repeat(y, raw.degree) * x[neighbour]).sum(dtype=np.uint32)
    _expect(bool(one == other), "an edge has only one direction")


def _length(array: np.ndarray, name: str) -> int:
    _expect(array.ndim == 1, f"{name} has another shape")
    return len(array)


def _total(counts: np.ndarray) -> int:
    return sum(counts.tolist())  # exact, even if the sum overflows int64


def _codes(codes: np.ndarray, names: int, what: str) -> None:
    _expect(bool(codes.min() >= 0 and codes.max() < names), f"{what} has a code without a name")


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DecodingError(otherwise)
