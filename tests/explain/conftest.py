import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

from sagpool import Graphs
from sagpool.classifier.model import TrainedModel
from sagpool.graphs import motifs
from sagpool.graphs.graphs import Task
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """One thread is faster on graphs this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def graphs() -> Graphs:
    """One node, no edges, several components, connected; with labels and classes."""
    several = nx.disjoint_union_all([nx.cycle_graph(5), nx.empty_graph(3), nx.path_graph(3)])
    kinds = [nx.empty_graph(1), nx.empty_graph(6), several, nx.path_graph(2), nx.wheel_graph(9)]
    kinds += [nx.gnp_random_graph(nodes, 0.2, seed=nodes) for nodes in (17, 25, 30)]
    random = np.random.default_rng(0)
    for graph in kinds:
        for node in graph:
            graph.nodes[node]["label"] = "CNO"[random.integers(3)]
    return Graphs.from_networkx(kinds, y=["no", "yes"] * 4, name="kinds")


def _with_targets(graphs: Graphs, columns: dict[str, list[float]], task: Task) -> Graphs:
    targets = torch.tensor(list(columns.values())).T
    named = {"targets": targets, "target_names": tuple(columns), "task": task}
    return replace(graphs, y=None, class_names=(), **named)


@pytest.fixture(scope="session")
def measured(graphs: Graphs) -> Graphs:
    """The same graphs with two numbers to predict, of which some were not measured."""
    sizes = [float(count) for count in graphs.node_counts]
    charge = [-3.3, math.nan, 0.5, 1.1, math.nan, -2.0, 4.7, 0.0]
    return _with_targets(graphs, {"size": sizes, "charge": charge}, "regression")


@pytest.fixture(scope="session")
def tasks(graphs: Graphs) -> Graphs:
    """The same graphs with two tasks of 0 and 1, with gaps."""
    large = [float(count > 8) for count in graphs.node_counts]
    toxic = [1.0, 0.0, math.nan, 1.0, 1.0, 0.0, math.nan, 0.0]
    return _with_targets(graphs, {"large": large, "toxic": toxic}, "multitask")


@pytest.fixture(scope="session")
def planted() -> Graphs:
    """Graphs with a ground truth."""
    return motifs(4, (15, 25))


@pytest.fixture(scope="session")
def new_model() -> Callable[..., nn.Module]:
    def new(method: str, graphs: Graphs, dtype: torch.dtype = torch.float64, **shape) -> nn.Module:
        sizes = {"hidden": 8, "k": 4, "max_nodes": int(graphs.node_counts.max()), **shape}
        sizes["task"] = graphs.task
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build(method, Shape(graphs.num_features, graphs.num_outputs, **sizes))
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.3 * torch.randn_like(parameter))
        return model.to(dtype)

    return new


@pytest.fixture(scope="session")
def new_trained(new_model) -> Callable[..., TrainedModel]:
    """An untrained model with the vocabulary of the graphs."""

    def new(graphs: Graphs, method: str = "sagpool-h", **shape) -> TrainedModel:
        sizes = {"hidden": 8, "k": 4, "max_nodes": 30, **shape, "task": graphs.task}
        weights = new_model(method, graphs, torch.float32, **sizes).state_dict()
        full = Shape(graphs.num_features, graphs.num_outputs, **sizes)
        return TrainedModel.of_net(method, full, Vocabulary.of(graphs), weights)

    return new


@pytest.fixture(scope="session")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of molecules; one cannot be read and one has no class."""
    path = tmp_path_factory.mktemp("molecules") / "drugs.csv"
    path.write_text(
        "name,smiles,label\n"
        "a,CC(=O)Oc1ccccc1C(=O)O,yes\nb,CN1C=NC2=C1C(=O)N(C(=O)N2C)C,no\nc,nonsense,yes\n"
        "d,C[C@H](N)C(=O)O,no\ne,O=[N+]([O-])c1ccc(Cl)cc1,yes\nf,[Na+].[Cl-],no\n"
        "g,CCO,\n"
    )
    return path
