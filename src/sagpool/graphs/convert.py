"""Graphs from and to PyG and networkx."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.foreign.values import decoding
from sagpool.graphs.columns import Encoding
from sagpool.graphs.features import Features, choose_features
from sagpool.graphs.graphs import Graphs, Task
from sagpool.graphs.intake import pack_records
from sagpool.graphs.pyg_labels import with_labels
from sagpool.graphs.raw_graphs import EDGE_LABEL, encode
from sagpool.graphs.records import Record, all_or_none
from sagpool.graphs.targets import check_task, with_targets

log = logging.getLogger("sagpool")

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


def from_pyg(
    data: Sequence[Data],
    *,
    name: str = "graphs",
    features: Features | Encoding = "auto",
    degree_cap: int = 64,
    task: Task = "classification",
) -> Graphs:
    """Pack PyG graphs: ``x`` (or else node degrees), ``edge_index``, ``edge_attr``, ``y``.

    Edges are made undirected, duplicates merged and self-loops dropped, with a warning that counts
    them. Classes are the values of ``y`` in ascending order; for another task, ``y`` has one or
    more numbers, NaN if missing. With ``features="all"``, columns of whole numbers (by
    their type) and one-hot columns of ``x`` and ``edge_attr`` are labels.
    """
    check_task(task)
    records = [_pyg_record(graph, f"graph {i}", task) for i, graph in enumerate(data)]
    if not isinstance(features, Encoding) and features != "all":
        return _pack(records, name, features, degree_cap, task)
    records, roles = with_labels(records, list(data), features)
    graphs = _pack(records, name, features, degree_cap, task)
    assert graphs.encoding is not None, "all features have an encoding"
    return replace(graphs, encoding=replace(graphs.encoding, **roles._asdict()))


def from_networkx(
    graphs: Sequence[networkx.Graph],
    y: Sequence[Any] | None = None,
    *,
    node_label: str = "label",
    node_attr: str = "x",
    edge_label: str = "label",
    edge_attr: str = "weight",
    name: str = "graphs",
    features: Features | Encoding = "auto",
    degree_cap: int = 64,
    task: Task = "classification",
) -> Graphs:
    """Pack networkx graphs.

    Args:
        graphs: directed graphs are made undirected
        y: class of each graph, any sortable values; by default ``graph.graph["y"]`` if all
            graphs have it. For another task: a number or a row of numbers, NaN is missing
        node_label: node attribute that holds a label (any value), used if all nodes have it
        node_attr: node attribute that holds a number or a list of numbers, used if all nodes have
            it
        edge_label: edge attribute that holds a label, used if all edges have it; for
            ``features="all"``
        edge_attr: edge attribute that holds a number or a list of numbers, used if all edges have
            it
        name: name of the collection
        features: as in :func:`sagpool.load`
        degree_cap: as in :func:`sagpool.load`
        task: as in :func:`sagpool.load`
    """
    check_task(task)
    if y is None and all("y" in graph.graph for graph in graphs):
        y = [graph.graph["y"] for graph in graphs]
    if y is None:
        targets: list[Any] = [None] * len(graphs)
    else:
        targets = _classes(y) if task == "classification" else list(y)
    if len(targets) != len(graphs):
        raise SagpoolError(f"There are {len(targets)} classes for {len(graphs)} graphs.")
    used = _Used(
        _usable_attribute((x for graph in graphs for _, x in graph.nodes(data=node_label)),
                          node_label, "nodes"),
        _usable_attribute((x for graph in graphs for _, x in graph.nodes(data=node_attr)),
                          node_attr, "nodes"),
        _usable_attribute((x for graph in graphs for *_, x in graph.edges(data=edge_label)),
                          edge_label, "edges"),
        _usable_attribute((x for graph in graphs for *_, x in graph.edges(data=edge_attr)),
                          edge_attr, "edges"),
    )  # fmt: skip
    records = [
        _networkx_record(graph, f"graph {i}", targets[i], task, used)
        for i, graph in enumerate(graphs)
    ]
    return _pack(records, name, features, degree_cap, task)


class _Used(NamedTuple):
    """The attributes of nodes and edges that are used; None if some nodes or edges lack it."""

    node_label: str | None
    node_attr: str | None
    edge_label: str | None
    edge_attr: str | None


def _usable_attribute(values: Iterable[Any], attribute: str, owners: str) -> str | None:
    missing = [value is None for value in values]
    if not any(missing):
        return attribute if missing else None
    if not all(missing):
        counts = sum(missing), len(missing)
        log.warning("%d of %d %s have no %s; it is not used.", *counts, owners, attribute)
    return None


def to_pyg(graphs: Graphs) -> list[Data]:
    """One PyG ``Data`` for each graph, with ``ground_truth`` if known."""
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


def _pack(
    records: list[Record], name: str, features: Features | Encoding, degree_cap: int, task: Task
) -> Graphs:
    if task == "classification":
        all_or_none(records, "target", "class")
    raw = pack_records(records, name, encode=encode, undirected=False)
    return choose_features(with_targets(raw, records, task), features, degree_cap)


def _pyg_record(data: Data, place: str, task: Task) -> Record:
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
    y = None if data.y is None else _tensor(data.y, f"{place}: y")
    return Record(
        place,
        place,
        nodes,
        edge_index.T.cpu().numpy().astype(np.int64).ravel(),
        features=_flat(data.x, nodes, f"{place}: x"),
        target=_class_number(y, place) if y is not None and task == "classification" else None,
        targets=_numbered(y, place) if y is not None and task != "classification" else None,
        edge_features=_flat(data.edge_attr, edge_index.shape[1], f"{place}: edge_attr"),
    )


def _numbered(y: Any, place: str) -> dict[str, float]:
    """Targets by name: y, or y 0, y 1, ..."""
    values = _flat(y, len(y) if np.ndim(y) else 1, f"{place}: y")
    assert values is not None, "a target is there"
    if len(values) == 1:
        return {"y": float(values[0])}
    return {f"y {number}": value for number, value in enumerate(values.tolist())}


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
        raise SagpoolError("Classes must be either all texts or all numbers, not both.")
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
    graph: networkx.Graph, place: str, target: Any, task: Task, used: _Used
) -> Record:
    index = {node: i for i, node in enumerate(graph.nodes)}
    edges = [(index[u], index[v], attributes) for u, v, attributes in graph.edges(data=True)]
    if not graph.is_directed():
        edges += [(v, u, attributes) for u, v, attributes in edges if u != v]
    node_attr, edge_attr = used.node_attr, used.edge_attr
    x = None if node_attr is None else [value for _, value in graph.nodes(data=node_attr)]
    weights = None if edge_attr is None else [attributes[edge_attr] for *_, attributes in edges]
    return Record(
        place,
        place,
        len(index),
        [end for edge in edges for end in edge[:2]],
        labels=None
        if used.node_label is None
        else [str(label) for _, label in graph.nodes(data=used.node_label)],
        features=_flat(x, len(index), f"{place}: {node_attr}"),
        target=target if task == "classification" else None,
        targets=None if task == "classification" or target is None else _numbered(target, place),
        edge_features=_flat(weights, len(edges), f"{place}: {edge_attr}"),
        edge_labels={}
        if used.edge_label is None
        else {EDGE_LABEL: [str(attributes[used.edge_label]) for *_, attributes in edges]},
    )


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
