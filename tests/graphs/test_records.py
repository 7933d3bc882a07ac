import numpy as np
import pytest

from sagpool.errors import SagpoolError
from sagpool.graphs.records import Record, number_texts, pack_records


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
    # Edges in one direction or both are right; a node's own is not.
    assert str(raw.repairs) == "1 self-loops were dropped"


def test_features_row_by_row():
    raw = pack_records([record(features=[1, 2, 3, 4.5]), record(2, features=[0] * 4)], "x")
    assert raw.node_attr.dtype == np.float32
    assert raw.node_attr[:2].tolist() == [[1, 2], [3, 4.5]]


def test_no_edge_and_no_graph():
    assert pack_records([record(edges=())], "x").col.tolist() == []
    with pytest.raises(SagpoolError, match=r"^x has no graph\.$"):
        pack_records([], "x")


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (
            {"labels": ["C", "O"]},
            {},
            "x, line 2 has no node labels, while x, line 1 has.",
        ),
        (
            {},
            {"features": [1.0, 2.0]},
            "x, line 1 has no node features, while x, line 2 has.",
        ),
        (
            {"features": [1.0, 2.0]},
            {"features": [1.0, 2.0, 3.0, 4.0]},
            "x, line 2 has 2 features a node, where x, line 1 has 1.",
        ),
    ],
)
def test_graphs_that_do_not_go_together(first, second, sentence):
    with pytest.raises(SagpoolError) as error:
        pack_records([record(1, **first), record(2, **second)], "x")
    assert str(error.value) == sentence


def test_classes_are_known_for_all_or_for_none():
    assert pack_records([record(target="a"), record()], "x").y is None


def test_texts_in_their_order_and_numbers_in_that_of_their_size():
    assert number_texts(["b", "a", "b"]).names == ("a", "b")
    codes = number_texts(["10", "9", "-1", "9"])
    assert (codes.names, codes.code.tolist()) == (("-1", "9", "10"), [2, 1, 0, 1])
    assert number_texts(["10", "9", "x"]).names == ("10", "9", "x")
    # Not every text that Python takes for a number has a place among them.
    assert number_texts(["9", "nan", "10"]).names == ("10", "9", "nan")
