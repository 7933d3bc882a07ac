"""Graphs from and to PyG and networkx."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs.edges import pack_edges
from sagpool.graphs.features import Features, RawGraphs, choose_features, encode
from sagpool.graphs.graphs import Graphs

log = logging.getLogger("sagpool")

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


def from_pyg(
    data: Sequence[Data],
    *,
    name: str = "graphs",
    features: Features = "auto",
    degree_cap: int = 64,
) -> Graphs:
    """Pack PyG graphs: ``x`` (or else node degrees), ``edge_index``, ``edge_attr``, ``y``.

    Edges are made undirected, merged and freed of self-loops, with a warning that counts them.
    Classes are the values of ``y`` in ascending order.
    """
    if not len(data):
        raise SagpoolError("There is no graph to pack.")
    parts = [_from_data(graph, f"graph {i}") for i, graph in enumerate(data)]
    return choose_features(_pack(parts, name), features, degree_cap)


def to_pyg(graphs: Graphs) -> list[Data]:
    """One PyG ``Data`` for each graph, with ``ground_truth`` where it is known."""
    from torch_geometric.data import Data

    return [
        Data(
            x=graph.x,
            edge_index=graph.edge_index,
            **{
                field: value
                for field in ("y", "edge_attr", "ground_truth")
                if (value := getattr(graph, field)) is not None
            },
        )
        for graph in graphs
    ]


def from_networkx(
    graphs: Sequence[networkx.Graph],
    y: Sequence[Any] | None = None,
    *,
    node_label: str = "label",
    node_attr: str = "x",
    edge_attr: str = "weight",
    name: str = "graphs",
    features: Features = "auto",
    degree_cap: int = 64,
) -> Graphs:
    """Pack networkx graphs.

    Args:
        graphs: directed ones are made undirected, as everywhere
        y: class of each graph, any sortable values; by default ``graph.graph["y"]`` if all
            graphs have it
        node_label: node attribute that holds a label (any value), used if all nodes have it
        node_attr: node attribute that holds a number or a list of numbers, likewise
        edge_attr: edge attribute that holds a number or a list of numbers, likewise
        name: of the collection
        features: as in :func:`sagpool.load`
        degree_cap: as in :func:`sagpool.load`
    """
    if not len(graphs):
        raise SagpoolError("There is no graph to pack.")
    if y is None and all("y" in graph.graph for graph in graphs):
        y = [graph.graph["y"] for graph in graphs]
    if y is not None and len(y) != len(graphs):
        raise SagpoolError(f"There are {len(y)} classes for {len(graphs)} graphs.")
    parts = [
        _from_networkx(graph, f"graph {i}", node_attr, edge_attr) for i, graph in enumerate(graphs)
    ]
    raw = _pack(parts, name)
    labels = [label for graph in graphs for _, label in graph.nodes(data=node_label)]
    missing = [label is None for label in labels]
    if any(missing) and not all(missing):
        log.warning(
            "%d of %d nodes have no %s; it is not used.", sum(missing), len(labels), node_label
        )
    if not any(missing):
        codes = encode([str(label) for label in labels])
        raw = dataclasses.replace(
            raw, node_labels=codes.code[:, None].astype(np.int32), node_label_names=(codes.names,)
        )
    if y is not None:
        classes = encode(y)
        raw = dataclasses.replace(raw, y=classes.code, class_names=classes.names)
    return choose_features(raw, features, degree_cap)


@dataclasses.dataclass(frozen=True, eq=False)
class _Part:
    """One graph of a collection."""

    name: str
    nodes: int
    source: np.ndarray  # [edges] int64
    target: np.ndarray
    x: np.ndarray | None  # [nodes, features] float32
    edge_attr: np.ndarray | None  # [edges, edge features] float32
    y: int | None = None


def _from_data(data: Data, name: str) -> _Part:
    if data.edge_index is None:
        source = target = np.zeros(0, np.int64)
    else:
        if data.edge_index.ndim != 2 or data.edge_index.shape[0] != 2:
            shape = tuple(data.edge_index.shape)
            raise SagpoolError(f"{name}: edge_index has shape {shape}, not (2, edges).")
        source, target = data.edge_index.cpu().numpy().astype(np.int64)
    # PyG guesses a missing node count from the edges; isolated last nodes would be lost.
    nodes = int(data.num_nodes or 0)
    return _Part(
        name,
        nodes,
        source,
        target,
        _matrix(data.x, nodes, f"{name}: x"),
        _matrix(data.edge_attr, len(source), f"{name}: edge_attr"),
        None if data.y is None else _class_number(torch.as_tensor(data.y), name),
    )


def _class_number(y: torch.Tensor, name: str) -> int:
    if y.numel() != 1:
        raise SagpoolError(f"{name}: y has {y.numel()} values, not one class.")
    if not float(y).is_integer():
        raise SagpoolError(f"{name}: y is {y.item()}, not a class number.")
    return int(y)


def _from_networkx(graph: networkx.Graph, name: str, node_attr: str, edge_attr: str) -> _Part:
    index = {node: i for i, node in enumerate(graph.nodes)}
    edges = [(index[u], index[v], value) for u, v, value in graph.edges(data=edge_attr)]
    if not graph.is_directed():
        edges += [(v, u, value) for u, v, value in edges if u != v]
    ends = np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2)
    return _Part(
        name,
        len(index),
        ends[:, 0],
        ends[:, 1],
        _all_or_none([value for _, value in graph.nodes(data=node_attr)], f"{name}: {node_attr}"),
        _all_or_none([value for *_, value in edges], f"{name}: {edge_attr}"),
    )


def _all_or_none(values: list[Any], where: str) -> np.ndarray | None:
    if not values or any(value is None for value in values):
        return None
    return _matrix(values, len(values), where)


def _matrix(values: Any, rows: int, where: str) -> np.ndarray | None:
    """``[rows, columns]`` float32, all finite."""
    if values is None:
        return None
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    try:
        matrix = np.atleast_1d(np.asarray(values, np.float32))
    except (ValueError, TypeError):
        raise SagpoolError(f"{where} is not made of rows of numbers.") from None
    if len(matrix) != rows:
        raise SagpoolError(f"{where} has {len(matrix)} rows where {rows} were expected.")
    if not rows:
        return None
    matrix = matrix.reshape(rows, -1)
    if not np.isfinite(matrix).all():
        row = int(np.argwhere(~np.isfinite(matrix))[0, 0])
        raise SagpoolError(f"{where}: row {row} has a value that is not finite.")
    return matrix


def _pack(parts: list[_Part], name: str) -> RawGraphs:
    for part in parts:
        if part.nodes == 0:
            raise SagpoolError(f"{part.name} has no node.")
        ends = np.concatenate([part.source, part.target])
        if len(ends) and not 0 <= ends.min() <= ends.max() < part.nodes:
            bad = ends[(ends < 0) | (ends >= part.nodes)][0]
            raise SagpoolError(
                f"{part.name}: an edge names node {bad}, but there are {part.nodes} nodes."
            )
    node_counts = np.array([part.nodes for part in parts], np.int64)
    first = np.cumsum(node_counts) - node_counts
    edge_attr = _stack([p.edge_attr for p in parts if len(p.source)], "edge features")
    owner = np.repeat(np.arange(len(parts)), [len(part.source) for part in parts])
    edges = pack_edges(
        np.concatenate([part.source for part in parts]) + first[owner],
        np.concatenate([part.target for part in parts]) + first[owner],
        node_counts,
        edge_name=lambda edge: parts[owner[edge]].name,
        with_origin=edge_attr is not None,
    )
    ys = [part.y for part in parts if part.y is not None]
    if ys and len(ys) < len(parts):
        unlabelled = next(part.name for part in parts if part.y is None)
        raise SagpoolError(f"{unlabelled} has no class, while other graphs have one.")
    classes = encode(ys) if ys else None
    return RawGraphs(
        name=name,
        node_counts=node_counts,
        edge_counts=edges.edge_counts,
        degree=edges.degree,
        col=edges.col,
        y=classes.code if classes else None,
        class_names=classes.names if classes else (),
        node_attr=_stack([part.x for part in parts], "node features"),
        edge_attr=None if edge_attr is None else edge_attr[edges.origin],
        repairs=edges.repairs,
    )


def _stack(matrices: Sequence[np.ndarray | None], what: str) -> np.ndarray | None:
    widths = {None if matrix is None else matrix.shape[1] for matrix in matrices}
    if not widths or widths == {None}:
        return None
    if len(widths) > 1:
        counts = ", ".join(sorted(str(width or "no") for width in widths))
        raise SagpoolError(f"Graphs differ in their number of {what}: {counts}.")
    return np.concatenate([matrix for matrix in matrices if matrix is not None])
