"""Graphs as plain Python values, for comparison with those of the package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzing.target import expect
from sagpool.graphs.raw_graphs import RawGraphs


@dataclass
class PlainGraph:
    nodes: int
    edges: set[tuple[int, int]]  # the lower node first, without self-loops
    labels: list[tuple[str, ...]] | None = None  # labels of each node, one for each column
    features: list[list[float]] | None = None
    target: Any = None


def undirected(pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}


def plain_graphs(raw: RawGraphs, *, simple: bool = True) -> list[PlainGraph]:
    """Graphs of the package, by slow loops over its arrays; ``simple`` also checks symmetry."""
    graphs, node, edge = [], 0, 0
    for number, count in enumerate(raw.node_counts.tolist()):
        pairs = []
        for own in range(count):
            for _ in range(int(raw.degree[node + own])):
                pairs.append((own, int(raw.col[edge])))
                edge += 1
        expect(len(pairs) == int(raw.edge_counts[number]), "edge_counts and degree differ")
        expect(all(0 <= b < count for _, b in pairs), "an edge leads out of its graph")
        if simple:
            expect(len(set(pairs)) == len(pairs), "an edge is there twice")
            expect({(b, a) for a, b in pairs} == set(pairs), "an edge is not symmetric")
        labels = features = None
        if raw.node_labels is not None:
            labels = [
                tuple(names[code] for names, code in zip(raw.node_label_names, row, strict=True))
                for row in raw.node_labels[node : node + count].tolist()
            ]
        if raw.node_attr is not None:
            features = raw.node_attr[node : node + count].tolist()
        target = None if raw.y is None else raw.class_names[int(raw.y[number])]
        graphs.append(PlainGraph(count, undirected(pairs), labels, features, target))
        node += count
    expect(edge == len(raw.col), "col has more entries than degree says")
    return graphs


def compare(found: list[PlainGraph], expected: list[PlainGraph]) -> None:
    expect(len(found) == len(expected), f"{len(found)} graphs, not {len(expected)}")
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        for name in ("nodes", "edges", "labels", "target"):
            ours, theirs = getattr(one, name), getattr(other, name)
            expect(
                ours == theirs, f"graph {number}: {name} {str(ours)[:80]}, not {str(theirs)[:80]}"
            )
        expect((one.features is None) == (other.features is None), f"graph {number}: features")
        if other.features is not None:
            same = np.array_equal(
                np.array(one.features, np.float32), np.array(other.features, np.float32)
            )
            expect(same, f"graph {number}: features differ")


def random_graph(random: Any, labels: int, features: int) -> PlainGraph:
    nodes = random.choice((1, 1, 2, 3, 5, 8))
    pairs = [
        (random.randrange(nodes), random.randrange(nodes))
        for _ in range(random.randrange(2 * nodes))
    ]
    return PlainGraph(
        nodes,
        undirected(pairs),
        [tuple(str(random.randrange(4)) for _ in range(labels)) for _ in range(nodes)]
        if labels
        else None,
        [[random.randrange(-9, 9) / 4 for _ in range(features)] for _ in range(nodes)]
        if features
        else None,
        str(random.randrange(3)),
    )
