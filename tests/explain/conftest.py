from collections.abc import Callable, Iterator

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

from sagpool import Graphs
from sagpool.graphs import motifs
from sagpool.models import Shape, build


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """On graphs as small as these, threads do little but wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def graphs() -> Graphs:
    """Of all kinds: one node, no edges, in pieces, connected; with labels and classes."""
    several = nx.disjoint_union_all([nx.cycle_graph(5), nx.empty_graph(3), nx.path_graph(3)])
    kinds = [nx.empty_graph(1), nx.empty_graph(6), several, nx.path_graph(2), nx.wheel_graph(9)]
    kinds += [nx.gnp_random_graph(nodes, 0.2, seed=nodes) for nodes in (17, 25, 30)]
    random = np.random.default_rng(0)
    for graph in kinds:
        for node in graph:
            graph.nodes[node]["label"] = "CNO"[random.integers(3)]
    return Graphs.from_networkx(kinds, y=["no", "yes"] * 4, name="kinds")


@pytest.fixture(scope="session")
def planted() -> Graphs:
    """With a ground truth."""
    return motifs(4, (15, 25))


@pytest.fixture(scope="session")
def new_model() -> Callable[..., nn.Module]:
    def new(method: str, graphs: Graphs, dtype: torch.dtype = torch.float64, **shape) -> nn.Module:
        sizes = {"hidden": 8, "k": 4, "max_nodes": int(graphs.node_counts.max()), **shape}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build(method, Shape(graphs.num_features, graphs.num_classes, **sizes))
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.3 * torch.randn_like(parameter))
        return model.to(dtype)

    return new
