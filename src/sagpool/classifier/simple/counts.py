"""Counts of a whole graph: sizes, sums and means of node features, degrees, edge features."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sagpool.classifier.simple.nodes import graph_sums, whole_columns
from sagpool.classifier.simple.saved import Arrays
from sagpool.errors import SagpoolError
from sagpool.foreign.values import decode
from sagpool.graphs.graphs import Graphs

DEGREES = 8  # degrees of 0 to 7, and 8 or more
LARGEST = 1e30  # squares and sums of it are finite in float64


@dataclass(frozen=True)
class Counts:
    """The columns of `matrix`, which depend on the kind of node features alone."""

    labels: tuple[str, ...]  # names of the one-hot columns
    attributes: int  # columns of `Graphs.node_attr`
    measured: tuple[int, ...]  # those of them that have other values than whole numbers
    edge_features: int

    @staticmethod
    def fit(graphs: Graphs) -> Counts:
        """The columns for graphs like the training graphs."""
        attributes = 0 if graphs.node_attr is None else graphs.node_attr.shape[1]
        edge_features = 0 if graphs.edge_attr is None else graphs.edge_attr.shape[1]
        whole = whole_columns(graphs.node_attr)
        whole[: graphs.continuous] = False
        measured = tuple(map(int, np.flatnonzero(~whole)))
        return Counts(graphs.node_label_names, attributes, measured, edge_features)

    @staticmethod
    def from_saved(config: Any, arrays: Arrays) -> Counts:
        counts = decode(Counts, config, "counts")
        if min(counts.attributes, counts.edge_features) < 0 or not all(
            0 <= column < counts.attributes for column in counts.measured
        ):
            raise SagpoolError("A simple model is damaged: its counts name columns that are not.")
        return counts

    def to_saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        config = asdict(self)
        return config | {"labels": list(self.labels), "measured": list(self.measured)}, {}

    def names(self) -> list[str]:
        """What each column counts, in words."""
        attributes = [f"attribute {column}" for column in range(self.attributes)]
        measured = [attributes[column] for column in self.measured]
        features = [*attributes, *(f"label {label}" for label in self.labels)]
        degrees = [f"nodes of degree {degree}" for degree in range(DEGREES)]
        edges = [f"edge feature {column}" for column in range(self.edge_features)]
        return [
            *("nodes", "edges", "density", "edges per node"),
            *(f"sum of {name}" if "attr" in name[:4] else f"nodes of {name}" for name in features),
            *(f"mean of {name}" if "attr" in name[:4] else f"share of {name}" for name in features),
            *(
                f"{what} of {name}"
                for what in ("spread", "minimum", "maximum")
                for name in measured
            ),
            *(*degrees, f"nodes of degree {DEGREES} or more"),
            *(f"sum of {name}" for name in edges),
            *(f"mean of {name}" for name in edges),
        ]

    def matrix(self, graphs: Graphs) -> np.ndarray:
        """``[graphs, columns]`` float32"""
        found = 0 if graphs.node_attr is None else graphs.node_attr.shape[1]
        edge_features = 0 if graphs.edge_attr is None else graphs.edge_attr.shape[1]
        if (found, len(graphs.node_label_names)) != (self.attributes, len(self.labels)):
            raise SagpoolError(
                f"{graphs.name} has {found} attributes and {len(graphs.node_label_names)} labels "
                f"per node; the model was trained with {self.attributes} and {len(self.labels)}."
            )
        if edge_features != self.edge_features:
            raise SagpoolError(
                f"{graphs.name} has {edge_features} features per edge; the model was trained with "
                f"{self.edge_features}."
            )
        nodes = graphs.node_counts.astype(np.float64)[:, None]
        edges = graphs.edge_counts.astype(np.float64)[:, None] / 2
        sums = self._sums(graphs)  # [graphs, features]
        columns = [nodes, edges, 2 * edges / np.maximum(nodes * (nodes - 1), 1), edges / nodes]
        columns += [sums, sums / nodes, *self._spreads(graphs, sums / nodes), _degrees(graphs)]
        if graphs.edge_attr is not None:
            of_edges = graph_sums(graphs.edge_attr.cpu().numpy(), graphs.edge_ptr) / 2
            columns += [of_edges, of_edges / np.maximum(edges, 1)]
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
    """``[graphs, DEGREES + 1]`` float64: how many nodes have each degree."""
    degree = np.minimum(graphs.degree.cpu().numpy().astype(np.int64), DEGREES)
    graph = np.repeat(np.arange(len(graphs)), graphs.node_counts)
    width = DEGREES + 1
    found = np.bincount(graph * width + degree, minlength=len(graphs) * width)
    return found.reshape(-1, width).astype(np.float64)
