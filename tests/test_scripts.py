"""What a published result is made of, and that anybody can check it."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
BENCH = "bench quick --dataset MUTAG --method sagpool-h,diffpool-h --seeds 1 --folds 2"


def run(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    store = folder / "runs.sqlite"
    main = "from sagpool.cli.main import main; main()"
    options = ["--set", "max_epochs=2", "--store", store]
    made = run(sys.executable, "-c", main, *BENCH.split(), *options)
    assert made.returncode == 0, made.stderr
    done = run(sys.executable, SCRIPTS / "publish_results.py", store, folder / "results")
    assert done.returncode == 0, done.stderr
    return folder / "results"


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_what_is_published(published):
    rows = rows_of(published / "rows.csv")
    assert {(row["method"], row["fold"]) for row in rows} == {
        (method, fold) for method in ("sagpool-h", "diffpool-h") for fold in "01"
    }
    table = (published / "comparison.md").read_text("utf-8")
    assert table.count("| MUTAG |") == 2
    assert (published / "figures" / "accuracy-MUTAG.png").exists()
    assert (published / "tables" / "cells.csv").exists()


def test_published_rows_can_be_checked(published, tmp_path):
    checked = run(sys.executable, SCRIPTS / "check_rows.py", published, "--each", 2)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("seed 0 fold") == 4

    shutil.copy(published / "settings.json", tmp_path)
    changed = rows_of(published / "rows.csv")
    changed[0]["first_train_loss"] = str(float(changed[0]["first_train_loss"]) + 0.01)
    with (tmp_path / "rows.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, changed[0])
        writer.writeheader()
        writer.writerows(changed)
    checked = run(sys.executable, SCRIPTS / "check_rows.py", tmp_path, "--each", 2)
    assert checked.returncode == 1
    assert "largest difference: 1.0e-02" in checked.stdout
