import json
from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs, load
from sagpool.graphs.features import Features
from sagpool.graphs.vocabulary import Vocabulary


def labelled(*texts: str, y=None) -> Graphs:
    """A graph without edges for each text, a node for each letter."""
    graphs = []
    for text in texts:
        graph = nx.Graph()
        graph.add_nodes_from((i, {"label": letter}) for i, letter in enumerate(text))
        graphs.append(graph)
    return Graphs.from_networkx(graphs, y)


KNOWN = Vocabulary("labels", ("C", "N", "O"), 0, ("no", "yes"))


def test_of_graphs(varied):
    assert Vocabulary.of(varied) == Vocabulary(
        "attributes+labels", ("a", "b", "c", "d"), 2, ("x", "y", "z")
    )
    assert Vocabulary.of(varied).num_features == varied.num_features


def test_training_graphs_are_unchanged(varied):
    fitted, unseen = Vocabulary.of(varied).fit(varied)
    assert torch.equal(fitted.x, varied.x)
    assert torch.equal(fitted.y, varied.y)
    assert not unseen


def test_labels_go_to_their_columns():
    fitted, unseen = KNOWN.fit(labelled("OC", "N"))
    assert fitted.x.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert fitted.node_label_names == KNOWN.node_labels
    assert not unseen


def test_unseen_labels_are_counted_and_zeroed():
    fitted, unseen = KNOWN.fit(labelled("CFF", "ZF"))
    assert fitted.x.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert unseen == {"F": 3, "Z": 1}


def test_labels_that_no_node_has_are_not_counted():
    assert KNOWN.fit(labelled("CF", "C")[1:]).unseen == {}


def test_nodes_without_a_label_stay_without():
    graphs = labelled("CO")
    graphs = replace(graphs, node_label=torch.tensor([-1, 1], dtype=torch.int32))
    fitted, unseen = KNOWN.fit(graphs)
    assert (fitted.node_label.tolist(), unseen) == ([-1, 2], {})


@given(st.lists(st.text("CNOFZ", min_size=1), min_size=1, max_size=4))
def test_against_a_loop_over_nodes(texts):
    fitted, unseen = KNOWN.fit(labelled(*texts))
    letters = "".join(texts)
    assert fitted.x.tolist() == [[float(name == letter) for name in "CNO"] for letter in letters]
    assert unseen == {letter: letters.count(letter) for letter in "FZ" if letter in letters}


def test_degrees_above_the_highest_known_one_count_as_it():
    known = Vocabulary("degree", ("1", "2", "4"), 0, ("a", "b"))
    fitted, unseen = known.fit(Graphs.from_networkx([nx.star_graph(9), nx.star_graph(3)]))
    one, four, none = [1, 0, 0], [0, 0, 1], [0, 0, 0]
    assert fitted.x.tolist() == [four, *[one] * 9, none, *[one] * 3]
    assert unseen == {"3": 1}  # not in the vocabulary


@pytest.mark.parametrize(
    ("given_", "expected"),
    [(["yes", "no"], [1, 0]), (["yes", "yes"], [1, 1]), (["yes", "maybe"], None), (None, None)],
)
def test_classes(given_, expected):
    fitted = KNOWN.fit(labelled("C", "O", y=given_)).graphs
    assert (None if fitted.y is None else fitted.y.tolist()) == expected
    assert fitted.class_names == KNOWN.class_names


@pytest.mark.parametrize(
    ("known", "source", "message"),
    [
        (
            Vocabulary("labels", ("C",), 0, ("a",)),
            "motifs",
            "motifs has degree as node features; the model was trained with labels.",
        ),
        (
            Vocabulary("degree", ("1",), 0, ("a",)),
            "MUTAG",
            "MUTAG has labels as node features; the model was trained with degree.",
        ),
        (
            Vocabulary("attributes", (), 2, ("a",)),
            "MUTAG",
            "MUTAG has 0 attributes per node; the model was trained with 2.",
        ),
    ],
)
def test_graphs_with_other_features_are_refused(known, source, message):
    with pytest.raises(SagpoolError) as error:
        known.fit(load(source)[:5])
    assert str(error.value) == message


def test_node_labels_must_match_the_model(varied):
    bare = replace(varied, node_label=None, node_label_names=(), feature_kind="attributes")
    with pytest.raises(SagpoolError, match="varied has no node labels; the model was trained with"):
        Vocabulary.of(varied).fit(bare)
    with pytest.raises(SagpoolError, match="varied has node labels; the model was trained with at"):
        Vocabulary.of(bare).fit(varied)


@pytest.mark.parametrize("features", ["labels", "attributes", "both", "degree"])
def test_the_argument_of_load(small, features: Features):
    graphs = load(small.folder, features)
    assert Vocabulary.of(graphs).features == features


@given(
    st.sampled_from(["labels", "attributes", "attributes+labels"]),
    st.lists(st.text(), unique=True).map(tuple),
    st.integers(0, 100),
    st.lists(st.text(), unique=True).map(tuple),
)
def test_round_trip_through_json(kind, labels, attributes, classes):
    vocabulary = Vocabulary(kind, labels, attributes, classes)
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@pytest.mark.parametrize(
    "change",
    [
        {"feature_kind": "colours"},
        {"feature_kind": []},
        {"feature_kind": "degree"},
        {"attributes": -1},
        {"attributes": True},
        {"attributes": "3"},
        {"node_labels": "CNO"},
        {"node_labels": ["C", "C", "O"]},
        {"node_labels": [1, 2, 3]},
        {"class_names": None},
    ],
)
def test_invalid_json_is_refused(change):
    with pytest.raises((ValueError, TypeError)):
        Vocabulary.from_json({**json.loads(json.dumps(KNOWN.to_json())), **change})
