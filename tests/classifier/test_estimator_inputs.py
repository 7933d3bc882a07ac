"""What the estimators accept as graphs, beside what `test_estimator` tries."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from sagpool import GraphPoolingClassifier, GraphPoolingRegressor, SagpoolError, load
from sagpool.classifier.estimator_inputs import pack_for_fit, pack_graphs, with_targets
from sagpool.fleet import Training

TEXTS = ["CCO", "CCN", "CCC", "CC=O", "c1ccccc1", "C#N", "CO", "CN", "CC(C)C", "OCCO"] * 2
FEW = {"hidden": 4, "max_epochs": 1, "batch_size": 8}


@pytest.fixture(scope="module")
def fitted() -> GraphPoolingClassifier:
    return GraphPoolingClassifier("sagpool-g", **FEW).fit(TEXTS, ["a", "b"] * 10)


def test_molecules_in_every_form_are_the_same(fitted):
    chem = pytest.importorskip("rdkit.Chem")
    expected = fitted.predict_proba(TEXTS)
    assert expected.shape == (20, 2)
    molecules = [chem.MolFromSmiles(text) for text in TEXTS]
    for X in (molecules, np.array(TEXTS), tuple(TEXTS), [molecules[0], *TEXTS[1:]]):
        np.testing.assert_array_equal(fitted.predict_proba(X), expected)
    refitted = GraphPoolingClassifier("sagpool-g", **FEW).fit(molecules, ["a", "b"] * 10)
    np.testing.assert_array_equal(refitted.predict_proba(TEXTS), expected)


def test_molecules_have_all_features_by_default(fitted):
    assert fitted.model_.vocabulary.kind == "all"
    assert fitted.n_features_in_ > 20
    assert "charge" in fitted.model_.vocabulary.encoding.groups
    elements = GraphPoolingClassifier("sagpool-g", features="auto", **FEW)
    assert elements.fit(TEXTS, ["a", "b"] * 10).n_features_in_ == 3


@pytest.mark.parametrize("how", ["predict", "predict_proba"])
def test_an_unreadable_molecule_is_named(fitted, how):
    with pytest.raises(SagpoolError, match=r"^X\[2\]: RDKit cannot read 'C1CC'\.$"):
        getattr(fitted, how)(["C", "CC", "C1CC"])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({"C": 1}, "X must be a list of graphs, not dict."),
        (np.array([["CCO"]]), "X must be a list of graphs, not ndarray with 2 dimensions."),
        (nx.Graph([("C", "O")]), "X must be a list of graphs, not Graph."),
        (["CCO", float("nan")], r"X\[1\] is nan, not a graph."),
        (["CCO", 3], "X must be Graphs, or a list of .* not of int, str."),
    ],
    ids=["mapping", "table", "graph", "missing", "number"],
)
def test_what_only_looks_like_molecules(X, message):
    with pytest.raises(SagpoolError, match=f"^{message}"):
        pack_graphs(X, "all")


def pyg(bond: int) -> Data:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return Data(torch.eye(3)[[0, 1, 0]], edges, torch.tensor([[1], [1], [bond], [bond]]))


def test_edge_attributes_of_pyg_are_used():
    data = [pyg(1 + number % 2) for number in range(20)]
    graphs = pack_graphs(data, "all")
    assert any("edge label" in name for name in graphs.column_names)
    assert not torch.equal(graphs[0].x, graphs[1].x)
    assert pack_graphs(data, "auto").edge_attr is None
    settings = {**FEW, "max_epochs": 20, "lr": 2e-2}
    classifier = GraphPoolingClassifier("sagpool-g", **settings).fit(data, ["a", "b"] * 10)
    assert classifier.score(data, ["a", "b"] * 10) == 1
    first = Data(data[0].x, data[0].edge_index)
    with pytest.raises(SagpoolError, match="edge label"):
        classifier.predict([first])


def test_edges_of_networkx_are_used():
    graphs = [nx.path_graph(3) for _ in range(20)]
    for number, graph in enumerate(graphs):
        nx.set_edge_attributes(graph, str(number % 2), "label")
    names = pack_graphs(graphs, "all").column_names
    assert {"edge label 0", "edge label 1"} <= set(names)
    classifier = GraphPoolingClassifier("sagpool-g", **FEW).fit(graphs, ["a", "b"] * 10)
    assert len(classifier.predict(graphs[:3])) == 3


def test_graphs_keep_the_features_they_have():
    graphs = load("MUTAG")[:10]
    for features in ("all", "auto", "labels"):
        assert pack_for_fit(graphs, features) is graphs


class Pandas(np.ndarray):
    """With the names that a DataFrame or a Series has."""


def test_targets_have_names():
    graphs = load("MUTAG")[:3]
    table = np.array([[1, 1], [2, 2], [np.nan, 3]]).view(Pandas)
    table.columns = ["boiling", "melting"]
    column = np.ones(3).view(Pandas)
    column.name = "melting"
    assert with_targets(graphs, table).graphs.target_names == ("boiling", "melting")
    assert with_targets(graphs, column).graphs.target_names == ("melting",)
    assert with_targets(graphs, [1, 2, 3]).graphs.target_names == ("y",)
    assert with_targets(graphs, np.ones((3, 2))).graphs.target_names == ("y 0", "y 1")
    found = with_targets(graphs, table).graphs
    assert found.task == "regression"
    assert found.y is None
    assert found.class_names == ()
    again = with_targets(found, None)
    assert again.graphs.target_names == ("boiling", "melting")
    assert not again.one_column


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y is missing, and the graphs have no numbers to predict."),
        ([1, 2], "y has 2 rows for 3 graphs."),
        ([1, 2, "x"], "y must have numbers"),
        ([1, np.nan, 2], "y has no number for graph 1."),
        ([1, 2, np.inf], "y is not finite for graph 2"),
        (np.ones((3, 1, 1)), "y must have a number, or a row .*: 3 x 1 x 1."),
        (3, "y must have a number, or a row .*: one number."),
    ],
    ids=["none", "length", "text", "gap", "infinite", "dimensions", "number"],
)
def test_wrong_targets(y, message):
    with pytest.raises(SagpoolError, match=f"^{message}"):
        GraphPoolingRegressor().fit(load("MUTAG")[:3], y)


def test_the_weight_of_classes_is_passed_on(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "sagpool.classifier.estimator.Training", lambda *a, **k: seen.append(k) or Training(*a, **k)
    )
    y = ["a"] * 15 + ["b"] * 5
    plain, balanced = (
        GraphPoolingClassifier("sagpool-g", class_weight=weight, **{**FEW, "max_epochs": 3})
        .fit(TEXTS, y)
        .predict_proba(TEXTS)
        for weight in (None, "balanced")
    )
    assert [one["class_weight"] for one in seen] == ["none", "balanced"]
    assert balanced[:, 1].mean() > plain[:, 1].mean()
    with pytest.raises(SagpoolError, match="class_weight must be one of none, balanced"):
        GraphPoolingClassifier(class_weight={"a": 1}).fit(TEXTS, y)
