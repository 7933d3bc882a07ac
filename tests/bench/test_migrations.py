"""Stores of older and newer versions of sagpool."""

import json
import sqlite3

import pytest

from sagpool.bench import migrations
from sagpool.bench.database import APPLICATION
from sagpool.bench.migrations import FORMAT, MIGRATIONS
from sagpool.bench.records import Ranked
from sagpool.bench.run_table import read_runs
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError

RUN = {
    "key": "old", "name": "MUTAG", "fingerprint": "print", "method": "sagpool-h",
    "settings": "{}", "seed": 0, "fold": 0, "precision": "float32", "numerics": 1,
    "invocation": 1, "finished": "2026-01-01T00:00:00+00:00", "diverged": 0, "best_epoch": 1,
    "epochs": 1, "confusion": "[[1]]", "parameters": 1, "seconds": 1.0, "curve": bytes(12),
}  # fmt: skip
CELL = {
    "dataset": "MUTAG", "name": "MUTAG", "fingerprint": "print", "method": "sagpool-h",
    "settings": "{}", "precision": "float32", "numerics": 1, "seeds": 1, "invocation": 1,
    "search": "none", "ranking": "[]", "bytes": 0, "note": "",
}  # fmt: skip


def insert(connection, table, row):
    marks = ", ".join("?" * len(row))
    sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
    connection.execute(sql, list(row.values()))


def schema(path):
    """The columns of every table."""
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    columns = {
        name: sorted(row[1:] for row in connection.execute(f"PRAGMA table_info({name})"))
        for (name,) in tables
    }
    connection.close()
    return {name: [column[:3] for column in some] for name, some in columns.items()}


@pytest.fixture
def older(tmp_path):
    """Makes a store as it was after so many changes, before they were numbered."""

    def make(count):
        path = tmp_path / "older.sqlite"
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        for change in MIGRATIONS[:count]:
            change(connection)
        insert(connection, "runs", RUN)
        insert(connection, "cells", CELL)
        connection.commit()
        connection.close()
        return path

    return make


def read_everything(store):
    (run,), (cell,) = store.runs(), store.cells()
    assert (run.key, cell.method) == ("old", "sagpool-h")
    assert [one.key for one in read_runs(store)] == ["old"]
    assert (store.failures(), store.profiles()) == ([], {})
    assert store.reached() == {"old": float("inf")}


@pytest.mark.parametrize("count", range(1, len(MIGRATIONS) + 1))
def test_an_older_store_is_read_as_it_is_and_migrated_when_written(count, older, tmp_path):
    path = older(count)
    before = path.read_bytes()
    with Store.reading(path) as store:
        read_everything(store)
    assert path.read_bytes() == before
    with Store.writing(path) as store:
        read_everything(store)
    with Store.writing(tmp_path / "new.sqlite"):
        pass
    assert schema(path) == schema(tmp_path / "new.sqlite")
    after = path.read_bytes()
    with Store.writing(path) as store:
        read_everything(store)
    assert schema(path) == schema(tmp_path / "new.sqlite")
    assert len(path.read_bytes()) == len(after)


@pytest.mark.parametrize("search", ["none", "grid"])
def test_a_cell_of_a_search_and_of_a_command_without_one_becomes_two(search, older):
    """Older versions stored them in one row."""
    path = older(8)
    connection = sqlite3.connect(path)
    ranking = json.dumps([Ranked({"lr": 0.1}, 0.7, 0.5, 10)._asdict()])
    connection.execute("UPDATE cells SET fixed = 1, search = 'grid', ranking = ?", (ranking,))
    insert(connection, "cells", CELL | {"method": "gpool-h"})
    connection.commit()
    connection.close()

    def found(store):
        return [(one.method, one.search, len(one.ranking)) for one in store.cells()]

    expected = [("sagpool-h", "grid", 1), ("sagpool-h", "none", 0), ("gpool-h", "none", 0)]
    with Store.reading(path) as store:
        assert found(store) == expected
    with Store.writing(path) as store:
        assert found(store) == expected
        again = next(one for one in store.cells() if one.search == search)
        store.add_cell(again)
        assert sorted(found(store)) == sorted(expected)
        assert store.cells()[-1] == again


@pytest.mark.parametrize("count", range(1, len(MIGRATIONS) + 1))
def test_a_change_that_fails_leaves_the_store_as_it_was(count, older, monkeypatch):
    path = older(count)
    before = schema(path)

    def fail(connection):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, fail))
    with pytest.raises(SagpoolError, match="disk I/O error"), Store.writing(path):
        pass
    assert schema(path) == before


def newer(path, *statements):
    with Store.writing(path):
        pass
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_newer_store_with_changes_that_do_not_matter_is_used(tmp_path):
    path = tmp_path / "newer.sqlite"
    newer(path, "INSERT INTO migrations VALUES (99, '9.1')", "ALTER TABLE runs ADD later TEXT")
    with Store.writing(path) as store:
        insert(store.connection, "runs", RUN)
        insert(store.connection, "cells", CELL)
    with Store.reading(path) as store:
        read_everything(store)


@pytest.mark.parametrize("how", ["writing", "reading"])
def test_a_newer_store_that_cannot_be_read_says_what_it_needs(how, tmp_path):
    path = tmp_path / "newer.sqlite"
    newer(path, "INSERT INTO migrations VALUES (99, '9.1')", "PRAGMA user_version = 2")
    sentence = rf"needs sagpool 9\.1 or newer \(its format is 2; this version reads {FORMAT}\)\.$"
    with pytest.raises(SagpoolError, match=sentence), getattr(Store, how)(path):
        pass
