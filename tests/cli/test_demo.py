"""``sagpool demo``, with trainings of two epochs."""

import json
from dataclasses import replace

import pytest

import sagpool.cli.demo
from sagpool.bench.experiment_file import load_experiment


@pytest.fixture(autouse=True)
def short(monkeypatch, tmp_path):
    demo = load_experiment("demo")
    protocol = {**demo.protocol, "max_epochs": 2, "folds": 2}
    monkeypatch.setattr(
        sagpool.cli.demo, "load_experiment", lambda name: replace(demo, protocol=protocol)
    )
    monkeypatch.chdir(tmp_path)


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
    pictures = sorted(file.name for file in (tmp_path / "demo" / "pictures").iterdir())
    # Three graphs of each method that keeps nodes.
    assert len(pictures) == 4 * 3
    assert {name.rsplit("-", 1)[0] for name in pictures} == {
        *("gpool-h", "sagpool-g", "sagpool-h", "sortpool-g")
    }

    monkeypatch.setattr("sagpool.cli.demo.write_report", lambda store, output, force: None)
    monkeypatch.setattr("sagpool.cli.demo._draw", lambda store, summaries, folder: [])
    again = sagpool("demo", "--json")
    cells = json.loads(again.out)
    assert [cell["method"] for cell in cells] == [row[1] for row in rows]
    assert ": training" not in again.err, "nothing is trained twice"


def test_an_output_that_is_a_file(sagpool, tmp_path):
    (tmp_path / "demo").write_text("a file")
    told = sagpool("demo")
    assert told.code == 2
    assert told.err == "sagpool: demo is a file, not a folder.\n"
