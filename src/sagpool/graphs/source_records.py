"""The graphs of any source as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sagpool.foreign.paths import user_path
from sagpool.graphs.load import read_raw
from sagpool.graphs.raw_graphs import RawGraphs
from sagpool.graphs.record_files import holds_records, read_records
from sagpool.graphs.records import Columns, Record


def source_records(source: str, columns: Columns = Columns()) -> Iterator[Record]:
    """The graphs of anything that `sagpool.load` reads, with all that is known about them."""
    path = user_path(source)
    if holds_records(path):
        yield from read_records(path, columns)
    else:
        yield from records_of(read_raw(source))


def records_of(raw: RawGraphs) -> Iterator[Record]:
    """The graphs one by one, each edge in both directions."""
    node_ptr = np.concatenate([[0], np.cumsum(raw.node_counts)])
    edge_ptr = np.concatenate([[0], np.cumsum(raw.edge_counts)])
    own = np.arange(node_ptr[-1]) - np.repeat(node_ptr[:-1], raw.node_counts)
    ends = np.stack([raw.col, np.repeat(own, raw.degree)], 1)  # [edges, 2] source and target
    labels: list[list[str | None]] = []
    if raw.node_labels is not None:
        columns = zip(raw.node_labels.T, raw.node_label_names, strict=True)
        labels = [_named(code, names) for code, names in columns]
    more = {f"label {number}": texts for number, texts in enumerate(labels[1:], 2)}
    more |= {one.title: _named(one.code, one.names) for one in raw.more_labels}
    of_edges = {one.title: _named(one.code, one.names) for one in raw.edge_labels}
    for graph in range(len(raw.node_counts)):
        nodes = slice(node_ptr[graph], node_ptr[graph + 1])
        edges = slice(edge_ptr[graph], edge_ptr[graph + 1])
        yield Record(
            f"graph {graph + 1} of {raw.name}",
            str(graph + 1),
            int(raw.node_counts[graph]),
            ends[edges].reshape(-1),
            labels=[text or "" for text in labels[0][nodes]] if labels else None,
            features=None if raw.node_attr is None else raw.node_attr[nodes].reshape(-1),
            edge_features=None if raw.edge_attr is None else raw.edge_attr[edges].reshape(-1),
            more_labels={title: texts[nodes] for title, texts in more.items()},
            edge_labels={title: texts[edges] for title, texts in of_edges.items()},
        )


def _named(code: np.ndarray, names: Sequence[str]) -> list[str | None]:
    known = [*names, None]  # -1 is the last one
    return [known[one] for one in code.tolist()]
