"""The intake of graphs: every source gives records or arrays, which are checked and packed here."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import BARE_NODES
from sagpool.graphs.edge_cleaning import pack_edges
from sagpool.graphs.features import Codes, RawGraphs, encode_texts
from sagpool.graphs.records import Record, all_or_none


def pack_records(
    records: Sequence[Record],
    name: str,
    *,
    encode: Callable[[list[Any]], Codes] = encode_texts,
    undirected: bool = True,
) -> RawGraphs:
    """Pack graphs that were given one by one, with classes if every graph has one.

    Args:
        records: the graphs
        name: of the collection
        encode: numbers the node labels, and the classes
        undirected: whether an edge may be given once or in both directions; otherwise missing
            directions are counted in a warning
    """
    if not records:
        raise SagpoolError(f"{name} has no graph.")
    BARE_NODES.check(sum(record.bare_nodes for record in records), name)
    node_counts = np.array([record.nodes for record in records], np.int64)
    edge_counts = np.array([record.num_edges for record in records], np.int64)
    first_node = np.repeat(np.cumsum(node_counts) - node_counts, edge_counts)  # [input edges]
    ends = _concatenate((r.edges for r in records), np.int64).reshape(-1, 2) + first_node[:, None]
    node_labels = []
    if all_or_none(records, "labels", "node labels"):
        node_labels.append(encode(list(chain.from_iterable(r.labels or () for r in records))))
    targets = [record.target for record in records]
    return pack_arrays(
        name,
        node_counts,
        ends,
        undirected=undirected,
        classes=None if any(target is None for target in targets) else encode(targets),
        node_labels=node_labels,
        node_attr=_feature_matrix(records, "features", "node", node_counts),
        edge_attr=_feature_matrix(records, "edge_features", "edge", edge_counts),
    )


def pack_arrays(
    name: str,
    node_counts: np.ndarray,
    ends: np.ndarray,
    *,
    undirected: bool = False,
    classes: Codes | None = None,
    node_labels: Sequence[Codes] = (),
    node_attr: np.ndarray | None = None,
    edge_attr: np.ndarray | None = None,
) -> RawGraphs:
    """Pack graphs that were given as arrays over the whole collection.

    Args:
        name: of the collection
        node_counts: ``[graphs]`` int64
        ends: ``[input edges, 2]`` int64 source and target, which are in the same graph; nodes are
            numbered through the whole collection
        undirected: whether an edge may be given once or in both directions
        classes: one for each graph
        node_labels: one for each node, for each column of labels
        node_attr: ``[nodes, attributes]`` float32
        edge_attr: ``[input edges, edge features]`` float32
    """
    edges = pack_edges(
        np.ascontiguousarray(ends[:, 0]),
        np.ascontiguousarray(ends[:, 1]),
        node_counts,
        with_origin=edge_attr is not None,
        undirected=undirected,
    )
    codes = [column.code for column in node_labels]
    return RawGraphs(
        name=name,
        node_counts=node_counts,
        edge_counts=edges.edge_counts,
        degree=edges.degree,
        col=edges.col,
        y=None if classes is None else classes.code,
        class_names=() if classes is None else classes.names,
        node_labels=np.stack(codes, axis=1, dtype=np.int32, casting="same_kind") if codes else None,
        node_label_names=tuple(column.names for column in node_labels),
        node_attr=node_attr,
        edge_attr=None if edge_attr is None else edge_attr[edges.origin],
        repairs=edges.repairs,
    )


def _feature_matrix(
    records: Sequence[Record], field: str, kind: str, counts: np.ndarray
) -> np.ndarray | None:
    """``[nodes or edges, features]`` float32, all finite; None if the graphs have no such field."""
    owners = [record for record, count in zip(records, counts, strict=True) if count]
    if not all_or_none(owners, field, f"{kind} features"):
        return None
    rows = [getattr(record, field) for record in owners]
    counts = counts[counts > 0]
    widths = [len(flat) // count for flat, count in zip(rows, counts.tolist(), strict=True)]
    for record, width in zip(owners, widths, strict=True):
        if width != widths[0]:
            others = f"{owners[0].place} has {widths[0]}"
            raise SagpoolError(f"{record.place} has {width} {kind} features, but {others}.")
    with np.errstate(over="ignore"):
        matrix = _concatenate(rows, np.float64).astype(np.float32, copy=False)
    matrix = matrix.reshape(int(counts.sum()), -1)
    if not np.isfinite(matrix).all():
        row = int(np.argwhere(~np.isfinite(matrix))[0, 0])
        owner = int(np.searchsorted(np.cumsum(counts), row, "right"))
        row -= int(counts[:owner].sum())
        raise SagpoolError(
            f"{owners[owner].place}: {kind} {row} has a feature that is not a finite number."
        )
    return matrix


def _concatenate(parts: Iterable[Sequence[Any] | np.ndarray], dtype: Any) -> np.ndarray:
    parts = list(parts)
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return np.fromiter(chain.from_iterable(parts), dtype)
