import csv
import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sagpool import TrainedModel, load
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """An untrained model for MUTAG."""
    graphs = load("MUTAG")
    torch.manual_seed(3)
    shape = Shape(graphs.num_features, graphs.num_classes, hidden=16)
    weights = {n: 3 * t for n, t in build("sagpool-h", shape).state_dict().items()}
    trained = TrainedModel.of_net("sagpool-h", shape, Vocabulary.of(graphs), weights)
    return trained.save_pretrained(tmp_path_factory.mktemp("model"))


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


def probabilities(text: str) -> np.ndarray:
    return np.array([row[2:4] for row in rows(text)[1:]], float)


def jsonl(path: Path, *graphs: dict) -> Path:
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    return path


MOLECULES = [
    {"id": "a, b", "nodes": ["C", "O"], "edges": [[0, 1]]},
    {"nodes": ["N", "N", "C"], "edges": [[0, 1], [1, 2]]},
    {"id": "c", "nodes": ["C"]},
]


def test_csv(sagpool, model, tmp_path):
    outcome = sagpool("predict", model, jsonl(tmp_path / "x.jsonl", *MOLECULES))
    assert (outcome.code, outcome.err) == (0, "")
    header, *found = rows(outcome.out)
    assert header == ["id", "class", "p_non-mutagenic", "p_mutagenic", "unknown_nodes"]
    assert [row[0] for row in found] == ["a, b", "2", "c"]
    graphs = load(tmp_path / "x.jsonl")
    expected = TrainedModel.from_pretrained(model).predict_proba(graphs).probabilities
    np.testing.assert_allclose(probabilities(outcome.out), expected, rtol=1e-5)
    names = ("non-mutagenic", "mutagenic")
    assert [row[1] for row in found] == [names[i] for i in expected.argmax(1)]
    assert np.ptp(expected[:, 0]) > 1e-3  # it distinguishes the graphs


def test_json_lines(sagpool, model, tmp_path):
    data = jsonl(tmp_path / "x.jsonl", *MOLECULES)
    table = rows(sagpool("predict", model, data).out)[1:]
    first, *_ = lines = [
        json.loads(line) for line in sagpool("predict", model, data, "--json").out.splitlines()
    ]
    assert list(first) == ["id", "class", "probabilities"]
    assert [
        [one["id"], one["class"], *(f"{p:.6g}" for p in one["probabilities"].values()), ""]
        for one in lines
    ] == table
    assert list(first["probabilities"]) == ["non-mutagenic", "mutagenic"]
    same = sagpool("predict", model, data, "--format", "jsonl").out
    assert [json.loads(line) for line in same.splitlines()] == lines


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_predictions_do_not_depend_on_the_batch_size(sagpool, model, tmp_path, size):
    data = jsonl(tmp_path / "x.jsonl", *MOLECULES * 3)
    whole, parts = sagpool("predict", model, data), sagpool(
        "predict", model, data, "--batch-size", size
    )  # fmt: skip
    assert [row[:2] for row in rows(parts.out)] == [row[:2] for row in rows(whole.out)]
    np.testing.assert_allclose(probabilities(parts.out), probabilities(whole.out), atol=1e-5)


def test_the_suffix_of_the_output_decides_its_format(sagpool, model, tmp_path):
    data = jsonl(tmp_path / "x.jsonl", *MOLECULES)
    printed = sagpool("predict", model, data).out
    outcome = sagpool("predict", model, data, "-o", tmp_path / "out.csv")
    assert (outcome.out, (tmp_path / "out.csv").read_text()) == ("", printed)
    sagpool("predict", model, data, "-o", tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])["id"] == "a, b"
    sagpool("predict", model, data, "-o", tmp_path / "out.jsonl", "--format", "csv")
    assert (tmp_path / "out.jsonl").read_text() == printed


def test_rows_before_a_wrong_line_are_printed_but_no_partial_file_is_left(sagpool, model, tmp_path):
    data = jsonl(tmp_path / "x.jsonl", *MOLECULES, {"nodes": 0})
    outcome = sagpool("predict", model, data)
    assert outcome.code == 2
    assert len(rows(outcome.out)) == 4
    assert outcome.err == (
        "sagpool: x.jsonl, line 4: the number of nodes must be at least 1, not 0.\n"
    )
    (tmp_path / "out").mkdir()
    assert sagpool("predict", model, data, "-o", tmp_path / "out" / "x.csv").code == 2
    assert list((tmp_path / "out").iterdir()) == []


def test_molecules(sagpool, model, tmp_path, caplog):
    (tmp_path / "x.csv").write_text("Drug,tox\nCCO,mutagenic\nC(C,\nN,\n")
    columns = ("--smiles-column", "drug", "--label-column", "tox")
    with caplog.at_level(logging.WARNING):
        outcome = sagpool("predict", model, tmp_path / "x.csv", *columns)
    assert [row[0] for row in rows(outcome.out)] == ["id", "CCO", "N"]
    assert caplog.messages[0] == "x.csv, line 3 is left out: RDKit cannot read 'C(C'."
    assert "1 graphs came with a class:\n  accuracy " in outcome.err
    typed = sagpool("predict", model, "--smiles", "CCO", "--smiles", "N")
    assert rows(typed.out)[1:] == rows(outcome.out)[1:]


def test_a_tu_data_set_with_classes(sagpool, model):
    outcome = sagpool("predict", model, "MUTAG", "--batch-size", 50)
    found = rows(outcome.out)[1:]
    assert [row[0] for row in found] == [str(n) for n in range(1, 189)]
    graphs = load("MUTAG")
    hits = sum(
        row[1] == graphs.class_names[y] for row, y in zip(found, graphs.y.tolist(), strict=True)
    )
    first, accuracy, *others = outcome.err.splitlines()
    assert first == "188 graphs came with a class:"
    assert accuracy.split() == ["accuracy", f"{hits / 188:.1%}"]
    assert [line[:40].strip() for line in others] == [
        *("balanced accuracy", "area under the ROC curve", "area under the precision-recall curve"),
        *("Matthews' correlation coefficient", "F1", "log loss", "calibration error"),
    ]


def test_unknown_classes_do_not_count_as_errors(sagpool, model, tmp_path):
    graphs = [{**graph, "label": "other"} for graph in MOLECULES]
    assert sagpool("predict", model, jsonl(tmp_path / "x.jsonl", *graphs)).err == ""


def test_one_warning_about_unknown_labels_for_the_whole_run(sagpool, model, tmp_path, caplog):
    odd = [{"nodes": ["C", "Xx", "Xx"]}, {"nodes": ["Yy"]}, {"nodes": ["Xx"]}]
    data = jsonl(tmp_path / "x.jsonl", *odd)
    with caplog.at_level(logging.WARNING):
        told = sagpool("predict", model, data, "--batch-size", 1)
    assert [row[-1] for row in rows(told.out)[1:]] == ["2", "1", "1"], "flagged in each row"
    assert caplog.messages == [
        "There are labels of nodes that the model does not know: Xx (3), Yy (1); these labels "
        "are ignored."
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["MODEL"], "Give graphs to predict: either DATA or --smiles."),
        (["MODEL", "MUTAG", "--smiles", "C"], "Give graphs to predict: either DATA or --smiles."),
        (["nowhere", "MUTAG"], "There is no model folder nowhere."),
        (["MODEL", "x.jsonl"], "There is no file or folder x.jsonl."),
        (
            ["MODEL", "--smiles", "((", "-o", "out"],
            "SMILES: no molecule could be read; all 1 were left out.",
        ),
        (["MODEL", "MUTAG", "-o", "absent/out"], "There is no folder absent."),
        (["MODEL", "MUTAG", "-o", "/dev/null"], "/dev/null is not a regular file."),
        (["MODEL", "MUTAG", "-o", "."], ". is not a regular file."),
        (["MODEL", "MUTAG", "--device", "abacus"], "There is no kind of device named 'abacus'."),
        (["MODEL", "motifs"], "motifs has node degrees as features, no labels."),
    ],
)
def test_wrong_calls(sagpool, model, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    outcome = sagpool("predict", *(str(model) if a == "MODEL" else a for a in arguments))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1] == f"sagpool: {sentence}"
    assert list(tmp_path.iterdir()) == []


def test_help_explains_unreadable_molecules(sagpool):
    told = " ".join(sagpool("predict", "--help").out.split())
    assert "Molecules that cannot be read are listed on stderr and get no row." in told


def test_output_is_utf8_whatever_the_terminal(model, tmp_path):
    data = jsonl(tmp_path / "x.jsonl", {"id": "naïve→", "nodes": ["C"]})
    ended = run(model, data, env={"PYTHONIOENCODING": "ascii"})
    assert ended.stdout.decode().splitlines()[1].startswith("naïve→,")


def test_a_closed_pipe_is_no_error(model, tmp_path):
    data = jsonl(tmp_path / "x.jsonl", *MOLECULES * 3000)
    command = [sys.executable, "-m", "sagpool.cli.main", "predict", str(model), str(data)]
    with subprocess.Popen(
        [*command, "--batch-size", "500"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"id,class,p_non-mutagenic,p_mutagenic,unknown_nodes\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def run(model: Path, data: Path, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sagpool.cli.main", "predict", str(model), str(data)]
    return subprocess.run(command, capture_output=True, check=True, env={**os.environ, **env})


def test_a_model_with_attributes_ignores_labels(sagpool, tmp_path):
    entries = [{"nodes": [{"label": "C", "features": [n, 1]}], "label": n % 2} for n in range(4)]
    graphs = load(jsonl(tmp_path / "x.jsonl", *entries), "attributes")
    shape = Shape(2, 2, hidden=16)
    trained = TrainedModel.of_net(
        "sagpool-h", shape, Vocabulary.of(graphs), build("sagpool-h", shape).state_dict()
    )
    place = replace(trained, about={"a": 1}).save_pretrained(tmp_path / "model")
    outcome = sagpool("predict", place, tmp_path / "x.jsonl")
    np.testing.assert_allclose(
        probabilities(outcome.out), trained.predict_proba(graphs).probabilities, rtol=1e-5
    )


def test_the_input_is_not_overwritten(sagpool, model, tmp_path):
    data = jsonl(tmp_path / "x.jsonl", *MOLECULES)
    before = data.read_bytes()
    outcome = sagpool("predict", model, data, "-o", data)
    assert outcome.code == 2
    assert outcome.err.endswith("x.jsonl is the input; choose another output file.\n")
    assert data.read_bytes() == before


def test_several_unknown_values_of_one_atom(sagpool, tmp_path, caplog):
    """Uranium is an unknown element with an unknown hybridisation; its neighbour is known."""
    table = tmp_path / "x.csv"
    table.write_text("smiles,label\nCC,a\nCCO,b\n")
    graphs = load(table, "all")
    shape = Shape(graphs.num_features, graphs.num_classes, hidden=4)
    weights = build("sagpool-h", shape).state_dict()
    trained = TrainedModel.of_net("sagpool-h", shape, Vocabulary.of(graphs), weights)
    folder = trained.save_pretrained(tmp_path / "atoms")
    with caplog.at_level(logging.WARNING):
        told = sagpool("predict", folder, "--smiles", "[U]C")
    assert rows(told.out)[1][-1] == "1", "one node"
    (warning,) = caplog.messages
    assert "U (1)" in warning
    assert "unknown hybridisation (1)" in warning


def test_a_warning_if_all_labels_are_unknown(sagpool, model, tmp_path, caplog):
    data = jsonl(tmp_path / "x.jsonl", {"nodes": ["A", "B"], "edges": [[0, 1]]})
    with caplog.at_level(logging.WARNING):
        assert sagpool("predict", model, data).code == 0
    assert "The model knows none of the node labels: the predictions mean nothing." in caplog.text


def test_names_that_are_formulas(sagpool, model, tmp_path):
    trained = TrainedModel.from_pretrained(model)
    vocabulary = replace(trained.vocabulary, class_names=("=1+1", "-1"))
    odd = replace(trained, vocabulary=vocabulary).save_pretrained(tmp_path / "odd")
    data = jsonl(tmp_path / "x.jsonl", *({"id": "@SUM(A1)", "nodes": [n]} for n in "CNOF"))
    header, *found = rows(sagpool("predict", odd, data).out)
    assert header == ["id", "class", "p_=1+1", "p_-1", "unknown_nodes"]
    assert {row[0] for row in found} == {"'@SUM(A1)"}
    assert {row[1] for row in found} <= {"'=1+1", "-1"}
    exact = [json.loads(line) for line in sagpool("predict", odd, data, "--json").out.splitlines()]
    assert {one["id"] for one in exact} == {"@SUM(A1)"}
    assert {one["class"] for one in exact} <= {"=1+1", "-1"}
