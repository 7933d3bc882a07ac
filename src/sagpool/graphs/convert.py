"""Graphs from and to PyG and networkx."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.foreign.values import decoding
from sagpool.graphs.features import Features, choose_features, encode
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.intake import pack_records
from sagpool.graphs.records import Record, all_or_none

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

    Edges are made undirected, duplicates merged and self-loops dropped, with a warning that counts
    them. Classes are the values of ``y`` in ascending order.
    """
    records = [_pyg_record(graph, f"graph {i}") for i, graph in enumerate(data)]
    return _pack(records, name, features, degree_cap)


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
        graphs: directed graphs are made undirected
        y: class of each graph, any sortable values; by default ``graph.graph["y"]`` if all
            graphs have it
        node_label: node attribute that holds a label (any value), used if all nodes have it
        node_attr: node attribute that holds a number or a list of numbers, likewise
        edge_attr: edge attribute that holds a number or a list of numbers, likewise
        name: of the collection
        features: as in :func:`sagpool.load`
        degree_cap: as in :func:`sagpool.load`
    """
    if y is None and all("y" in graph.graph for graph in graphs):
        y = [graph.graph["y"] for graph in graphs]
    classes = [None] * len(graphs) if y is None else _classes(y)
    if len(classes) != len(graphs):
        raise SagpoolError(f"There are {len(classes)} classes for {len(graphs)} graphs.")
    labels = [label for graph in graphs for _, label in graph.nodes(data=node_label)]
    missing = sum(label is None for label in labels)
    if 0 < missing < len(labels):
        log.warning("%d of %d nodes have no %s; it is not used.", missing, len(labels), node_label)
    used_label = None if missing else node_label
    records = [
        _networkx_record(graph, f"graph {i}", classes[i], used_label, node_attr, edge_attr)
        for i, graph in enumerate(graphs)
    ]
    return _pack(records, name, features, degree_cap)


def to_pyg(graphs: Graphs) -> list[Data]:
    """One PyG ``Data`` for each graph, with ``ground_truth`` if it is known."""
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


def _pack(records: list[Record], name: str, features: Features, degree_cap: int) -> Graphs:
    all_or_none(records, "target", "class")
    raw = pack_records(records, name, encode=encode, undirected=False)
    return choose_features(raw, features, degree_cap)


def _pyg_record(data: Data, place: str) -> Record:
    edge_index = _tensor(
        torch.zeros(2, 0) if data.edge_index is None else data.edge_index, f"{place}: edge_index"
    )
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise SagpoolError(
            f"{place}: edge_index has shape {tuple(edge_index.shape)}, not (2, edges)."
        )
    if edge_index.numel() and (edge_index.is_floating_point() or edge_index.is_complex()):
        raise SagpoolError(f"{place}: edge_index is {edge_index.dtype}, not whole numbers.")
    # PyG infers a missing node count from the edges; isolated last nodes would be lost.
    with decoding(lambda reason: f"{place}: its number of nodes is unknown ({reason})."):
        nodes = int(data.num_nodes or 0)
    return Record(
        place,
        place,
        nodes,
        edge_index.T.cpu().numpy().astype(np.int64).ravel(),
        features=_flat(data.x, nodes, f"{place}: x"),
        target=None if data.y is None else _class_number(_tensor(data.y, f"{place}: y"), place),
        edge_features=_flat(data.edge_attr, edge_index.shape[1], f"{place}: edge_attr"),
    )


def _class_number(y: torch.Tensor, place: str) -> int:
    if y.numel() != 1:
        raise SagpoolError(f"{place}: y has {y.numel()} values, not one class.")
    if y.is_complex() or not float(y).is_integer():
        raise SagpoolError(f"{place}: y is {y.item()}, not a class number.")
    return int(y)


def _classes(y: Sequence[Any]) -> list[Any]:
    """Classes that can be sorted: all texts, or all finite numbers."""
    values = y.tolist() if isinstance(y, np.ndarray | torch.Tensor) else list(y)
    texts = [isinstance(value, str) for value in values]
    if not all(texts) and not (any(texts) or all(map(_is_number, values))):
        raise SagpoolError("Classes must be texts or finite numbers.")
    if any(texts) and not all(texts):
        raise SagpoolError("Classes must be all texts or all numbers; some are each.")
    return values


def _is_number(value: Any) -> bool:
    numeric = isinstance(value, int | float | np.number | np.bool_)
    return numeric and not isinstance(value, complex | np.complexfloating) and abs(value) < 2**63


def _tensor(values: Any, where: str) -> torch.Tensor:
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise SagpoolError(f"{where} must be a tensor of numbers.") from None
    if tensor.layout is not torch.strided:
        raise SagpoolError(f"{where} is a sparse tensor; give a dense one.")
    return tensor


def _networkx_record(
    graph: networkx.Graph,
    place: str,
    target: Any,
    node_label: str | None,
    node_attr: str,
    edge_attr: str,
) -> Record:
    index = {node: i for i, node in enumerate(graph.nodes)}
    edges = [(index[u], index[v], value) for u, v, value in graph.edges(data=edge_attr)]
    if not graph.is_directed():
        edges += [(v, u, value) for u, v, value in edges if u != v]
    return Record(
        place,
        place,
        len(index),
        [end for edge in edges for end in edge[:2]],
        labels=None if node_label is None else [str(x) for _, x in graph.nodes(data=node_label)],
        features=_complete([x for _, x in graph.nodes(data=node_attr)], f"{place}: {node_attr}"),
        target=target,
        edge_features=_complete([value for *_, value in edges], f"{place}: {edge_attr}"),
    )


def _complete(values: list[Any], where: str) -> np.ndarray | None:
    """The values if all nodes or edges have one, otherwise None."""
    return None if any(value is None for value in values) else _flat(values, len(values), where)


def _flat(values: Any, rows: int, where: str) -> np.ndarray | None:
    """``[rows * columns]`` float32."""
    if values is None:
        return None
    if isinstance(values, torch.Tensor):
        values = _tensor(values, where).detach().cpu().numpy()
    try:
        with np.errstate(over="ignore"):
            matrix = np.atleast_1d(np.asarray(values, np.float32))
    except (ValueError, TypeError, OverflowError):
        raise SagpoolError(f"{where} must be rows of numbers.") from None
    if len(matrix) != rows:
        raise SagpoolError(f"{where} has {len(matrix)} rows; expected {rows}.")
    return matrix.ravel()
