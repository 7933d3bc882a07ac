"""Reading TU folders, compared with their lines and with PyG."""

import logging
import random
from collections import Counter

import pytest
import torch
from torch_geometric.datasets import TUDataset

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs, load
from sagpool.graphs.edge_cleaning import NO_REPAIRS, Repairs
from sagpool.graphs.tu import read_tu
from sagpool.graphs.tu_files import open_files


def test_the_small_folder_as_written(small):
    graphs = load(small.folder)
    assert graphs.name == "SMALL"
    assert graphs.node_counts.tolist() == [3, 1, 4, 2]
    assert graphs.edge_counts.tolist() == [6, 0, 4, 2]
    assert graphs.class_names == ("-1", "1")
    assert graphs.y.tolist() == [0, 1, 1, 0]
    assert graphs.node_label_names == ("0", "2", "5")  # 1, 3 and 4 occur nowhere
    assert graphs.node_label.tolist() == [0, 1, 2, 2, 0, 0, 1, 1, 0, 2]
    assert graphs[2].edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graphs[0].edge_attr.tolist() == [[1, 0], [0, 1], [1, 0], [1, 0], [0, 1], [1, 0]]
    assert read_tu(open_files(small.folder)).repairs == NO_REPAIRS


@pytest.mark.parametrize(
    ("features", "kind", "columns"),
    [
        ("auto", "labels", 3),
        ("labels", "labels", 3),
        ("attributes", "attributes", 2),
        ("both", "attributes+labels", 5),
        ("degree", "degree", 3),
    ],
)
def test_features_on_request(small, features, kind, columns):
    graphs = load(small.folder, features)
    assert graphs.feature_kind == kind
    assert graphs.x.shape == (10, graphs.num_features) == (10, columns)
    if kind.startswith("attributes"):
        assert torch.equal(graphs.x[3, :2], torch.tensor([3.5, -0.3]))
    if kind.endswith("labels"):
        assert graphs.x[3, -3:].tolist() == [0, 0, 1]


def test_auto_prefers_labels_then_attributes_then_degrees(small):
    small.file("node_labels").unlink()
    assert load(small.folder).feature_kind == "attributes"
    small.file("node_attributes").unlink()
    graphs = load(small.folder)
    assert graphs.feature_kind == "degree"
    assert graphs.node_label_names == ("0", "1", "2")
    assert graphs.x.argmax(1).tolist() == [2, 2, 2, 0, 1, 2, 1, 0, 1, 1]
    capped = load(small.folder, degree_cap=1)
    assert capped.node_label_names == ("0", "1")
    assert capped.x.argmax(1).tolist() == [1, 1, 1, 0, 1, 1, 1, 0, 1, 1]


def test_several_label_columns_are_concatenated(small):
    small.write("node_labels", [f"{i % 2}, {i % 3}" for i in range(10)])
    graphs = load(small.folder)
    assert graphs.num_features == 5
    assert graphs.x[4].tolist() == [1, 0, 0, 1, 0]
    both = load(small.folder, "both")
    assert both.num_features == 7
    assert torch.equal(both.x[:, 2:], graphs.x)


def test_edge_attributes_come_before_edge_labels(small):
    small.write("edge_attributes", [f"{line / 4}" for line in range(1, 13)])
    graphs = load(small.folder)
    # Sorted by target, then source: 2→1, 3→1, 1→2, ... of the lines "1, 2", "2, 1", "2, 3", ...
    lines = [2, 5, 1, 4, 6, 3, 8, 7, 10, 9, 12, 11]
    assert graphs.edge_attr[:, 0].tolist() == [line / 4 for line in lines]
    assert graphs.edge_attr[1].tolist() == [1.25, 0, 1]


def test_edges_are_cleaned_and_counted(small, caplog):
    small.file("edge_labels").unlink()
    edges = small.file("A").read_text().splitlines()
    edges.remove("7, 6")  # now in one direction only
    small.write("A", [*edges, "1, 2", "4, 4", "8, 8"])
    perfect = load("MUTAG")
    assert perfect.name == "MUTAG"
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING):
        graphs = load(small.folder)
        load(small.folder)  # from the cache, which stores the counts
    assert graphs.edge_counts.tolist() == [6, 0, 4, 2]
    assert graphs[2].edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert read_tu(open_files(small.folder)).repairs == Repairs(1, 1, 2)
    message = (
        "SMALL: 1 one-way edges were made undirected, 1 duplicate edges were merged, "
        "2 self-loops were dropped."
    )
    assert caplog.messages == [message, message]


@pytest.mark.parametrize("line", [1, 9])
def test_an_edge_between_graphs_is_refused(small, line):
    small.change("A", line, "6, 9")
    with pytest.raises(SagpoolError) as error:
        load(small.folder)
    assert str(error.value) == (
        f"{small.file('A')}, line {line}: the edge joins a node of graph 3 to one of graph 4."
    )


def test_nodes_of_one_graph_need_not_be_contiguous(small):
    """Nodes in shuffled order: every graph still gets its own labels, attributes and edges."""
    straight = load(small.folder, "both")
    old = {kind: small.file(kind).read_text().splitlines() for kind in ("A", "graph_indicator")}
    rows = list(range(10))
    random.Random(1).shuffle(rows)
    new_number = {str(row + 1): str(place + 1) for place, row in enumerate(rows)}
    for kind in ("graph_indicator", "node_labels", "node_attributes"):
        lines = small.file(kind).read_text().splitlines()
        small.write(kind, [lines[row] for row in rows])
    small.write("A", [", ".join(new_number[n] for n in line.split(", ")) for line in old["A"]])
    shuffled = load(small.folder, "both")
    assert shuffled.node_counts.tolist() == straight.node_counts.tolist()
    for one, other in zip(shuffled, straight, strict=True):
        assert edges_by_features(one) == edges_by_features(other)
        assert sorted(one.x.tolist()) == sorted(other.x.tolist())


def edges_by_features(graphs: Graphs) -> Counter:
    """Edges, identified by the features of their ends, which are unique in the data set."""
    source, target = graphs.edge_index
    rows = torch.cat([graphs.x[source], graphs.x[target], graphs.edge_attr], 1)
    return Counter(tuple(row) for row in rows.tolist())


@pytest.mark.parametrize("features", ["labels", "both"])
def test_pyg_reads_the_same(small, tmp_path, features):
    small.write("edge_attributes", [f"{line / 4}" for line in range(12)])
    raw = tmp_path / "pyg" / "SMALL" / "raw"
    raw.parent.mkdir(parents=True)
    raw.symlink_to(small.folder, target_is_directory=True)
    theirs = TUDataset(
        str(tmp_path / "pyg"), "SMALL", use_node_attr=features == "both", use_edge_attr=True
    )
    ours = load(small.folder, features)
    # PyG keeps columns for labels that occur nowhere.
    used = torch.cat([data.x for data in theirs]).any(0)
    edge_used = torch.cat([data.edge_attr for data in theirs]).any(0)
    for data, graph in zip(theirs, ours, strict=True):
        assert torch.equal(data.x[:, used], graph.x)
        assert torch.equal(data.y, graph.y)
        by_target = (data.edge_index[1] * data.num_nodes + data.edge_index[0]).argsort()
        assert torch.equal(data.edge_index[:, by_target], graph.edge_index)
        assert torch.equal(data.edge_attr[by_target][:, edge_used], graph.edge_attr)
