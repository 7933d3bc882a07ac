"""Reading the TU format (https://chrsmrrs.github.io/datasets/docs/format)."""

import logging
from typing import NamedTuple

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import CLASSES
from sagpool.graphs.intake import pack_arrays
from sagpool.graphs.number_parsing import read_floats, read_integers
from sagpool.graphs.raw_graphs import EDGE_LABEL, Codes, Labels, RawGraphs, encode
from sagpool.graphs.tu_files import TUFiles

log = logging.getLogger("sagpool")


def read_tu(files: TUFiles) -> RawGraphs:
    """Read and check every file of the data set."""
    labels = read_integers(files.read("graph_labels"), files.label("graph_labels"))
    nodes = _read_nodes(files, num_graphs=len(labels))
    # The line "u, v" is the edge from u to v, as in PyG; its features belong to that direction.
    ends = _read_ends(files, nodes)
    node_labels = node_attr = None
    if files.has("node_labels"):
        node_labels = _read_labels(files, "node_labels", "graph_indicator", nodes.total)
    if files.has("node_attributes"):
        node_attr = _read_attributes(files, "node_attributes", "graph_indicator", nodes.total)
    edge_attr, edge_labels = None, list[Codes]()
    if files.has("edge_attributes"):
        edge_attr = _read_attributes(files, "edge_attributes", "A", len(ends))
    if files.has("edge_labels"):
        edge_labels = _read_labels(files, "edge_labels", "A", len(ends))
    classes = encode(labels)
    CLASSES.check(len(classes.names), files.label("graph_labels"))
    return pack_arrays(
        files.name,
        nodes.per_graph,
        ends,
        classes=classes,
        node_labels=[Codes(c.code[nodes.order], c.names) for c in node_labels or ()],
        node_attr=None if node_attr is None else node_attr[nodes.order],
        edge_attr=edge_attr,
        edge_labels=[
            Labels(EDGE_LABEL if number == 1 else f"{EDGE_LABEL} {number}", *codes)
            for number, codes in enumerate(edge_labels, 1)
        ],
    )


class _Nodes(NamedTuple):
    graph: np.ndarray  # [nodes in file order]
    per_graph: np.ndarray  # [graphs]
    order: np.ndarray | slice  # file order -> packed order, in which each graph is contiguous
    position: np.ndarray | None  # the inverse of order; None if the file is in packed order

    @property
    def total(self) -> int:
        return int(self.per_graph.sum())


def _read_nodes(files: TUFiles, num_graphs: int) -> _Nodes:
    where = files.label("graph_indicator")
    graph = read_integers(files.read("graph_indicator"), where)[:, 0]
    graph -= 1
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
    if (graph[1:] >= graph[:-1]).all():
        return _Nodes(graph, per_graph, slice(None), None)
    order = np.argsort(graph, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return _Nodes(graph, per_graph, order, position)


def _read_ends(files: TUFiles, nodes: _Nodes) -> np.ndarray:
    where = files.label("A")
    ends = read_integers(files.read("A"), where, columns=2)
    ends -= 1
    outside = (ends < 0) | (ends >= nodes.total)
    if outside.any():
        line, column = np.argwhere(outside)[0]
        raise SagpoolError(
            f"{where}, line {line + 1}: node {ends[line, column] + 1} is not among "
            f"the nodes 1 to {nodes.total} of {files.label('graph_indicator')}."
        )
    one, other = nodes.graph[ends[:, 0]], nodes.graph[ends[:, 1]]
    if (line := int(np.argmax(one != other))) or one[0] != other[0]:
        raise SagpoolError(
            f"{where}, line {line + 1}: the edge joins a node of graph {one[line] + 1} to one of "
            f"graph {other[line] + 1}."
        )
    return ends if nodes.position is None else nodes.position[ends]


def _read_labels(files: TUFiles, kind: str, as_in: str, expected: int) -> list[Codes]:
    values = read_integers(files.read(kind), files.label(kind), columns=None)
    _expect_lines(files, kind, len(values), as_in, expected)
    return [encode(column) for column in values.T]


def _read_attributes(files: TUFiles, kind: str, as_in: str, expected: int) -> np.ndarray:
    values = read_floats(files.read(kind), files.label(kind))
    _expect_lines(files, kind, len(values), as_in, expected)
    return values


def _expect_lines(files: TUFiles, kind: str, lines: int, as_in: str, expected: int) -> None:
    if lines != expected:
        raise SagpoolError(
            f"{files.label(kind)} has {lines} lines, but {files.label(as_in)} has {expected}."
        )
