"""Targets, ids and label columns of every format."""

import json
import math

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs, load
from sagpool.graphs.record_files import chunks
from sagpool.graphs.records import Columns
from sagpool.graphs.vocabulary import Vocabulary

TABLE = "smiles,name,a,b\nCCO,one,1,\nc1ccccc1,two,0,1\nCC,three,,\nCl,,1,0\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(TABLE)
    return path


def values(graphs: Graphs) -> list[list[float | None]]:
    rows = graphs.targets.tolist()
    return [[None if math.isnan(value) else value for value in row] for row in rows]


def test_several_columns_of_a_table(table, caplog):
    graphs = load(table, columns=Columns(label=("a", "b"), id="name"), task="multitask")
    assert values(graphs) == [[1, None], [0, 1], [1, 0]]
    assert (graphs.task, graphs.target_names, graphs.y) == ("multitask", ("a", "b"), None)
    assert graphs.ids.tolist() == ["one", "two", "Cl"]  # without a name, the SMILES
    assert "x.csv, line 4 is left out: it has no target." in caplog.messages
    assert load(table).ids.tolist() == ["CCO", "c1ccccc1", "CC", "Cl"]


def test_the_only_target_may_have_another_name(table, tmp_path):
    train = load(table, columns=Columns(label="B"), task="regression")
    assert (train.target_names, values(train)) == (("B",), [[1], [0]])
    other = tmp_path / "y.csv"
    other.write_text("smiles,c\nCC,7\n")
    (chunk,) = chunks(other, Vocabulary.of(train), Columns(label="c"))
    assert (chunk.graphs.target_names, values(chunk.graphs)) == (("B",), [[7]])


def test_targets_of_new_graphs_are_found_by_name(table, tmp_path):
    train = load(table, "all", columns=Columns(label=("a", "b")), task="regression")
    vocabulary = Vocabulary.of(train)
    assert vocabulary.num_outputs == 2
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary
    other = tmp_path / "y.csv"
    other.write_text("b,smiles\n2.5,CC\n,CO\n")
    (chunk,) = chunks(other, vocabulary)
    assert values(vocabulary.fit(chunk.graphs).graphs) == [[None, 2.5], [None, None]]
    other.write_text("smiles\nCC\n")
    (chunk,) = chunks(other, vocabulary)
    assert chunk.graphs.targets is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"columns": Columns(label="name"), "task": "regression"},
            "x.csv, line 2: the value of 'name' must be a number, or empty, not 'one'.",
        ),
        (
            {"columns": Columns(label="smiles"), "task": "multitask"},
            "x.csv, line 2: the value of 'smiles' must be 0 or 1, or empty, not 'CCO'.",
        ),
        (
            {"columns": Columns(label=("a", "b"))},
            "x.csv has several labels for a graph (a, b): choose one of them, or the task "
            "multitask or regression.",
        ),
        (
            {"need_labels": True},
            "x.csv has no column for the label (label, class, y, target, activity); its columns "
            "are smiles, name, a, b. Choose one with --label-column (of several targets: A,B), in "
            "Python with Columns(label=...).",
        ),
        (
            {"columns": Columns(id="nr")},
            "x.csv has no column named 'nr'; its columns are smiles, name, a, b.",
        ),
        ({"task": "ranking"}, "Unknown task 'ranking'; choose one of classification, multitask, "
         "regression."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(table, options, message):
    with pytest.raises(SagpoolError) as error:
        load(table, **options)
    assert str(error.value) == message


def test_properties_of_an_sdf_file(tmp_path):
    from rdkit import Chem

    path = tmp_path / "x.sdf"
    with Chem.SDWriter(str(path)) as writer:
        for smiles, logp in (("CC", "1.5"), ("CO", ""), ("CN", "-2")):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("LogP", logp)
            molecule.SetProp("Code", f"x-{smiles}")
            writer.write(molecule)
    graphs = load(path, columns=Columns(label="logp", id="code"), task="regression")
    assert values(graphs) == [[1.5], [-2]]
    assert graphs.ids.tolist() == ["x-CC", "x-CN"]
    with pytest.raises(SagpoolError, match=r"its properties are LogP, Code\. Choose one with --la"):
        load(path, need_labels=True)


def test_targets_and_edges_of_json_lines(tmp_path):
    path = tmp_path / "x.jsonl"
    edge = {"nodes": 2, "edges": [[0, 1]], "edge_labels": ["s"]}
    lines = [
        {"id": "a", **edge, "labels": {"p": 1, "q": 2.5}},
        {"nodes": 1, "labels": {"p": None}},
        {"nodes": 1, "labels": {"q": 0}},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    graphs = load(path, "all", task="regression")
    assert (graphs.target_names, values(graphs)) == (("p", "q"), [[1, 2.5], [None, 0]])
    assert graphs.ids.tolist() == ["a", "3"]
    assert graphs.column_names[0] == "edge label s"
    with pytest.raises(SagpoolError, match=r"several labels for a graph \(p, q\)"):
        load(path)
    lines = [{"nodes": 1, "label": 1.5}, {"nodes": 1, "label": -1}]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert values(load(path, task="regression")) == [[1.5], [-1]]


def test_targets_of_pyg_and_networkx():
    edges = torch.zeros(2, 0, dtype=torch.long)
    data = [Data(num_nodes=1, edge_index=edges, y=torch.tensor([[1.5, math.nan]])) for _ in "ab"]
    graphs = Graphs.from_pyg(data, task="regression")
    assert (graphs.target_names, values(graphs)) == (("y 0", "y 1"), [[1.5, None]] * 2)
    graphs = Graphs.from_networkx([nx.path_graph(2)] * 2, [0.5, 2], task="regression")
    assert (graphs.target_names, values(graphs)) == (("y",), [[0.5], [2]])
    with pytest.raises(SagpoolError, match="graph 1: the value of 'y' must be 0 or 1"):
        Graphs.from_networkx([nx.path_graph(2)] * 2, [0, 2], task="multitask")


def test_sets_with_classes_have_no_targets():
    with pytest.raises(SagpoolError, match=r"^MUTAG has classes, no targets for regression\.$"):
        load("MUTAG", task="regression")
    assert load("MUTAG").ids[:2].tolist() == ["1", "2"]
    assert np.array_equal(load("MUTAG")[[5, 3]].ids, ["6", "4"])
