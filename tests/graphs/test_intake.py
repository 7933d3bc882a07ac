import numpy as np
import pytest

from sagpool.errors import SagpoolError
from sagpool.graphs.intake import pack_records
from sagpool.graphs.raw_graphs import encode_texts
from sagpool.graphs.records import Record


def record(line: int = 1, nodes: int = 2, edges=(0, 1), **parts) -> Record:
    return Record(f"x, line {line}", str(line), nodes, edges, **parts)


def test_packing():
    raw = pack_records(
        [
            record(1, 3, [0, 1, 1, 0, 2, 1], labels=["C", "O", "C"], target="b"),
            record(2, 1, [0, 0], labels=["N"], target="a"),
        ],
        "x",
    )
    assert raw.node_counts.tolist() == [3, 1]
    assert raw.edge_counts.tolist() == [4, 0]
    assert (raw.degree.tolist(), raw.col.tolist()) == ([1, 2, 1, 0], [1, 0, 2, 1])
    assert (raw.node_label_names, raw.class_names) == ((("C", "N", "O"),), ("a", "b"))
    assert (raw.node_labels.ravel().tolist(), raw.y.tolist()) == ([0, 2, 0, 1], [1, 0])
    # An edge may be given in one direction or in both; only self-loops count as repairs.
    assert str(raw.repairs) == "1 self-loops were dropped"


def test_features_row_by_row():
    raw = pack_records([record(features=[1, 2, 3, 4.5]), record(2, features=[0] * 4)], "x")
    assert raw.node_attr.dtype == np.float32
    assert raw.node_attr[:2].tolist() == [[1, 2], [3, 4.5]]


def test_graphs_without_edges_and_no_graphs():
    assert pack_records([record(edges=())], "x").col.tolist() == []
    with pytest.raises(SagpoolError, match=r"^x has no graph\.$"):
        pack_records([], "x")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            {"labels": ["C", "O"]},
            {},
            "x, line 2 has no node labels, but x, line 1 has.",
        ),
        (
            {},
            {"features": [1.0, 2.0]},
            "x, line 1 has no node features, but x, line 2 has.",
        ),
        (
            {"features": [1.0, 2.0]},
            {"features": [1.0, 2.0, 3.0, 4.0]},
            "x, line 2 has 2 node features, but x, line 1 has 1.",
        ),
        (
            {"edge_features": [1.0]},
            {},
            "x, line 2 has no edge features, but x, line 1 has.",
        ),
        (
            {"features": [1.0, 2.0]},
            {"features": [1.0, 1e39]},
            "x, line 2: node 1 has a feature that is not a finite number.",
        ),
        (
            {"edges": (0, 1, 1, 0), "edge_features": [1.0, float("nan")]},
            {"edge_features": [1.0]},
            "x, line 1: edge 1 has a feature that is not a finite number.",
        ),
    ],
)
def test_graphs_that_cannot_be_packed_are_named(first, second, message):
    with pytest.raises(SagpoolError) as error:
        pack_records([record(1, **first), record(2, **second)], "x")
    assert str(error.value) == message


def test_there_are_no_classes_if_one_is_missing():
    assert pack_records([record(target="a"), record()], "x").y is None


def test_texts_are_sorted_and_numbers_by_size():
    assert encode_texts(["b", "a", "b"]).names == ("a", "b")
    codes = encode_texts(["10", "9", "-1", "9"])
    assert (codes.names, codes.code.tolist()) == (("-1", "9", "10"), [2, 1, 0, 1])
    assert encode_texts(["10", "9", "x"]).names == ("10", "9", "x")
    # float() accepts "nan", which has no size.
    assert encode_texts(["9", "nan", "10"]).names == ("10", "9", "nan")


def test_edge_features_go_to_both_directions_and_arrays_may_be_mixed_with_lists():
    first = record(1, 3, [0, 1, 2, 1, 2, 2], edge_features=[1, 2, 3])
    second = record(2, 1, np.zeros(0, np.int64))  # no edges, so no edge features
    third = record(3, edges=np.array([1, 0]), edge_features=np.array([4.0]))
    raw = pack_records([first, second, third], "x")
    assert raw.col.tolist() == [1, 0, 2, 1, 1, 0]
    assert raw.edge_attr.ravel().tolist() == [1, 1, 2, 2, 4, 4]
    assert str(raw.repairs) == "1 self-loops were dropped"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"nodes": 0}, "x, line 1 has no nodes."),
        ({"edges": [0, 2]}, "x, line 1: an edge names node 2; the 2 nodes are numbered from 0."),
        (
            {"edges": np.array([-1, 0])},
            "x, line 1: an edge names node -1; the 2 nodes are numbered",
        ),
        ({"edges": [0, 1, 1]}, "x, line 1: the last edge has one end only."),
        ({"labels": ["C"]}, "x, line 1 has 1 labels for 2 nodes."),
        ({"features": [1, 2, 3]}, "x, line 1: not all nodes have the same number of features."),
        (
            {"edges": [0, 1, 1, 0], "edge_features": [1]},
            "x, line 1: not all edges have the same number of features.",
        ),
    ],
)
def test_every_record_is_checked(parts, message):
    with pytest.raises(SagpoolError) as error:
        record(**parts)
    assert str(error.value).startswith(message)
