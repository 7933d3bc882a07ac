"""Graphs to compare an exported model on, with the inputs that a caller would pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, count, islice
from typing import Any, NamedTuple

import numpy as np

from sagpool.export.plan import Plan
from sagpool.export.runtime.inputs import EDGE_LABELS, NODE_LABELS, flat_fragments
from sagpool.graphs import Graphs
from sagpool.graphs.columns import ATTRIBUTE
from sagpool.graphs.record_files import chunks_of
from sagpool.graphs.records import Record
from sagpool.graphs.vocabulary import Vocabulary

BATCH = 256  # graphs per batch
DROPPED = 0.1  # fraction of the edges, in altered graphs


class Sample(NamedTuple):
    """Some graphs, for our own predictor and for the exported model."""

    graphs: Graphs
    records: list[Record]
    inputs: dict[str, Any]


def samples(
    records: Iterable[Record], plan: Plan, vocabulary: Vocabulary, least: int
) -> Iterator[Sample]:
    """All these graphs; if there are fewer than ``least``, also altered copies.

    An altered copy lacks some of the edges.
    """
    given = [*records]
    kept = [replace(vocabulary.check(record), molecule=None) for record in given]
    draw = np.random.default_rng(0)
    copies = (_altered(kept[number % len(kept)], draw) for number in count())
    every = chain(kept, islice(copies, max(0, least - len(kept))))
    while part := [*islice(every, BATCH)]:
        # As one collection: `Chunk.graphs` may be fewer if the graphs are large.
        for one in _split(part, vocabulary):
            yield Sample(one.graphs, one.records, inputs_of(one.records, plan))


class _Part(NamedTuple):
    graphs: Graphs
    records: list[Record]


def _split(records: list[Record], vocabulary: Vocabulary) -> Iterator[_Part]:
    start = 0
    for chunk in chunks_of(iter(records), "graphs", vocabulary, size=BATCH):
        yield _Part(chunk.graphs, records[start : start + len(chunk.graphs)])
        start += len(chunk.graphs)


def inputs_of(records: list[Record], plan: Plan) -> dict[str, Any]:
    """The inputs of an exported model for these graphs."""
    sizes = np.array([record.nodes for record in records], np.int64)
    first = np.cumsum(sizes) - sizes
    ends = [np.asarray(r.edges, np.int64) + f for r, f in zip(records, first, strict=True)]
    inputs: dict[str, Any] = {"edges": np.concatenate(ends).reshape(-1, 2), "sizes": sizes}
    for name, columns in plan.description["inputs"].items():
        if name in ("features", "edge_features"):
            given = [getattr(record, name) for record in records]
            rows = [np.asarray(() if one is None else one, np.float64) for one in given]
            inputs[name] = np.concatenate(rows).astype(np.float32).reshape(-1, columns)
        elif name == "labels":
            inputs[name] = _texts(record.labels for record in records)
        elif name.startswith(NODE_LABELS):
            title = name.removeprefix(NODE_LABELS)
            inputs[name] = _texts(record.more_labels[title] for record in records)
        elif name.startswith(EDGE_LABELS):
            title = name.removeprefix(EDGE_LABELS)
            inputs[name] = _texts(record.edge_labels.get(title, ()) for record in records)
    if "fragments" in plan.description["inputs"]:
        inputs |= flat_fragments([record.fragments or {} for record in records], len(records))
    return inputs


def _texts(parts: Iterable[Any]) -> np.ndarray:
    """The texts of all graphs; a missing label is an empty text."""
    texts = ["" if text is None else text for part in parts for text in part]
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def _altered(record: Record, draw: np.random.Generator) -> Record:
    """The graph without some of its edges."""
    ends = np.asarray(record.edges, np.int64).reshape(-1, 2)
    left = np.flatnonzero(draw.random(len(ends)) >= DROPPED)
    labels = {
        title: [texts[edge] for edge in left.tolist()]
        for title, texts in record.edge_labels.items()
    }
    features = record.edge_features
    if features is not None:
        features = np.asarray(features, np.float64).reshape(len(ends), -1)[left].reshape(-1)
    return replace(record, edges=ends[left].reshape(-1), edge_labels=labels, edge_features=features)


def drawn_records(plan: Plan, vocabulary: Vocabulary) -> Iterator[Record]:
    """Endless random graphs with labels of the vocabulary, occasionally an unknown one."""
    draw = np.random.default_rng(0)
    described = plan.description
    groups = [group for group in described["groups"] if "names" in group and "input" in group]
    known = vocabulary.encoding
    attribute_names = tuple(c.name for c in known.of_group(ATTRIBUTE)) if known else ()
    environments = [
        plan.arrays[block["vocabulary"]]
        for part in described["parts"]
        for block in part.get("features", ())
        if block["kind"] == "environments"
    ]

    def texts(names: list[str], size: int) -> list[str]:
        numbers = draw.integers(-1, len(names), size)
        rare = draw.random(size) < 0.9  # otherwise an unknown label
        chosen = np.where(rare & (len(names) > 0), np.abs(numbers), -1)
        return [names[number] if 0 <= number < len(names) else "?" for number in chosen]

    for number in count():
        nodes = int(draw.integers(1, 30))
        joins = [(int(draw.integers(max(0, v - 3), v)), v) for v in range(1, nodes)]
        joins += [(0, int(draw.integers(1, nodes))) for _ in range(nodes // 6)]
        edges = [end for pair in joins for end in pair]
        width, edge_width = (described["inputs"].get(n, 0) for n in ("features", "edge_features"))
        titled = {one["input"]: one["names"] for one in groups}
        yield Record(
            f"graph {number}",
            str(number),
            nodes,
            edges,
            labels=texts(described["labels"], nodes) if "labels" in described["inputs"] else None,
            features=draw.normal(size=nodes * width).tolist() if width else None,
            attribute_names=attribute_names,
            edge_features=draw.normal(size=len(joins) * edge_width).tolist()
            if edge_width
            else None,
            more_labels={
                name.removeprefix(NODE_LABELS): texts(names, nodes)
                for name, names in titled.items()
                if name.startswith(NODE_LABELS)
            },
            edge_labels={
                name.removeprefix(EDGE_LABELS): texts(names, len(joins))
                for name, names in titled.items()
                if name.startswith(EDGE_LABELS)
            },
            fragments={
                int(one): int(draw.integers(1, 4))
                for every in environments
                for one in (
                    draw.choice(every, min(8, len(every)), replace=False) if len(every) else ()
                )
            }
            if environments
            else None,
        )
