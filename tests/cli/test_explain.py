import csv
import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sagpool import load
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.novelty import Novelty, descriptors
from sagpool.classifier.parts import SimplePart
from sagpool.classifier.simple import fit_simple
from sagpool.graphs import Graphs
from sagpool.graphs.graphs import Task
from sagpool.graphs.records import Columns
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build

TABLE = "smiles,label\nCC(=O)Oc1ccccc1C(=O)O,yes\nCN1C=NC2=C1C(=O)N(C(=O)N2C)C,no\nCCN,no\n"


def save(graphs: Graphs, folder: Path, method: str = "sagpool-h") -> Path:
    """Save an untrained model."""
    shape = Shape(graphs.num_features, graphs.num_classes, hidden=4, max_nodes=30, k=3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        weights = build(method, shape).state_dict()
    about = {"data": vars(graphs.statistics()), "settings": {}, "versions": {}}
    return TrainedModel.of_net(
        method, shape, Vocabulary.of(graphs), weights, about
    ).save_pretrained(folder)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "drugs.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def model(table, tmp_path) -> Path:
    return save(load(table), tmp_path / "model")


def test_molecules(sagpool, model, table, tmp_path):
    folder = tmp_path / "out"
    outcome = sagpool("explain", model, table, "-o", folder)
    assert (outcome.code, outcome.err) == (0, "")
    *told, files, last = outcome.out.splitlines()
    assert told[0].startswith("The predicted class has a mean probability of 0.")
    assert files == f"scores.csv and a page are in {folder}."
    assert last == f"Open {folder / 'index.html'} in a browser."
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == [
        "index.html", "scores.csv",
    ]  # fmt: skip
    rows = list(csv.DictReader((folder / "scores.csv").read_text().splitlines()))
    assert len(rows) == 3 * (13 + 14 + 3)
    assert "3 graphs" in (folder / "index.html").read_text()


def test_json(sagpool, model, table, tmp_path):
    outcome = sagpool("explain", model, table, "-o", tmp_path / "out", "--json")
    told = json.loads(outcome.out)
    assert told["method"] == "sagpool-h"
    assert {graph["id"] for graph in told["graphs"]} >= {"CCN"}
    for graph in told["graphs"]:
        assert 0 <= graph["only_kept"]["probability"] <= 1
        assert graph["only_dropped"]["prediction"] in ("yes", "no")
    assert told["fidelity"]["graphs"] == 3
    assert set(told["fidelity"]["probability"]) == {"whole", "only_kept", "only_dropped"}


def test_limit_and_files_of_an_earlier_call(sagpool, tmp_path):
    model = save(load("motifs"), tmp_path / "model")
    folder = tmp_path / "out"
    assert sagpool("explain", model, "motifs", "-o", folder, "--limit", 3).code == 0
    (folder / "7.png").write_bytes(b"mine")
    arguments = ("explain", model, "motifs", "-o", folder, "--limit", 2, "--json")
    refused = sagpool(*arguments)
    assert refused.code == 2
    assert refused.err.startswith(f"sagpool: {folder} holds 7.png, which is not known ")
    assert "--force" in refused.err
    outcome = sagpool(*arguments, "--force")
    assert (folder / "7.png").read_bytes() == b"mine"
    found = json.loads(outcome.out)["fidelity"]["found"]
    assert [level["random_recall"] for level in found] == pytest.approx([0.5, 0.27, 0.14], abs=0.1)
    assert "2 of 1,000 graphs" in (folder / "index.html").read_text()


def test_smiles(sagpool, model, tmp_path):
    arguments = ("explain", model, "-o", tmp_path / "out", "--smiles", "CCO", "--smiles", "CBr")
    outcome = sagpool(*arguments, "--json")
    told = json.loads(outcome.out)
    assert {graph["id"] for graph in told["graphs"]} == {"CCO", "CBr"}
    assert told["unseen_labels"] == {"Br": 1}


def test_a_warning_about_unknown_labels(sagpool, model, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        assert sagpool("explain", model, "--smiles", "BrCBr", "-o", tmp_path / "out").code == 0
    assert caplog.messages == ["There are labels of nodes that the model does not know: Br (2)."]
    assert "has not seen these node labels in training: Br (2 nodes)." in (
        tmp_path / "out" / "index.html"
    ).read_text().replace("\n", " ")


def with_novelty(model: Path, table: Path, folder: Path, threshold: float) -> Path:
    """The model with a test for graphs unlike the training data: their distance from 0."""
    width = descriptors(load(table)).shape[1]
    novelty = Novelty(np.zeros(width), np.eye(width), threshold)
    return replace(TrainedModel.from_pretrained(model), novelty=novelty).save_pretrained(folder)


@pytest.mark.parametrize("threshold", [0.5, 1e9])
def test_a_warning_about_graphs_unlike_the_training_data(
    threshold, sagpool, model, table, tmp_path, caplog
):
    folder = with_novelty(model, table, tmp_path / "doubting", threshold)
    with caplog.at_level(logging.WARNING):
        assert sagpool("explain", folder, table, "-o", tmp_path / "out").code == 0
    warning = (
        "3 of 3 graphs are unlike the training data: do not rely on what is predicted and "
        "explained for them."
    )
    assert caplog.messages == ([warning] if threshold < 1 else [])


def test_graphs_unlike_the_training_data_are_marked_as_in_predictions(
    sagpool, model, table, tmp_path
):
    folder = with_novelty(model, table, tmp_path / "doubting", 3.0)
    lines = sagpool("predict", folder, table, "--json").out.splitlines()
    unlike = {one["id"]: one["unlike_training_data"] for one in map(json.loads, lines)}
    assert sorted(unlike.values()) == [False, True, True]
    told = json.loads(sagpool("explain", folder, table, "-o", tmp_path / "out", "--json").out)
    assert {one["id"]: one["unlike_training_data"] for one in told["graphs"]} == unlike
    rows = csv.DictReader((tmp_path / "out" / "scores.csv").read_text().splitlines())
    marks = {(row["id"], row["unlike_training_data"]) for row in rows}
    assert marks == {(name, "yes" if one else "") for name, one in unlike.items()}


def test_unsafe_names_are_escaped(sagpool, tmp_path):
    path = tmp_path / "<b>.jsonl"
    lines = [
        {"id": "<script>alert(1)</script>", "nodes": ["a", "b", "a"], "edges": [[0, 1], [1, 2]]},
        {"id": "../up", "nodes": ["<b>", "b"], "edges": [[0, 1]]},
    ]
    labelled = [line | {"label": label} for line, label in zip(lines, "yx", strict=True)]
    path.write_text("\n".join(map(json.dumps, labelled)))
    model = save(load(path), tmp_path / "model")
    assert sagpool("explain", model, path, "-o", tmp_path / "out").code == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "alert" not in page
    assert "<b>" not in page
    assert "What sagpool-h keeps of &lt;b&gt;" in page


def test_errors_are_one_sentence(sagpool, model, table, tmp_path):
    def error(*arguments: object) -> str:
        outcome = sagpool("explain", *arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert len(outcome.err.splitlines()) == 1
        return outcome.err

    out = ("-o", tmp_path / "out")
    none = tmp_path / "none"
    assert error(none, table, *out) == f"sagpool: There is no model folder {none}.\n"
    assert "no-such.csv" in error(model, tmp_path / "no-such.csv", *out)
    assert error(model, *out) == ("sagpool: Give graphs to explain: either DATA or --smiles.\n")
    assert error(model, table, *out, "--smiles", "C").startswith("sagpool: Give graphs to explain")
    assert error(model, table, "-o", table) == (f"sagpool: {table} is a file, not a folder.\n")
    assert error(model, *out, "--smiles", "C1CC") == ("sagpool: RDKit cannot read 'C1CC'.\n")
    empty = tmp_path / "empty.csv"
    empty.write_text("smiles\n")
    assert error(model, empty, *out) == "sagpool: empty has no graph.\n"
    other = save(load(table), tmp_path / "other", "set2set-g")
    assert error(other, table, *out) == (
        "sagpool: set2set-g keeps no nodes, so there is nothing to draw.\n"
    )
    assert not (tmp_path / "out").exists()
    assert "motifs" in error(model, "motifs", *out)


def test_a_very_large_molecule(sagpool, model, tmp_path, caplog, monkeypatch):
    """It is drawn as a graph, and its name is not repeated in full for each of its atoms."""
    folder = tmp_path / "out"
    refused = sagpool("explain", model, "--smiles", "C" * 12_000, "-o", folder)
    assert refused.code == 2
    assert "12,000 characters in a SMILES; at most 10,000 are read" in refused.err
    monkeypatch.setenv("SAGPOOL_MAX_SMILES", "20000")
    outcome = sagpool("explain", model, "--smiles", "C" * 12_000, "-o", folder)
    assert outcome.code == 0, outcome.err
    assert "1 of the graphs have more than 10000 nodes; their pictures show 10000" in caplog.text
    assert (folder / "scores.csv").stat().st_size < 300 * 3 * 12_000
    assert (folder / "index.html").stat().st_size < 300_000


def test_a_model_without_a_net(sagpool, table, tmp_path):
    """It has reasons, and no scores of an earlier call."""
    table.write_text(TABLE + "CCO,no\nCCCl,yes\n")
    graphs = load(table, "all")
    part = SimplePart(fit_simple("counts-linear", graphs, np.arange(5), 0))
    about = {"data": vars(graphs.statistics()), "settings": {}, "versions": {}}
    simple = TrainedModel(Vocabulary.of(graphs), (part,), about=about)
    model = simple.save_pretrained(tmp_path / "simple")
    folder = tmp_path / "out"
    net = save(graphs, tmp_path / "net")
    assert sagpool("explain", net, table, "-o", folder).code == 0
    outcome = sagpool("explain", model, table, "-o", folder)
    assert (outcome.code, outcome.err) == (0, "")
    told, files, _ = outcome.out.splitlines()
    assert told.startswith("The reasons are those of counts-linear;")
    assert files == f"reasons.csv and a page are in {folder}."
    assert not (folder / "scores.csv").exists()
    rows = list(csv.DictReader((folder / "reasons.csv").read_text().splitlines()))
    assert {row["graph"] for row in rows} == set("01234")
    outcome = sagpool("explain", model, table, "-o", folder, "--json")
    told = json.loads(outcome.out)
    assert told["fidelity"] is None
    assert all(graph["reasons"] for graph in told["graphs"])


SEVERAL = "smiles,a,b\nCCN,1,0\nCCO,0,1\nCCCC,1,1\nCNCO,,0\nCCOCCN,1,\nO,0,1\n"


@pytest.fixture
def several(table, tmp_path):
    """A simple model of two targets with gaps."""

    def new(task: Task) -> Path:
        table.write_text(SEVERAL)
        graphs = load(table, "all", columns=Columns(label=("a", "b")), task=task)
        part = SimplePart(fit_simple("counts-linear", graphs, np.arange(6), 0))
        about = {"data": vars(graphs.statistics()), "settings": {}, "versions": {}}
        simple = TrainedModel(Vocabulary.of(graphs), (part,), about=about)
        return simple.save_pretrained(tmp_path / "several")

    return new


def test_numbers(sagpool, several, table, tmp_path):
    model, folder = several("regression"), tmp_path / "out"
    outcome = sagpool("explain", model, table, "-o", folder)
    assert (outcome.code, outcome.err) == (0, "")
    first, reasons, *_ = outcome.out.splitlines()
    assert first == "What is explained is a, one of 2 targets: a, b."
    assert "counts-linear; an amount is what it added to a, compared with" in reasons
    told = json.loads(sagpool("explain", model, table, "-o", folder, "--json").out)
    assert told["target"] == "a"
    by_id = {graph["id"]: graph for graph in told["graphs"]}
    assert by_id["CNCO"]["targets"]["a"]["truth"] is None
    assert by_id["CNCO"]["targets"]["b"]["truth"] == 0
    values = [graph["targets"]["a"]["value"] for graph in told["graphs"]]
    assert values == sorted(values, reverse=True)
    rows = list(csv.DictReader((folder / "reasons.csv").read_text().splitlines()))
    assert {row["graph"] for row in rows} == set("012345")


@pytest.mark.parametrize("task", ["regression", "multitask"])
def test_a_chosen_target(sagpool, several, table, tmp_path, task):
    model, out = several(task), ("-o", tmp_path / "out", "--json")
    found = {
        name: json.loads(sagpool("explain", model, table, *out, "--target", name).out)
        for name in "ab"
    }
    for name, told in found.items():
        assert told["target"] == told["reasons_of"]["target"] == name
    reasons = [
        {graph["id"]: graph["reasons"] for graph in told["graphs"]} for told in found.values()
    ]
    assert reasons[0] != reasons[1]
    if task == "multitask":
        classes = {graph["id"]: graph["class"] for graph in found["b"]["graphs"]}
        truth = {"CCN": "0", "CCO": "1", "CCCC": "1", "CNCO": "0", "CCOCCN": None, "O": "1"}
        assert classes == truth


def test_targets_that_are_not_there(sagpool, several, model, table, tmp_path):
    out = ("-o", tmp_path / "out", "--target", "c")
    refused = sagpool("explain", several("multitask"), table, *out)
    assert (refused.code, refused.err) == (2, "sagpool: There is no target 'c', only a, b.\n")
    refused = sagpool("explain", model, "--smiles", "CCO", *out)
    assert refused.code == 2
    assert refused.err == "sagpool: There is no target 'c': the model predicts classes.\n"
    assert not (tmp_path / "out").exists()
