"""Recognises graphs unlike those that a model was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from sagpool.graphs import Graphs
from sagpool.randomness import key_of, permutation

FLAGGED = 0.01  # expected fraction of flagged graphs, among graphs like the training graphs
MOST_COLUMNS = 512
FOLDS = 5
# Least spread of a fraction of nodes, so that rare labels do not count like new ones.
LEAST_SPREAD = 0.05


@dataclass(frozen=True, eq=False)
class Novelty:
    """A Mahalanobis distance between descriptors of graphs (see `descriptors`).

    Args:
        mean: ``[columns]`` mean descriptors of the training graphs
        root: ``[columns, columns]``; distances are Euclidean after multiplication with it
        threshold: the distance above which a graph is unlike the training graphs
    """

    mean: np.ndarray
    root: np.ndarray
    threshold: float

    @staticmethod
    def of(graphs: Graphs, seed: int = 0) -> Novelty | None:
        """From training graphs; None if there are too few.

        The threshold is a conformal quantile of the distances of held-out graphs, which are not
        part of the mean and the covariance: of graphs like these, about `FLAGGED` are above it.
        """
        described = descriptors(graphs)
        count = len(described)
        if count < 2 * FOLDS:
            return None
        fold = permutation(key_of("novelty", seed), count) % FOLDS
        distances = np.empty(count)
        for one in range(FOLDS):
            mean, root = _moments(described[fold != one], graphs.continuous)
            distances[fold == one] = _distance(described[fold == one], mean, root)
        rank = min(count, int(np.ceil((count + 1) * (1 - FLAGGED))))
        mean, root = _moments(described, graphs.continuous)
        return Novelty(mean, root, float(f"{np.sort(distances)[rank - 1]:.9g}"))

    def distances(self, graphs: Graphs) -> np.ndarray:
        """``[graphs]`` distances; the graphs must have the features of the training graphs."""
        return _distance(descriptors(graphs), self.mean, self.root)

    def unlike(self, graphs: Graphs) -> np.ndarray:
        """``[graphs]`` bool, whether the distance is above the threshold."""
        return np.asarray(self.distances(graphs) > self.threshold)


def num_descriptors(num_attributes: int, num_labels: int) -> int:
    """Number of columns of `descriptors`."""
    labels = min(num_labels, MOST_COLUMNS) + 1 if num_labels else 0
    return 3 + min(num_attributes, MOST_COLUMNS) + labels


def descriptors(graphs: Graphs) -> np.ndarray:
    """Size, mean and highest degree of each graph, and the means of its node features.

    ``[graphs, columns]``; only the first `MOST_COLUMNS` columns of features are used. The last
    column is the fraction of nodes without a label known to the model.
    """
    counts, first = graphs.node_counts, graphs.node_ptr[:-1]
    degree = graphs.degree.cpu().numpy()
    columns = [
        np.log(counts)[:, None],
        (graphs.edge_counts / counts)[:, None],
        np.log1p(np.maximum.reduceat(degree, first))[:, None],
    ]
    if graphs.node_attr is not None:
        attr = graphs.node_attr[:, :MOST_COLUMNS].cpu().numpy().astype(np.float64)
        columns.append(np.add.reduceat(attr, first) / counts[:, None])
    if graphs.node_label is not None:
        columns.append(_label_fractions(graphs))
    return np.concatenate(columns, 1)


def _label_fractions(graphs: Graphs) -> np.ndarray:
    width = min(len(graphs.node_label_names), MOST_COLUMNS) + 1
    assert graphs.node_label is not None
    label = graphs.node_label.cpu().numpy().astype(np.int64)
    # Labels beyond the last column count like missing labels.
    label = np.where((label < 0) | (label >= width - 1), width - 1, label)
    graph = np.repeat(np.arange(len(graphs)), graphs.node_counts)
    shape = (len(graphs), width)
    counts = np.bincount(graph * width + label, minlength=prod(shape)).reshape(shape)
    return np.asarray(counts / graphs.node_counts[:, None])


def _moments(described: np.ndarray, continuous: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean, and the root of the inverse of the covariance, shrunk towards its diagonal."""
    count, columns = described.shape
    mean, spread = described.mean(0), described.std(0)
    least = np.full(columns, LEAST_SPREAD)
    measured = slice(3, 3 + continuous)
    # The scale of a measurement that was constant over all graphs is unknown.
    least[measured] = np.maximum(1e-3 * np.abs(mean[measured]), 1e-6)
    spread = np.maximum(spread, least)
    z = (described - mean) / spread
    shrinkage = columns / (columns + count)
    covariance = (1 - shrinkage) * (z.T @ z) / count + shrinkage * np.eye(columns)
    values, vectors = np.linalg.eigh(covariance)
    return mean, vectors / np.sqrt(values) / spread[:, None]


def _distance(described: np.ndarray, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm((described - mean) @ root, axis=1))
