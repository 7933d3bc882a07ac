"""``sagpool bench --dry-run`` tells how long an experiment takes."""

import json

import pytest

OPTIONS = ("bench", "--dry-run", "--dataset", "MUTAG", "--method", "sagpool-h,gpool-h")


def test_times_of_cells_and_in_all(sagpool):
    ended = sagpool(*OPTIONS, "--search", "race")
    first, second, total, *_ = ended.out.splitlines()[1:]
    for line in (first, second):
        assert "200 trainings, after choosing from 192 candidates in at most 620 more" in line
        assert "; about " in line
    assert total.startswith("In all about ")
    assert total.endswith(" on one device (NVIDIA H200), by packaged figures.")


def test_a_device_without_figures_is_named(sagpool):
    ended = sagpool(*OPTIONS, "--device", "cpu", "--seeds", 1, "--set", "max_epochs=1")
    *cells, total, speed = ended.out.splitlines()[1:]
    assert all(line.endswith("; less than 1 s") for line in cells)
    assert total.startswith("In all less than 1 s on one device (NVIDIA H200)")
    assert speed.startswith("The speed of this device (")
    assert "NVIDIA" not in speed


def test_times_as_json(sagpool):
    rows = json.loads(sagpool(*OPTIONS, "--search", "race", "--json").out)
    assert [row["device"] for row in rows] == ["NVIDIA H200"] * 2
    assert all(0 < row["search_seconds"] < row["seconds"] for row in rows)
    fewer = json.loads(sagpool(*OPTIONS, "--seeds", 10, "--json").out)
    more = json.loads(sagpool(*OPTIONS, "--seeds", 20, "--json").out)
    assert [row["search_seconds"] for row in more] == [0, 0]
    assert more[0]["seconds"] == pytest.approx(2 * fewer[0]["seconds"])


def test_a_search_that_is_stored(sagpool, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    short = ("--folds", 2, "--set", "max_epochs=2", "--set", "hidden=4", "--set", "ratio=0.5")
    few = (*short, "--set", "weight_decay=0", "--set", "lr=0.01,0.1", "--device", "cpu")
    options = ("bench", "--dataset", "MUTAG", "--method", "gpool-h", "--search", "grid", *few)
    assert sagpool(*options, "--seeds", 1).code == 0
    _, cell, *_ = sagpool(*options, "--seeds", 3, "--dry-run").out.splitlines()
    assert cell.startswith(
        "MUTAG gpool-h: 6 trainings, 2 of them stored, after choosing from 2 candidates in 4 more, "
        "4 of them stored; chosen: lr 0."
    )
    assert cell.endswith("; less than 1 s")
    (row,) = json.loads(sagpool(*options, "--seeds", 3, "--dry-run", "--json").out)
    assert (row["stored"], row["search_stored"], row["chosen"]) == (2, 4, True)
    assert row["search_seconds"] == 0 < row["seconds"]
