from pathlib import Path

import numpy as np
import pytest
import torch

from sagpool.graphs import Graphs
from sagpool.graphs.edge_cleaning import pack_edges


@pytest.fixture(scope="session")
def varied() -> Graphs:
    """Thirty random graphs of 1 to 9 nodes with every kind of tensor; some have no edge."""
    random = np.random.default_rng(0)
    node_counts = random.integers(1, 10, 30)
    first = np.cumsum(node_counts) - node_counts
    edge_graphs = random.integers(0, 30, 200)
    source, target = first[edge_graphs] + (random.random((2, 200)) * node_counts[edge_graphs])
    edges = pack_edges(source.astype(int), target.astype(int), node_counts)
    nodes = int(node_counts.sum())
    return Graphs(
        node_counts=node_counts,
        edge_counts=edges.edge_counts,
        degree=torch.from_numpy(edges.degree),
        col=torch.from_numpy(edges.col),
        y=torch.from_numpy(random.integers(0, 3, 30)),
        node_label=torch.from_numpy(random.integers(0, 4, nodes).astype(np.int32)),
        node_attr=torch.from_numpy(random.random((nodes, 2)).astype(np.float32)),
        edge_attr=torch.from_numpy(random.random((len(edges.col), 2)).astype(np.float32)),
        ground_truth=torch.from_numpy(random.random(nodes) < 0.5),
        node_label_names=("a", "b", "c", "d"),
        class_names=("x", "y", "z"),
        feature_kind="attributes+labels",
        name="varied",
    )


@pytest.fixture
def no_text(monkeypatch: pytest.MonkeyPatch):
    """A call of this makes reading text files an error, so that only cached files can be read."""

    def forbid() -> None:
        def read_tu(files) -> None:
            raise AssertionError(f"the text of {files.name} was read")

        monkeypatch.setattr("sagpool.graphs.cache.read_tu", read_tu)

    return forbid


@pytest.fixture
def packed(cache: Path):
    """The files of cached data sets."""
    return lambda: sorted(path for path in (cache / "packed").glob("**/*") if path.is_file())
