import logging

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs, from_networkx, from_pyg, load, to_pyg


def pair(**changes) -> Data:
    """Two nodes and the edge between them."""
    fields = {"x": torch.ones(2, 3), "edge_index": torch.tensor([[0, 1], [1, 0]]), **changes}
    return Data(**fields)


def test_round_trip_through_pyg(varied):
    again = from_pyg(to_pyg(varied), name="again")
    assert again.name == "again"
    assert again.node_counts.tolist() == varied.node_counts.tolist()
    assert torch.equal(again.x, varied.x)
    assert torch.equal(again.edge_index, varied.edge_index)
    # The two directions of an edge can have different features.
    assert torch.equal(again.edge_attr, varied.edge_attr)
    assert torch.equal(again.y, varied.y)


def test_every_field_is_converted_to_pyg(varied):
    data = varied.to_pyg()
    assert len(data) == len(varied)
    for one, graph in zip(data, varied, strict=True):
        one.validate()
        assert one.num_nodes == graph.num_nodes
        assert is_undirected(one.edge_index, num_nodes=one.num_nodes)
        assert torch.equal(one.ground_truth, graph.ground_truth)
        assert one.y.shape == (1,)
    assert "edge_attr" not in load("motifs")[:1].to_pyg()[0]


def test_pyg_graphs_without_features_get_degrees():
    graphs = Graphs.from_pyg([pair(x=None, num_nodes=3), Data(num_nodes=1)])
    assert graphs.feature_kind == "degree"
    assert graphs.node_counts.tolist() == [3, 1]  # isolated nodes are included
    assert graphs.x.tolist() == [[0, 1], [0, 1], [1, 0], [1, 0]]
    assert graphs.y is None
    assert graphs.num_classes == 0


def test_classes_of_pyg_are_numbered_in_ascending_order():
    graphs = from_pyg([pair(y=torch.tensor([7])), pair(y=torch.tensor(-2.0)), pair(y=7)])
    assert graphs.y.tolist() == [1, 0, 1]
    assert graphs.class_names == ("-2", "7")


def test_edges_of_pyg_are_cleaned_and_counted(caplog):
    data = pair(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 0, 2], [1, 1, 2]]))
    with caplog.at_level(logging.WARNING):
        graphs = from_pyg([data])
    assert graphs.edge_index.tolist() == [[1, 0], [0, 1]]
    assert caplog.messages == [
        "graphs: 1 one-way edges were made undirected, 1 duplicate edges were merged, "
        "1 self-loops were dropped."
    ]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Data(num_nodes=0), "graph 1 has no nodes"),
        (pair(x=torch.ones(2, 4)), "graph 1 has 4 node features, but graph 0 has 3"),
        (pair(x=None, num_nodes=2), "graph 1 has no node features, but graph 0 has"),
        (
            pair(x=torch.tensor([[1.0, 1, 1], [1, torch.nan, 1]])),
            "graph 1: node 1 has a feature that is not a finite number",
        ),
        (pair(x=torch.ones(4, 3), num_nodes=6), "graph 1: x has 4 rows; expected 6"),
        (pair(edge_attr=torch.ones(1, 2)), "edge_attr has 1 rows; expected 2"),
        (pair(edge_attr=torch.ones(4, 1)), "edge_attr has 4 rows; expected 2"),
        (
            pair(edge_index=torch.tensor([[0], [2]])),
            "graph 1: an edge names node 2; the 2 nodes are numbered",
        ),
        (
            pair(edge_index=torch.tensor([[0], [-1]])),
            "graph 1: an edge names node -1; the 2 nodes are numbered",
        ),
        (pair(edge_index=torch.tensor([0, 1])), r"graph 1: edge_index has shape \(2,\)"),
        (pair(y=torch.tensor([0, 1])), "graph 1: y has 2 values, not one class"),
        (pair(y=torch.tensor([0.5])), "graph 1: y is 0.5, not a class number"),
        (pair(y=torch.tensor([torch.nan])), "graph 1: y is nan, not a class number"),
        (pair(y=torch.tensor([0])), "graph 0 has no class, but graph 1 has"),
    ],
)
def test_pyg_graphs_that_cannot_be_packed(second, message):
    with pytest.raises(SagpoolError, match=message):
        from_pyg([pair(), second])


def test_networkx_with_labels_attributes_and_weights():
    molecule = nx.Graph(y="toxic")
    molecule.add_node("c1", label="C", x=[0.5, 1])
    molecule.add_node("o", label="O", x=[2, 3])
    molecule.add_node("c2", label="C", x=[4, 5])
    molecule.add_edge("c1", "o", weight=2.0)
    molecule.add_edge("o", "c2", weight=1.0)
    atom = nx.Graph(y="safe")
    atom.add_node("n", label="N", x=[6, 7])
    graphs = Graphs.from_networkx([molecule, atom], features="both")
    assert graphs.class_names == ("safe", "toxic")
    assert graphs.y.tolist() == [1, 0]
    assert graphs.node_label_names == ("C", "N", "O")
    assert graphs.x[:, :2].tolist() == [[0.5, 1], [2, 3], [4, 5], [6, 7]]
    assert graphs.x[:, 2:].argmax(1).tolist() == [0, 2, 0, 1]
    assert graphs.edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graphs.edge_attr.tolist() == [[2], [2], [1], [1]]


def test_networkx_directed_graphs_and_self_loops(caplog):
    directed = nx.DiGraph([(0, 1), (1, 2), (2, 1)])
    looped = nx.Graph([(0, 0), (0, 1)])
    with caplog.at_level(logging.WARNING):
        graphs = from_networkx([directed, looped], y=[3, 1])
    assert graphs[0].edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graphs[1].edge_index.tolist() == [[1, 0], [0, 1]]
    assert graphs.class_names == ("1", "3")
    assert caplog.messages == [
        "graphs: 1 one-way edges were made undirected, 1 self-loops were dropped."
    ]


@pytest.mark.parametrize(
    ("graphs", "y", "message"),
    [
        ([], None, "graphs has no graph"),
        ([nx.path_graph(2)], [0, 1], "There are 2 classes for 1 graphs"),
        ([nx.path_graph(2), nx.Graph()], None, "graph 1 has no nodes"),
    ],
)
def test_networkx_graphs_that_cannot_be_packed(graphs, y, message):
    with pytest.raises(SagpoolError, match=message):
        from_networkx(graphs, y)


def test_networkx_attributes_that_are_not_numbers():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, "red", "x")
    with pytest.raises(SagpoolError, match="graph 0: x must be rows of numbers"):
        from_networkx([graph])


def test_an_empty_list_is_refused():
    with pytest.raises(SagpoolError, match="graphs has no graph"):
        from_pyg([])
