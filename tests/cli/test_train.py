"""``sagpool train`` from the command line."""

import csv
import json
import os
import re
from pathlib import Path

import pytest

from sagpool import TrainedModel, load
from sagpool.output_folder import MANIFEST

SHORT = (
    *("--quick", "--method", "sagpool-g", "--folds", 2, "--device", "cpu"),
    *("--set", "max_epochs=2", "--set", "hidden=4", "--set", "batch_size=128"),
)
FILES = [
    MANIFEST,
    *("README.md", "config.json", "model.safetensors", "out-of-fold.csv", "report.html"),
]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_prints_the_estimate_and_the_next_commands(sagpool, folder):
    told = sagpool("train", "MUTAG", "-o", "model", *SHORT)
    assert told.code == 0
    assert "Model: sagpool-g.\n" in told.out
    assert "Estimated by 2-fold cross-validation, with 95 % intervals:" in told.out
    assert re.search(r"most frequent class, always predicted +66.5%\n", told.out)
    assert re.search(r"prediction sets contain the truth +\d+.\d% +promised 90%", told.out)
    assert "Warning: the model is not shown to be better than always predicting" in told.out
    assert "sagpool predict model DATA" in told.out
    assert "sagpool explain model DATA" in told.out
    assert os.listdir(folder) == ["model"]
    assert sorted(os.listdir("model")) == FILES
    card = (folder / "model" / "README.md").read_text()
    assert "Not shown to be better" in card
    assert "graphs: 188" in card
    model = TrainedModel.from_pretrained("model")
    assert model.predict_proba(load("MUTAG", "all")).unseen == {}


def test_no_command_that_has_nothing_to_draw_is_named(sagpool, folder):
    told = sagpool("train", "MUTAG", "-o", "model", *SHORT, "--method", "mincut-h")
    assert told.code == 0
    assert "sagpool predict model DATA" in told.out
    assert "sagpool explain" not in told.out


def test_held_out_predictions_and_the_page(sagpool, folder):
    told = sagpool("train", "MUTAG", "-o", "model", "--only", "simple", "--folds", 2)
    assert told.code == 0
    assert "Model: " in told.out
    with (folder / "model" / "out-of-fold.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "fold", "truth", "predicted", "p_non-mutagenic", "p_mutagenic"]
    assert len(rows) == 188
    assert {row[1] for row in rows} == {"0", "1"}
    right = sum(row[2] == row[3] for row in rows)
    assert re.search(rf"  accuracy +{right / 188:.1%} ", told.out)
    page = (folder / "model" / "report.html").read_text()
    assert f"{right / 188:.1%}" in page
    assert "<svg" in page
    assert "--accent:" in page  # the colours that the style sheet uses
    assert "http" not in page.replace("http://www.w3.org", "")


def test_several_targets_with_gaps_and_numbers(sagpool, folder):
    smiles = ["C" * n + end for n in range(1, 7) for end in ("", "O", "N", "F")]
    table = [
        f"{s},{len(s)},{'' if n % 5 == 0 else n % 2},{n // 2 % 2}" for n, s in enumerate(smiles)
    ]
    (folder / "x.csv").write_text("smiles,size,first,second\n" + "\n".join(table))
    options = ("--only", "simple", "--folds", 2)
    columns = ("--task", "multitask", "--label-column", "first,second")
    assert sagpool("train", "x.csv", "-o", "tasks", *columns, *options).code == 0
    told = sagpool("predict", "tasks", "x.csv")
    header = told.out.splitlines()[0]
    wanted = "id,first,p_first,set_first,second,p_second,set_second,unlike_training_data,unknown"
    assert header.startswith(wanted)
    assert "graphs came with a target" in told.err
    columns = ("--task", "regression", "--label-column", "size")
    told = sagpool("train", "x.csv", "-o", "size", *columns, *options)
    assert "root mean squared error" in told.out
    assert "sagpool explain size DATA" in told.out
    covered = r"prediction intervals contain the truth .* promised 90%, mean width"
    assert re.search(covered, told.out)
    for file in ("README.md", "report.html"):
        assert "prediction intervals" in Path("size", file).read_text()
    told = sagpool("predict", "size", "x.csv")
    header, *rows = csv.reader(told.out.splitlines())
    assert header[:4] == ["id", "size", "low_size", "high_size"]
    low, value, high = (float(rows[0][column]) for column in (2, 1, 3))
    assert low < value < high


def test_json(sagpool):
    told = sagpool("train", "MUTAG", "-o", "model", "--json", *SHORT)
    found = json.loads(told.out)
    assert found["model"] == "sagpool-g"
    assert found["settings"]["sagpool-g"]["hidden"] == 4
    assert found["estimate"]["majority"] == pytest.approx(125 / 188)
    assert [row["name"] for row in found["leaderboard"]] == ["sagpool-g"]


def test_nets_and_simple_models_are_tried(sagpool):
    options = ("--folds", 2, "--set", "max_epochs=1", "--set", "hidden=4", "--json")
    told = sagpool("train", "MUTAG", "-o", "model", *options)
    rows = {row["name"]: row for row in json.loads(told.out)["leaderboard"]}
    assert {"counts-linear", "wl-linear", "sagnet ratio=0.8", "gin-g"} < rows.keys()
    assert sum(row["weight"] for row in rows.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["nowhere.jsonl"], "There is no file or folder nowhere.jsonl."),
        (["MUTAG", "--method", "sagpol-h"], "There is no method 'sagpol-h'; did you mean"),
        (["MUTAG", "--set", "lr=1,2"], "lr has 2 values; give one."),
        (["MUTAG", "--set", "lrr=1"], "'lrr' is not a setting; did you mean 'lr'."),
        (["MUTAG", "--features", "attributes"], "MUTAG has no node attributes."),
        (["MUTAG", "--label-column", "y"], "MUTAG is not a table, so it has no column 'y'."),
        (["MUTAG", "--coverage", "2"], "coverage must be between 0 and 1, not 2.0."),
    ],
)
def test_wrong_input_is_one_sentence(sagpool, folder, options, sentence):
    told = sagpool("train", *options, "-o", "model", "--quick")
    assert told.code == 2
    assert told.err.splitlines()[-1].startswith(f"sagpool: {sentence}")
    assert os.listdir(folder) == []


def test_the_output_is_a_file(sagpool, folder):
    (folder / "model").write_text("mine")
    told = sagpool("train", "MUTAG", "-o", "model", *SHORT)
    assert told.code == 2
    assert told.err.endswith("sagpool: model is a file, not a folder.\n")
    assert (folder / "model").read_text() == "mine"


def test_files_that_are_not_part_of_a_model_are_not_overwritten(sagpool, folder):
    (folder / "README.md").write_text("my notes")
    told = sagpool("train", "MUTAG", "-o", ".", *SHORT)
    assert told.code == 2
    assert told.err == (
        "sagpool: . holds README.md, which is not known to be from an earlier `sagpool train`; "
        "name another folder, or add --force, which overwrites files of the same names.\n"
    )
    (folder / "README.md").unlink()
    assert sagpool("train", "MUTAG", "-o", ".", *SHORT).code == 0
    assert sagpool("train", "MUTAG", "-o", ".", *SHORT).code == 0, "a model may be replaced"
    assert sorted(os.listdir(folder)) == FILES
    (folder / "README.md").write_text("my own words about this model")
    told = sagpool("train", "MUTAG", "-o", ".", *SHORT)
    assert told.code == 2
    assert told.err.startswith("sagpool: README.md was changed after sagpool had written it; ")
    assert (folder / "README.md").read_text() == "my own words about this model"
    assert sagpool("train", "MUTAG", "-o", ".", "--force", *SHORT).code == 0
    assert "Graph classifier" in (folder / "README.md").read_text()


def test_checkpoints_of_the_user_stay(sagpool, folder):
    mine = {"checkpoint-mine.npz": b"weeks of work", "model.safetensors": b"another model"}
    for name, content in mine.items():
        (folder / name).write_bytes(content)
    told = sagpool("train", "MUTAG", "-o", ".", *SHORT)
    assert told.code == 2
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == mine
    assert sagpool("train", "MUTAG", "-o", ".", "--force", *SHORT).code == 0
    assert (folder / "checkpoint-mine.npz").read_bytes() == b"weeks of work"


def test_a_stopped_training_is_continued_and_its_checkpoint_removed(sagpool, folder, monkeypatch):
    def stop(*_, checkpoint, **__):
        checkpoint("sagpool-g").write_bytes(b"so far")
        raise KeyboardInterrupt

    monkeypatch.setattr("sagpool.cli.train.fit", stop)
    assert sagpool("train", "MUTAG", "-o", "model", "--quick").code == 130
    assert len(list((folder / "model").glob("checkpoint-*.npz"))) == 1
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert sagpool("train", "MUTAG", "-o", "model", *SHORT).code == 0
    assert not list((folder / "model").glob("checkpoint-*.npz"))


def test_the_latest_molecules_are_held_out(sagpool, folder):
    heads = ["OCC", "NCC", "CCC", "ClCC", "BrCC", "SCC"]
    rows = [f"{heads[i % 6]}{'C' * (i % 7)},{'ab'[i % 2]},{2000 + i // 6}" for i in range(60)]
    (folder / "x.csv").write_text("\n".join(["smiles,label,year", *rows]))
    by_time = ("--split", "time", "--time-column", "year")
    told = sagpool("train", "x.csv", "-o", "model", "--only", "simple", *by_time)
    assert told.code == 0, told.err
    assert "Estimated on the latest 12 graphs, by a model of the 48 before them, with" in told.out
    assert "on held-out graphs of 10 folds of all graphs:" in told.out
    with (folder / "model" / "out-of-fold.csv").open() as file:
        held_out = list(csv.DictReader(file))
    assert [row["id"] for row in held_out] == [row.split(",")[0] for row in rows[48:]]
    assert "fold" not in held_out[0]
    page = (folder / "model" / "report.html").read_text()
    assert "Scores on the latest 12 graphs, by a model of the 48 before them" in page
    assert "chosen on the earlier graphs, so no graph" in page
    assert "Estimated on the latest 12 graphs, by" in (folder / "model" / "README.md").read_text()


@pytest.mark.parametrize(
    ("given", "missing"),
    [(("--split", "time"), "--time-column"), (("--time-column", "year"), "--split time")],
)
def test_a_split_by_time_needs_both_options(sagpool, folder, given, missing):
    told = sagpool("train", "x.csv", "-o", "model", *given)
    assert told.code == 2
    assert f"--split time and --time-column need each other; add {missing}." in told.err


def test_targets_that_were_measured_early_alone(sagpool, folder):
    """The page has no picture of predictions that cannot be compared with anything."""
    rows = [f"{'C' * (1 + i % 9)}O,{i % 9},{i % 5 if i < 40 else ''},{i}" for i in range(60)]
    (folder / "x.csv").write_text("\n".join(["smiles,size,early,number", *rows]))
    told = sagpool(
        *("train", "x.csv", "-o", "model", "--only", "simple", "--task", "regression"),
        *("--label-column", "size,early", "--split", "time", "--time-column", "number"),
    )
    assert told.code == 0, told.err
    page = (folder / "model" / "report.html").read_text()
    assert page.count('class="figure"') == 1
