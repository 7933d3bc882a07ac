import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sagpool.bench.plan import settings_of
from sagpool.bench.records import CellRecord
from sagpool.bench.store import Store
from sagpool.bench.summary import summarise
from sagpool.fleet import NUMERICS, Curve, Result, Score, Training
from sagpool.graphs import motifs


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two methods, four runs each."""
    path = tmp_path / "runs.sqlite"
    graphs = motifs(8)
    losses = np.array([0.7, 0.6, 0.65])
    with Store.writing(path) as store:
        invocation = store.begin("sagpool bench demo", "demo", "CPU", {"sagpool": "1"})
        store.add_data(graphs, "f")
        for method, base in (("sagpool-h", 0.7), ("gpool-h", 0.6)):
            template = Training(method, folds=2)
            store.add_cell(
                CellRecord(
                    graphs.name, graphs.name, "f", method, settings_of(template), "float32",
                    NUMERICS, 2, invocation, "none", (), 1000, 70.0, 1.0, "",
                )
            )  # fmt: skip
            for run in range(4):
                training = Training(method, seed=run // 2, fold=run % 2, folds=2)
                score = Score(0.5, base + run / 100)
                result = Result(
                    training, False, 2, 3, score, score, score, np.eye(2, dtype=int),
                    Curve(losses, losses, losses), 10, 0.5,
                )  # fmt: skip
                store.add(f"{method} {run}", graphs.name, "f", result, "float32", invocation)
    return path


def test_what_was_written_is_told(sagpool, store, tmp_path):
    outcome = sagpool("report", store, "-o", tmp_path / "out")
    assert (outcome.code, outcome.err) == (0, "")
    first, last = outcome.out.splitlines()
    assert first == (
        f"2 cells from 8 trainings: 4 figures, 6 tables and a page in {tmp_path / 'out'}."
    )
    assert last == f"Open {tmp_path / 'out' / 'report.html'} in a browser."
    assert (tmp_path / "out" / "report.html").is_file()


def test_the_folder_is_named_report_by_default(sagpool, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sagpool("report", store.name).code == 0
    assert (tmp_path / "report" / "report.html").is_file()


CLAIMS = """
title: Ours
datasets: {%(name)s: {source: motifs}}
tables: {all: {datasets: [%(name)s], methods: [sagpool-h, gpool-h]}}
protocol: {seeds: 2, folds: 2}
claims:
  - {id: one, claim: Attention is better., where: here, test: {better: [sagpool-h, gpool-h]}}
"""


def test_the_claims_of_an_experiment_of_ones_own(sagpool, store, tmp_path):
    file = tmp_path / "ours.yaml"
    file.write_text(CLAIMS % {"name": motifs(8).name})
    done = sagpool("report", store, "-o", tmp_path / "report", "--experiment", file)
    assert done.code == 0, done.err
    assert "Attention is better." in (tmp_path / "report" / "report.html").read_text()
    done = sagpool("report", store, "-o", tmp_path / "report", "--experiment", "nowhere")
    assert done.code == 2
    assert "nowhere" in done.err


def test_json_alone_writes_nothing(sagpool, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = json.loads(sagpool("report", store, "--json").out)
    with Store.reading(store) as opened:
        assert told == json.loads(
            json.dumps([s.to_json() for s in summarise(opened.cells(), opened.runs())])
        )
    assert [cell["method"] for cell in told] == ["sagpool-h", "gpool-h"]
    assert told[0]["mean"] == pytest.approx(71.5)
    # SQLite itself may leave files beside the store.
    assert [path for path in tmp_path.iterdir() if not path.name.startswith(store.name)] == []


def test_json_and_files(sagpool, store, tmp_path):
    outcome = sagpool("report", store, "--json", "-o", tmp_path / "out")
    assert len(json.loads(outcome.out)) == 2
    assert (tmp_path / "out" / "report.html").is_file()


def test_errors_are_one_sentence(sagpool, store, tmp_path):
    outcome = sagpool("report", tmp_path / "none.sqlite")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"sagpool: There is no run store at {tmp_path / 'none.sqlite'}.\n"
    outcome = sagpool("report", store, "-o", store)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"sagpool: {store} is a file, not a folder.\n"


def test_other_commands_do_not_wait_for_matplotlib():
    code = "import sys, sagpool.cli.commands; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
