"""``sagpool demo``, with trainings of two epochs."""

import json
from dataclasses import replace

import pytest

import sagpool.cli.demo
from sagpool.bench.experiment_file import load_experiment
from sagpool.classifier import fit
from sagpool.classifier.candidates import NetCandidate, SimpleCandidate
from sagpool.fleet import Training

SIMPLE = SimpleCandidate("wl-linear")
NET = NetCandidate("sagpool-h", Training("sagpool-h", hidden=8, max_epochs=2))


@pytest.fixture(autouse=True)
def short(monkeypatch, tmp_path):
    demo = load_experiment("demo")
    protocol = {**demo.protocol, "max_epochs": 2, "folds": 2}
    monkeypatch.setattr(
        sagpool.cli.demo, "load_experiment", lambda name: replace(demo, protocol=protocol)
    )
    monkeypatch.setattr(sagpool.cli.demo, "fit", with_candidates(SIMPLE))
    monkeypatch.setattr(sagpool.cli.demo, "FOLDS", 2)
    monkeypatch.chdir(tmp_path)


def with_candidates(*candidates):
    return lambda graphs, **options: fit(graphs, candidates=candidates, **options)


def test_results_report_pictures_and_next_commands(sagpool, monkeypatch, tmp_path):
    told = sagpool("demo")
    assert told.code == 0
    rows = [line.split()[:3] for line in told.out.splitlines() if line.startswith("MUTAG")]
    assert [row[1] for row in rows] == [
        *("set2set-g", "sortpool-g", "sagpool-g", "diffpool-h", "gpool-h", "sagpool-h")
    ]
    assert all(row[2] == "2" for row in rows)
    assert "Open demo/report.html" in told.out
    assert "sagpool bench quick" in told.out
    assert (tmp_path / "demo" / "report.html").is_file()
    pictures = files_in(tmp_path / "demo" / "pictures")
    # Three graphs of each method that keeps nodes.
    assert len(pictures) == 4 * 3
    assert {name.rsplit("-", 1)[0] for name in pictures} == {
        *("gpool-h", "sagpool-g", "sagpool-h", "sortpool-g")
    }

    assert "Model: wl-linear." in told.out
    assert "Estimated accuracy on new graphs: " in told.out
    (line,) = [line for line in told.out.splitlines() if line.startswith("Molecule 1 of MUTAG")]
    assert "with a probability of " in line
    assert "prediction set at 90%: " in line
    assert "like the training data" in line
    assert "Reasons of wl-linear, " in told.out
    assert files_in(tmp_path / "demo" / "model") == [
        *("README.md", "config.json", "model.safetensors", "out-of-fold.csv", "report.html")
    ]
    assert len((tmp_path / "demo" / "model" / "out-of-fold.csv").read_text().splitlines()) == 188
    assert files_in(tmp_path / "demo" / "explained") == ["index.html", "reasons.csv"]

    # A second call finds the runs, replaces its files, and explains a net by the nodes it keeps.
    monkeypatch.setattr("sagpool.cli.demo.write_report", lambda store, output, force: None)
    monkeypatch.setattr("sagpool.cli.demo._draw", lambda store, summaries, folder: [])
    monkeypatch.setattr("sagpool.cli.demo.fit", with_candidates(NET))
    again = sagpool("demo", "--json")
    cells = json.loads(again.out)
    assert [cell["method"] for cell in cells] == [row[1] for row in rows]
    assert ": training" not in again.err, "no method is trained twice"
    assert files_in(tmp_path / "demo" / "explained") == ["index.html", "scores.csv"]
    assert files_in(tmp_path / "demo") == [".sagpool-manifest.jsonl", "report.html", "runs.sqlite"]


def files_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_an_output_that_is_a_file(sagpool, tmp_path):
    (tmp_path / "demo").write_text("a file")
    told = sagpool("demo")
    assert told.code == 2
    assert told.err == "sagpool: demo is a file, not a folder.\n"
