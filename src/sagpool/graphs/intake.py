"""The intake of graphs: every source gives records or arrays, which are checked and packed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import BARE_NODES
from sagpool.graphs.edge_cleaning import pack_edges
from sagpool.graphs.raw_graphs import Codes, Labels, RawGraphs, encode_some, encode_texts
from sagpool.graphs.records import Record, all_or_none
from sagpool.graphs.times import ranks_of_times

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FRAGMENTS = 2**32  # possible hashes of a Morgan environment


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
        name: name of the collection
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
    raw = pack_arrays(
        name,
        node_counts,
        ends,
        undirected=undirected,
        classes=None if any(target is None for target in targets) else encode(targets),
        node_labels=node_labels,
        node_attr=_feature_matrix(records, "features", "node", node_counts),
        edge_attr=_feature_matrix(records, "edge_features", "edge", edge_counts),
        more_labels=_labels(records, "more_labels", node_counts),
        edge_labels=_labels(records, "edge_labels", edge_counts),
    )
    groups = [record.group for record in records]
    return replace(
        raw,
        attribute_names=records[0].attribute_names,
        ids=np.array([record.name for record in records], object),
        group=None if None in groups else encode_texts(groups).code,  # type: ignore[arg-type]
        time=_times(records),
        fragments=_fragments(records),
    )


def _times(records: Sequence[Record]) -> np.ndarray | None:
    if not all_or_none(records, "time", "time"):
        return None
    return ranks_of_times([str(one.time) for one in records], [one.place for one in records])


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
    more_labels: Sequence[Labels] = (),
    edge_labels: Sequence[Labels] = (),
) -> RawGraphs:
    """Pack graphs that were given as arrays over the whole collection.

    Args:
        name: name of the collection
        node_counts: ``[graphs]`` int64
        ends: ``[input edges, 2]`` int64 source and target, which are in the same graph; nodes are
            numbered through the whole collection
        undirected: whether an edge may be given once or in both directions
        classes: one for each graph
        node_labels: one for each node, for each column of labels
        node_attr: ``[nodes, attributes]`` float32
        edge_attr: ``[input edges, edge features]`` float32
        more_labels: further labels of the nodes, for ``features="all"``
        edge_labels: one for each input edge, for each column of labels
    """
    edges = pack_edges(
        np.ascontiguousarray(ends[:, 0]),
        np.ascontiguousarray(ends[:, 1]),
        node_counts,
        with_origin=edge_attr is not None or bool(edge_labels),
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
        more_labels=tuple(more_labels),
        edge_labels=tuple(
            Labels(title, code[edges.origin].astype(np.int32), names)
            for title, code, names in edge_labels
        ),
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


def _labels(records: Sequence[Record], field: str, counts: np.ndarray) -> list[Labels]:
    """Labels by title; graphs without nodes (or edges) of that kind need not have the title."""
    owners = [record for record, count in zip(records, counts, strict=True) if count]
    titles = list(getattr(owners[0], field)) if owners else []
    for record in owners:
        if list(getattr(record, field)) != titles:
            here, there = getattr(record, field), getattr(owners[0], field)
            title = next(t for t in [*here, *there] if (t in here) != (t in there))
            one, other = (record, owners[0]) if title in there else (owners[0], record)
            raise SagpoolError(f"{one.place} has no '{title}', but {other.place} has.")
    columns = []
    for title in titles:
        values = chain.from_iterable(getattr(record, field)[title] for record in owners)
        code, names = encode_some(list(values))
        columns.append(Labels(title, code.astype(np.int32), names))
    return columns


def _fragments(records: Sequence[Record]) -> csr_array | None:
    """``[graphs, 2**32]`` counts; None unless all records have them."""
    counts = [record.fragments for record in records if record.fragments is not None]
    if len(counts) < len(records):
        return None
    from scipy.sparse import csr_array

    ends = np.cumsum([0, *map(len, counts)], dtype=np.int64)
    columns = np.fromiter(chain.from_iterable(counts), np.int64, ends[-1])
    values = np.fromiter(chain.from_iterable(c.values() for c in counts), np.float32, ends[-1])
    fragments = csr_array((values, columns, ends), shape=(len(records), FRAGMENTS))
    fragments.sort_indices()
    return fragments


def _concatenate(parts: Iterable[Sequence[Any] | np.ndarray], dtype: Any) -> np.ndarray:
    parts = list(parts)
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return np.fromiter(chain.from_iterable(parts), dtype)
