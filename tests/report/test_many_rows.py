"""Stores with many rows: columns in place of objects, and a bounded page."""

import json
import math
import sqlite3

import numpy as np
import pytest

from sagpool import SagpoolError
from sagpool.bench.database import RUN_COLUMNS
from sagpool.bench.run_table import CHUNK, column, read_curves, read_runs
from sagpool.bench.store import Store
from sagpool.bench.summary import compare_methods, summarise
from sagpool.bench.variants import group_cells
from sagpool.report import canvas, write_report
from sagpool.report.content import MOST_CURVES, read_content


def assert_same(found, expected):
    for name, value in vars(expected).items():
        if name not in ("curve", "confusion"):
            same = getattr(found, name)
            assert same == value or (math.isnan(same) and math.isnan(value)), name
            assert type(same) is type(value), name


@pytest.mark.parametrize("chunk", [1, 7, CHUNK])
def test_a_table_has_the_same_runs_as_a_list(rich_store, monkeypatch, chunk):
    monkeypatch.setattr("sagpool.bench.run_table.CHUNK", chunk)
    with Store.reading(rich_store) as store:
        table, runs = read_runs(store), store.runs()
        curves = read_curves(store, table)
    assert len(table) == len(runs) > 70
    for found, run, curve in zip(table, runs, curves, strict=True):
        assert_same(found, run)
        np.testing.assert_array_equal(curve, run.curve)
    np.testing.assert_array_equal(column(table, "epochs"), column(runs, "epochs"))
    assert [run.key for run in table[3:5]] == [run.key for run in runs[3:5]]
    assert {run.key for run in table.with_keys([runs[4].key, "none"])} == {runs[4].key}
    assert table.last_finished == max(run.finished for run in runs)
    for group, some in table.by_group:
        assert {(run.method, json.dumps(run.settings)) for run in some} == {
            (group.method, json.dumps(group.settings))
        }
    assert sum(len(some) for _, some in table.by_group) == len(runs)


def test_a_table_gives_the_same_results_as_a_list(rich_store):
    with Store.reading(rich_store) as store:
        cells = store.cells()
        first, second = (summarise(cells, runs) for runs in (read_runs(store), store.runs()))
    for one, other in zip(first, second, strict=True):
        assert one.to_json() == other.to_json()
        np.testing.assert_array_equal(one.accuracy, other.accuracy)
    one, other = (compare_methods(group_cells(some)[0].cells) for some in (first, second))
    assert one == other


def test_an_empty_store(tmp_path):
    with Store.writing(tmp_path / "runs.sqlite") as store:
        table = read_runs(store)
    assert (len(table), table.by_group, table.last_finished) == (0, [], None)


def test_of_many_trainings_some_are_drawn(make, made, tmp_path):
    store = make(made(seeds=150), made(method="gpool-h", seeds=1))
    content = read_content(store)
    many, few = (content.curves[s.runs[0].key] for s in reversed(content.shown))
    assert (len(many), len(few)) == (MOST_CURVES, 5)
    page = write_report(store, tmp_path / "report").read_text()
    assert page.count(f"At most {canvas.MOST_DOTS} trainings of each method are drawn.") == 2
    assert "trainings of each method: 5 to 750" in page
    svg = (tmp_path / "report/figures/accuracy-MADE.svg").read_text()
    assert max(path.count("M ") for path in svg.split("<path")) == canvas.MOST_DOTS


def change(path, column, value, checksum):
    with sqlite3.connect(path) as connection:
        sql = f"UPDATE runs SET {column} = ?, checksum = {checksum} WHERE fold = 0"
        connection.execute(sql, (value,))
    connection.close()


@pytest.mark.parametrize("name", RUN_COLUMNS[5:])
def test_a_row_that_was_changed_is_noticed(make, made, tmp_path, name):
    path = make(made())
    change(path, name, b"0000" if name == "curve" else "[[9]]", "checksum")
    with pytest.raises(SagpoolError, match=r"the run .* was changed after it was written"):
        write_report(path, tmp_path / "report")


@pytest.mark.parametrize(
    ("column", "value"),
    [("seed", "one"), ("test_accuracy", "high"), ("settings", "{"), ("curve", b"12345")],
)
def test_a_row_that_cannot_be_read(make, made, tmp_path, column, value):
    """Its checksum is right, or it has none."""
    path = make(made())
    change(path, column, value, "NULL")
    with pytest.raises(SagpoolError, match="has a row that cannot be read"):
        write_report(path, tmp_path / "report")
