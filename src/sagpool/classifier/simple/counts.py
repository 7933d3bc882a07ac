"""Counts of a whole graph: sizes, degrees, sums and means of node features.

Edge features are counted if they are columns of the nodes (``features="all"``): the columns of
`Graphs.edge_attr` need not mean the same in graphs from another source.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sagpool.classifier.simple.nodes import graph_sums, whole_columns
from sagpool.classifier.simple.saved import Arrays, Saved
from sagpool.errors import SagpoolError
from sagpool.foreign.values import decode
from sagpool.graphs.graphs import Graphs

DEGREES = 8  # degrees of 0 to 7, and 8 or more
WHOLE_GRAPH = 4  # columns of nodes, edges, density, edges per node
SPREADS = 3  # columns of each measured attribute: spread, minimum, maximum
LARGEST = 1e30  # squares and sums of it are finite in float64


@dataclass(frozen=True)
class Counts:
    """The columns of `matrix`, which depend only on the kind of node features."""

    attributes: tuple[str, ...]  # names of the columns of `Graphs.node_attr`
    labels: tuple[str, ...]  # names of the one-hot columns
    measured: tuple[int, ...]  # attributes that are not whole numbers in all training graphs

    @staticmethod
    def fit(graphs: Graphs) -> Counts:
        """The columns for graphs like the training graphs."""
        width = graphs.num_features - len(graphs.node_label_names)
        attributes = graphs.column_names[:width]
        measured = tuple(map(int, np.flatnonzero(~whole_columns(graphs))))
        return Counts(attributes, graphs.node_label_names, measured)

    @staticmethod
    def from_saved(config: Any, arrays: Arrays) -> Counts:
        counts = decode(Counts, config, "counts")
        if not all(0 <= column < len(counts.attributes) for column in counts.measured):
            raise SagpoolError("A simple model is damaged: it uses an attribute that is missing.")
        return counts

    def to_saved(self) -> Saved:
        return Saved({name: list(listed) for name, listed in asdict(self).items()}, {})

    def names(self) -> list[str]:
        """What each column counts, in words."""
        measured = [self.attributes[column] for column in self.measured]
        return [
            *("nodes", "edges", "density", "edges per node"),
            *(f"sum of {name}" for name in self.attributes),
            *(f"nodes with label {label}" for label in self.labels),
            *(f"mean of {name}" for name in self.attributes),
            *(f"fraction of nodes with label {label}" for label in self.labels),
            *(
                f"{what} of {name}"
                for what in ("spread", "minimum", "maximum")
                for name in measured
            ),
            *(f"nodes of degree {degree}" for degree in range(DEGREES)),
            f"nodes of degree {DEGREES} or more",
        ]

    def nodes(self, graph: Graphs, column: int) -> np.ndarray:
        """The nodes that a column counts by label, degree or attribute; otherwise none."""
        attributes, labels = len(self.attributes), len(self.labels)
        column -= WHOLE_GRAPH
        first_degree = 2 * (attributes + labels) + SPREADS * len(self.measured)
        if column < 0:
            return np.zeros(0, np.int64)
        if column >= first_degree:
            degree = np.minimum(graph.degree.cpu().numpy(), DEGREES)
            return np.flatnonzero(degree == column - first_degree)
        own = column % (attributes + labels)
        if column >= 2 * (attributes + labels) or own in self.measured:
            return np.zeros(0, np.int64)
        if own >= attributes:
            assert graph.node_label is not None
            return np.flatnonzero(graph.node_label.cpu().numpy() == own - attributes)
        assert graph.node_attr is not None
        return np.flatnonzero(graph.node_attr[:, own].cpu().numpy())

    def matrix(self, graphs: Graphs) -> np.ndarray:
        """``[graphs, columns]`` float32."""
        labels = len(graphs.node_label_names)
        attributes = graphs.num_features - labels
        if (attributes, labels) != (len(self.attributes), len(self.labels)):
            raise SagpoolError(
                f"{graphs.name} has {attributes} attributes and {labels} labels per node; the "
                f"model was trained with {len(self.attributes)} and {len(self.labels)}."
            )
        nodes = graphs.node_counts.astype(np.float64)[:, None]
        edges = graphs.edge_counts.astype(np.float64)[:, None] / 2
        sums = self._sums(graphs)  # [graphs, features]
        columns = [nodes, edges, 2 * edges / np.maximum(nodes * (nodes - 1), 1), edges / nodes]
        columns += [sums, sums / nodes, *self._spreads(graphs, sums / nodes), _degrees(graphs)]
        dense = np.concatenate(columns, axis=1)
        return np.clip(dense, -LARGEST, LARGEST).astype(np.float32)

    def _sums(self, graphs: Graphs) -> np.ndarray:
        """``[graphs, attributes + labels]`` float64, in the order of `Graphs.x`."""
        parts = []
        if graphs.node_attr is not None:
            parts.append(graph_sums(graphs.node_attr.cpu().numpy(), graphs.node_ptr))
        if graphs.node_label is not None:
            label = graphs.node_label.cpu().numpy().astype(np.int64)
            graph = np.repeat(np.arange(len(graphs)), graphs.node_counts)
            width = len(self.labels) + 1  # the first column is for nodes without a label, -1
            found = np.bincount(graph * width + label + 1, minlength=len(graphs) * width)
            parts.append(found.reshape(-1, width)[:, 1:].astype(np.float64))
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(graphs), 0))

    def _spreads(self, graphs: Graphs, means: np.ndarray) -> list[np.ndarray]:
        """Standard deviation, minimum and maximum of the measured attributes of each graph."""
        if graphs.node_attr is None or not self.measured:
            return []
        values = graphs.node_attr.cpu().numpy()[:, self.measured].astype(np.float64)
        mean = np.repeat(means[:, self.measured], graphs.node_counts, axis=0)
        variance = graph_sums((values - mean) ** 2, graphs.node_ptr)
        first = graphs.node_ptr[:-1]  # every graph has a node
        return [
            np.sqrt(variance / graphs.node_counts[:, None]),
            np.minimum.reduceat(values, first, axis=0),
            np.maximum.reduceat(values, first, axis=0),
        ]


def _degrees(graphs: Graphs) -> np.ndarray:
    """``[graphs, DEGREES + 1]`` float64: number of nodes of each degree."""
    degree = np.minimum(graphs.degree.cpu().numpy().astype(np.int64), DEGREES)
    graph = np.repeat(np.arange(len(graphs)), graphs.node_counts)
    width = DEGREES + 1
    found = np.bincount(graph * width + degree, minlength=len(graphs) * width)
    return found.reshape(-1, width).astype(np.float64)
