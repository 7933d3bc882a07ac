"""Graphs for benchmarks: real ones if installed, otherwise random ones of the same size."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs import Adjacency, load
from sagpool.graphs.named_datasets import list_datasets

# Average nodes and undirected edges of the data sets (the paper's Table 1).
AVERAGES = {"PROTEINS": (39.06, 72.82), "NCI1": (29.87, 32.30), "DD": (284.32, 715.66)}


class Example(NamedTuple):
    """Undirected graphs in PyG's form."""

    edge_index: Tensor  # [2, edges] both directions, sorted by source as PyG's data sets are
    batch: Tensor  # [nodes] int64
    origin: str  # real or random

    def __str__(self) -> str:
        graphs, nodes = int(self.batch[-1]) + 1, len(self.batch)
        return f"{graphs} {self.origin} graphs, {nodes} nodes, {self.edge_index.shape[1]} edges"

    def packed(self) -> Adjacency:
        return replace(Adjacency.from_edge_index(self.edge_index, self.batch), symmetric=True)

    def shuffled(self) -> "Example":
        """The same graphs, their edges in random order."""
        edges = self.edge_index.shape[1]
        order = torch.randperm(edges, generator=torch.Generator().manual_seed(0))
        return self._replace(edge_index=self.edge_index[:, order])


def batch_like(name: str, graphs: int) -> Example:
    """A sample of a data set if it is installed, otherwise random graphs of similar size."""
    rng = np.random.default_rng(0)
    path = next((path for path in list_datasets() if path.stem == name), None)
    if path is None:
        nodes, edges = AVERAGES[name]
        sizes = 3 + np.round(rng.gamma(2, (nodes - 3) / 2, graphs)).astype(np.int64)
        return random_graphs(sizes, edges / nodes)
    data = load(path)
    chosen = data[rng.choice(len(data), graphs, replace=False)]
    # Edges are sorted by target; in undirected graphs, swapping the rows sorts them by source.
    return Example(chosen.edge_index.flip(0).contiguous(), chosen.batch, "real")


def random_graphs(sizes: np.ndarray, edges_per_node: float) -> Example:
    """Graphs of the given sizes with random pairs of neighbours."""
    rng = np.random.default_rng(0)
    parts = []
    for first, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        wanted = min(round(size * edges_per_node), size * (size - 1) // 2)
        pairs = np.zeros(0, np.int64)  # first * size + second, each pair once
        while len(pairs) < wanted:
            a, b = rng.integers(0, size, (2, wanted))
            new = np.minimum(a, b) * size + np.maximum(a, b)
            pairs = np.unique(np.concatenate([pairs, new[a != b]]))
        pairs = rng.choice(pairs, wanted, replace=False)
        both = np.sort(np.concatenate([pairs, pairs % size * size + pairs // size]))
        parts.append(first + np.stack([both // size, both % size]))
    edge_index = torch.from_numpy(np.concatenate(parts, axis=1))
    batch = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    return Example(edge_index, batch, "random")


def one_graph(nodes: int, edges: int) -> Example:
    """One graph with random pairs of neighbours, in which a pair may occur twice."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, nodes, (2, edges // 2))
    second = np.where(first == second, (second + 1) % nodes, second)
    both = np.concatenate([first * nodes + second, second * nodes + first])
    both.sort()
    edge_index = torch.from_numpy(np.stack([both // nodes, both % nodes]))
    return Example(edge_index, torch.zeros(nodes, dtype=torch.int64), "random")
