"""The columns of ``features="all"`` against loops over nodes and edges."""

import json
import logging
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from sagpool import load
from sagpool.errors import SagpoolError
from sagpool.foreign.limits import DENSE
from sagpool.graphs import Graphs
from sagpool.graphs.vocabulary import Vocabulary

BONDS = ["single", "double"]


def random_graphs(count: int, seed: int = 0, letters: str = "CNO") -> list[nx.Graph]:
    random = np.random.default_rng(seed)
    graphs = []
    for _ in range(count):
        graph = nx.gnp_random_graph(int(random.integers(2, 8)), 0.5, seed=int(random.integers(99)))
        for node in graph.nodes.values():
            node |= {"label": str(random.choice(list(letters))), "x": random.normal(size=2)}
        for edge in graph.edges.values():
            edge |= {"label": str(random.choice(BONDS)), "weight": random.normal(size=3)}
        graphs.append(graph)
    return graphs


def expected(graph: nx.Graph, node: int, column: str) -> float:
    """The value of a column, by its name."""
    kind, _, value = column.partition(" ")
    edges = [(graph.nodes[other]["label"], edge) for other, edge in graph[node].items()]
    if kind == "attribute":
        return float(graph.nodes[node]["x"][int(value)])
    if column.startswith("edge attribute "):
        return float(sum(edge["weight"][int(column[-1])] for _, edge in edges))
    if column.startswith("edge label "):
        return sum(edge["label"] == column.split()[-1] for _, edge in edges)
    if kind == "neighbour":
        return sum(f"{label} ({edge['label']})" == value for label, edge in edges)
    return float(value == (graph.nodes[node]["label"] if kind == "label" else str(len(edges))))


def test_every_column_against_loops():
    given = random_graphs(20)
    graphs = Graphs.from_networkx(given, features="all")
    names = graphs.column_names
    assert graphs.encoding.groups == (
        "attribute", "edge attribute", "edge label", "degree", "neighbour",
    )  # fmt: skip
    assert graphs.continuous == 5
    assert names[:5] == tuple(
        [f"attribute {i}" for i in range(2)] + [f"edge attribute {i}" for i in range(3)]
    )
    assert len(names) == graphs.num_features == graphs.x.shape[1]
    reference = [[expected(g, v, name) for name in names] for g in given for v in g]
    np.testing.assert_allclose(graphs.x, reference, rtol=1e-5, atol=1e-6)


def test_new_graphs_get_the_columns_of_the_vocabulary():
    train = Graphs.from_networkx(random_graphs(20), features="all")
    vocabulary = Vocabulary.of(train)
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary
    new = random_graphs(9, seed=1, letters="CNZ")
    by_encoding = Graphs.from_networkx(new, features=vocabulary.features)
    by_name = Graphs.from_networkx(new, features="all")
    fitted, unseen = vocabulary.fit(by_encoding)
    again, unseen_too = vocabulary.fit(by_name)
    assert torch.equal(fitted.x, again.x)
    assert fitted.column_names == train.column_names
    unknown = [[node["label"] == "Z" for node in g.nodes.values()] for g in new]
    assert unseen["Z"] == unseen_too["Z"] == sum(map(sum, unknown))
    assert vocabulary.unseen_nodes(by_encoding).tolist() == list(map(sum, unknown))
    kept = [
        [0 if "Z" in name else expected(g, v, name) for name in train.column_names]
        for g in new for v in g
    ]  # fmt: skip
    np.testing.assert_allclose(fitted.x, kept, rtol=1e-5, atol=1e-6)


def test_training_graphs_and_their_parts_keep_their_columns():
    graphs = load("MUTAG", "all")
    vocabulary = Vocabulary.of(graphs)
    fitted, unseen = vocabulary.fit(graphs)
    assert torch.equal(fitted.x, graphs.x)
    assert not unseen
    assert torch.equal(load("MUTAG", vocabulary.features).x, graphs.x)
    assert graphs.fingerprint() != load("MUTAG").fingerprint()


def test_graphs_without_labels_have_degrees_in_their_place():
    graphs = load("motifs", "all")
    assert graphs.encoding.labels is False
    assert torch.equal(graphs.x, load("motifs").x)
    star = Graphs.from_networkx([nx.star_graph(30)], features=Vocabulary.of(graphs).features)
    fitted, unseen = Vocabulary.of(graphs).fit(star)
    assert fitted.x[0, -1] == 1  # degrees above the highest known one count as it
    assert not unseen


def test_unknown_values_of_other_groups_are_counted():
    def graph(*bonds: str) -> nx.Graph:
        path = nx.path_graph(len(bonds) + 1)
        nx.set_node_attributes(path, "C", "label")
        nx.set_edge_attributes(path, dict(zip(path.edges, bonds, strict=True)), "label")
        return path

    vocabulary = Vocabulary.of(Graphs.from_networkx([graph("a", "b")], features="all"))
    new = [graph("a"), graph("x", "a"), graph("y")]
    given = Graphs.from_networkx(new, features=vocabulary.features)
    fitted, unseen = vocabulary.fit(given)
    assert unseen == {"unknown edge label": 4}
    assert vocabulary.unseen_nodes(given).tolist() == [0, 2, 2]
    assert fitted.num_features == vocabulary.num_features
    loaded = Graphs.from_networkx(new, features="all")
    assert vocabulary.fit(loaded).unseen == {"edge label x": 2, "edge label y": 2}
    bare = nx.path_graph(2)
    nx.set_node_attributes(bare, "C", "label")
    with pytest.raises(SagpoolError, match="has no 'edge label'; the model was trained with it"):
        Graphs.from_networkx([bare], features=vocabulary.features)
    with pytest.raises(SagpoolError, match=r"features=model\.vocabulary\.features"):
        vocabulary.fit(Graphs.from_networkx([bare], features="all"))
    alone = nx.empty_graph(1)
    nx.set_node_attributes(alone, "C", "label")
    single = Graphs.from_networkx([alone], features=vocabulary.features)
    assert vocabulary.fit(single).graphs.num_features == vocabulary.num_features


def test_columns_that_need_too_much_memory_are_left_out(monkeypatch, caplog):
    given = random_graphs(5)
    nodes = sum(map(len, given))
    monkeypatch.setenv(DENSE.variable, str(nodes * 5))
    with caplog.at_level(logging.WARNING):
        graphs = Graphs.from_networkx(given, features="all")
    assert graphs.encoding.groups == ("attribute", "edge attribute", "edge label")
    assert "The columns 'degree' are left out." in caplog.text


@pytest.mark.parametrize("kind", [torch.float, torch.long])
def test_one_hot_and_whole_columns_of_pyg_are_labels(kind):
    data = []
    for seed in range(6):
        random = torch.Generator().manual_seed(seed)
        edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        labels = torch.randint(0, 3, (3,), generator=random)
        bonds = torch.randint(0, 2, (2,), generator=random).repeat_interleave(2)
        if kind is torch.float:
            x = torch.cat([torch.randn(3, 1, generator=random), torch.eye(3)[labels]], 1)
            data.append(Data(x, edges, torch.eye(2)[bonds]))
        else:
            whole = torch.stack([labels, labels % 2], 1)
            data.append(Data(whole, edges, bonds[:, None]))
    graphs = Graphs.from_pyg(data, features="all")
    vocabulary = Vocabulary.of(graphs)
    assert vocabulary.has_labels
    assert graphs.continuous == (1 if kind is torch.float else 0)
    assert "neighbour" in graphs.encoding.groups
    for graph, one in zip(data, graphs, strict=True):
        same = Graphs.from_pyg([graph], features=vocabulary.features)
        assert torch.equal(vocabulary.fit(same).graphs.x, one.x)
    narrow = Data(data[0].x[:, :1], data[0].edge_index, data[0].edge_attr)
    with pytest.raises(SagpoolError, match="graph 0 has 1 attributes per node; the model was tr"):
        Graphs.from_pyg([narrow], features=vocabulary.features)


def encoding(groups: list[str], column: dict[str, str]) -> dict[str, Any]:
    return {"labels": True, "groups": groups, "columns": [column]}


@pytest.mark.parametrize(
    "change",
    [
        {"encoding": None},
        {"attributes": 3},
        {"encoding": encoding([], {"group": "a", "name": "b"}), "attributes": 1},
        {"encoding": encoding(["degree"], {"group": "degree", "name": "x"}), "attributes": 1},
    ],
)
def test_an_invalid_encoding_is_refused(change):
    entry = json.loads(json.dumps(Vocabulary.of(load("MUTAG", "all")[:3]).to_json()))
    with pytest.raises(ValueError, match="encoding"):
        Vocabulary.from_json({**entry, **change})
