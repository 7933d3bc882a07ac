"""Reading the TU format (https://chrsmrrs.github.io/datasets/docs/format)."""

from typing import NamedTuple

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.graphs.edges import PackedEdges, pack_edges
from sagpool.graphs.features import Codes, RawGraphs, encode
from sagpool.graphs.files import TUFiles
from sagpool.graphs.numbers import read_floats, read_integers


def read_tu(files: TUFiles) -> RawGraphs:
    """Read and check every file of the data set."""
    labels = read_integers(files.read("graph_labels"), files.label("graph_labels"))
    nodes = _read_nodes(files, num_graphs=len(labels))
    classes = encode(labels)
    edges, edge_attr = _read_edges(files, nodes)

    node_labels = None
    node_label_names: tuple[tuple[str, ...], ...] = ()
    if files.has("node_labels"):
        columns = _read_labels(files, "node_labels", nodes)
        node_labels = np.stack([c.code for c in columns], axis=1).astype(np.int32)
        node_label_names = tuple(c.names for c in columns)

    node_attr = None
    if files.has("node_attributes"):
        node_attr = read_floats(files.read("node_attributes"), files.label("node_attributes"))
        _expect_lines(files, "node_attributes", len(node_attr), "graph_indicator", nodes.total)
        node_attr = node_attr[nodes.order]

    return RawGraphs(
        name=files.name,
        node_counts=nodes.per_graph,
        edge_counts=edges.edge_counts,
        degree=edges.degree,
        col=edges.col,
        y=classes.code,
        class_names=classes.names,
        node_labels=node_labels,
        node_label_names=node_label_names,
        node_attr=node_attr,
        edge_attr=edge_attr,
        repairs=edges.repairs,
    )


class _Nodes(NamedTuple):
    per_graph: np.ndarray  # [graphs]
    order: np.ndarray | slice  # file order -> packed order: nodes of one graph lie together
    place: np.ndarray | None  # the inverse of order; None where nothing moves

    @property
    def total(self) -> int:
        return int(self.per_graph.sum())


def _read_nodes(files: TUFiles, num_graphs: int) -> _Nodes:
    where = files.label("graph_indicator")
    graph = read_integers(files.read("graph_indicator"), where)[:, 0] - 1
    if graph.min() < 0:
        line = int(np.argmax(graph < 0))
        raise SagpoolError(
            f"{where}, line {line + 1}: graph {graph[line] + 1}; graphs are numbered from 1."
        )
    named = int(graph.max()) + 1
    if named != num_graphs:
        raise SagpoolError(
            f"{files.label('graph_labels')} has {num_graphs} lines, but {where} has {named} graphs."
        )
    per_graph = np.bincount(graph, minlength=num_graphs)
    if not per_graph.all():
        raise SagpoolError(f"{where}: graph {int(np.argmin(per_graph)) + 1} has no node.")
    if (np.diff(graph) >= 0).all():
        return _Nodes(per_graph, slice(None), None)
    order = np.argsort(graph, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return _Nodes(per_graph, order, place)


def _read_edges(files: TUFiles, nodes: _Nodes) -> tuple[PackedEdges, np.ndarray | None]:
    where = files.label("A")
    ends = read_integers(files.read("A"), where, columns=2) - 1
    outside = (ends < 0) | (ends >= nodes.total)
    if outside.any():
        line, column = np.argwhere(outside)[0]
        raise SagpoolError(
            f"{where}, line {line + 1}: node {ends[line, column] + 1} is not among "
            f"the nodes 1 to {nodes.total} of {files.label('graph_indicator')}."
        )
    if nodes.place is not None:
        ends = nodes.place[ends]

    attr = _read_edge_attr(files, len(ends))
    # The line "u, v" is the edge from u to v, as in PyG; its features go with that direction.
    edges = pack_edges(
        np.ascontiguousarray(ends[:, 0]),
        np.ascontiguousarray(ends[:, 1]),
        nodes.per_graph,
        edge_name=lambda edge: f"{where}, line {edge + 1}",
        with_origin=attr is not None,
    )
    return edges, None if attr is None else attr[edges.origin]


def _read_edge_attr(files: TUFiles, num_edges: int) -> np.ndarray | None:
    """Attributes, then one-hot labels (PyG's order), ``[lines of A, features]``."""
    parts = []
    if files.has("edge_attributes"):
        parts.append(read_floats(files.read("edge_attributes"), files.label("edge_attributes")))
        _expect_lines(files, "edge_attributes", len(parts[-1]), "A", num_edges)
    if files.has("edge_labels"):
        for codes in _read_columns(files, "edge_labels", "A", num_edges):
            parts.append(np.eye(len(codes.names), dtype=np.float32)[codes.code])
    return np.concatenate(parts, axis=1) if parts else None


def _read_labels(files: TUFiles, kind: str, nodes: _Nodes) -> list[Codes]:
    columns = _read_columns(files, kind, "graph_indicator", nodes.total)
    return [Codes(codes.code[nodes.order], codes.names) for codes in columns]


def _read_columns(files: TUFiles, kind: str, as_in: str, expected: int) -> list[Codes]:
    values = read_integers(files.read(kind), files.label(kind), columns=None)
    _expect_lines(files, kind, len(values), as_in, expected)
    return [encode(column) for column in values.T]


def _expect_lines(files: TUFiles, kind: str, lines: int, as_in: str, expected: int) -> None:
    if lines != expected:
        raise SagpoolError(
            f"{files.label(kind)} has {lines} lines, but {files.label(as_in)} has {expected}."
        )
