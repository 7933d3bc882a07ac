"""What a published result is made of, and that anybody can check it."""

import csv
import math
import runpy
import shutil
from pathlib import Path

import pytest

from sagpool.bench import run_experiment

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(scope="module")
def published(run_script, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    run_experiment(
        "quick",
        datasets="MUTAG",
        methods=("sagpool-h", "diffpool-h"),
        seeds=1,
        folds=2,
        settings={"max_epochs": 2},
        store=folder / "runs.sqlite",
        device="cpu",
    )
    done = run_script("publish_results.py", folder / "runs.sqlite", folder / "results")
    assert done.code == 0, done.err
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


@pytest.fixture
def check(run_script):
    return lambda folder: run_script("check_rows.py", folder, "--each", 2)


@pytest.fixture
def changed(published, tmp_path):
    """The published rows with other values in a column."""

    def make(column: str, value: str) -> Path:
        shutil.copy(published / "settings.json", tmp_path)
        rows = [{**row, column: value} for row in rows_of(published / "rows.csv")]
        with (tmp_path / "rows.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return tmp_path

    return make


def test_published_rows_can_be_checked(published, check):
    checked = check(published)
    assert checked.code == 0, checked.out + checked.err
    assert checked.out.count("seed 0 fold") == 4


def test_rows_of_other_trainings_are_told_from_these(changed, check):
    checked = check(changed("seed", "1"))
    assert checked.code == 1, checked.out
    checked = check(changed("first_validation_loss", "nan"))
    assert checked.code == 1, checked.out


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("numerics", "0", "another version"),
        ("data", "0123456789ab", "The local data set is different"),
        ("name", "nowhere", "nowhere"),
        ("precision", "tf32", "tf32"),
    ],
)
def test_what_cannot_be_checked_is_no_success(column, value, reason, changed, check):
    checked = check(changed(column, value))
    assert checked.code == 1
    lines = checked.out.splitlines()
    assert len(lines) == 4
    assert all("not checked" in line and reason in line.split(":", 1)[1] for line in lines)
    assert "No training could be checked" in checked.err


def test_few_may_differ_a_little():
    names = runpy.run_path(str(SCRIPTS / "check_rows.py"))
    agree, distance = names["agree"], names["distance"]
    assert agree([1e-7, 1e-7, 1e-7, 1e-4])
    assert not agree([1e-7, 1e-7, 1e-4, 1e-4])
    assert not agree([1e-7, 1e-7, 1e-7, 1e-2])
    assert not agree([])
    assert distance(math.nan, math.nan) == 0
    assert distance(1.0, math.nan) == math.inf
