"""The run store: records are read back as written, and errors of the file are explained."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sagpool.bench.database
import sagpool.bench.tables
from sagpool.bench.records import CellRecord, Ranked
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError
from sagpool.explain import explain
from sagpool.fleet.schedule import shape_of
from sagpool.models import build


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "runs.sqlite"


def fill(store, mutag, trainings, result, **options):
    invocation = store.begin("sagpool bench", "small", "a CPU", {"torch": "2"})
    store.add_data(mutag, "print")
    for number, training in enumerate(trainings):
        store.add(f"key {number}", "MUTAG", "print", result(training, **options), "float32", 1)
    return invocation


def cell(invocation, **changes):
    values = {
        "dataset": "MUTAG",
        "name": "MUTAG",
        "fingerprint": "print",
        "method": "sagpool-h",
        "settings": {"lr": 0.1, "hidden": 4},
        "precision": "float32",
        "numerics": 1,
        "seeds": 2,
        "invocation": invocation,
        "search": "grid",
        "ranking": (Ranked({"lr": 0.1}, 0.7, 0.5, 10), Ranked({"lr": 0.2}, 0.6, 0.5, 10)),
        "bytes": 1000,
        "paper_mean": 71.86,
        "paper_std": 0.97,
        "note": "",
    }
    return CellRecord(**values | changes)


def test_records_are_read_back_as_written(path, mutag, trainings, result):
    with Store.writing(path) as store:
        invocation = fill(store, mutag, trainings, result, accuracy=0.8, epochs=5)
        records = [
            cell(invocation),
            cell(invocation, method="gpool-h", paper_mean=None, paper_std=None),
        ]
        for record in records:
            store.add_cell(record)
    with Store.reading(path) as store:
        runs = store.runs()
        assert store.cells() == records
        assert store.keys() == {f"key {n}" for n in range(4)}
        assert store.data()["print"] == mutag.statistics()
        (recorded,) = store.invocations()
    assert (recorded.command, recorded.experiment, recorded.device) == (
        "sagpool bench",
        "small",
        "a CPU",
    )
    assert recorded.versions == {"torch": "2"}
    assert [(run.seed, run.fold) for run in runs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    expected = result(trainings[2], accuracy=0.8, epochs=5)
    run = runs[2]
    assert (run.name, run.method, run.precision) == ("MUTAG", "sagpool-h", "float32")
    assert run.settings["lr"] == 0.01
    assert run.settings["folds"] == 2
    row = expected.row()
    for name in ("diverged", "best_epoch", "epochs", "test_loss", "test_accuracy", "confusion",
                 "train_loss", "validation_accuracy", "parameters", "seconds"):  # fmt: skip
        assert getattr(run, name) == row[name], name
    np.testing.assert_allclose(run.curve[1], expected.curve.validation_loss, rtol=1e-6)
    assert run.curve.shape == (3, 5)


def test_what_is_known_of_some_trainings(path, mutag, trainings, result, monkeypatch):
    monkeypatch.setattr(sagpool.bench.tables, "AT_ONCE", 2)
    with Store.writing(path) as store:
        fill(store, mutag, trainings, result)
        wanted = ["key 3", "none", "key 0", "key 1"]
        assert store.reached(wanted) == dict.fromkeys(["key 0", "key 1", "key 3"], float("inf"))
        assert store.reached([]) == {}
        assert store.reached().keys() == store.keys()
        for one in store.trained():
            assert (one.invocation, one.fingerprint) == (1, "print")
            assert one.finished == max(run.finished for run in store.runs())


def test_a_training_without_a_result(path, mutag, trainings, result):
    with Store.writing(path) as store:
        fill(store, mutag, trainings[:1], result, accuracy=float("nan"))
        (run,) = store.runs()
        (validation,) = store.validation(["key 0"])
        assert store.test_accuracy(["key 0"]) == []
    assert np.isnan([run.test_accuracy, validation.accuracy]).all()
    assert run.test_loss == 0.5


def test_a_row_is_stored_once_and_the_first_stays(path, mutag, trainings, result):
    with Store.writing(path) as store:
        fill(store, mutag, trainings, result, accuracy=0.8)
        fill(store, mutag, trainings, result, accuracy=0.1)
        assert store.test_accuracy(f"key {n}" for n in range(5)) == [0.8] * 4
        assert len(store.runs()) == 4


def test_a_cell_that_is_run_again_becomes_the_last(path, mutag, trainings, result):
    with Store.writing(path) as store:
        fill(store, mutag, trainings, result)
        store.add_cell(cell(1))
        store.add_cell(cell(1, method="gpool-h"))
        store.add_cell(cell(1, bytes=7))
        assert [(c.method, c.bytes) for c in store.cells()] == [("gpool-h", 1000), ("sagpool-h", 7)]


def test_traces_are_stored_with_their_run(path, mutag, trainings, result):
    model = build("sagpool-h", shape_of(mutag, trainings[0]))
    trace = explain(model, mutag, 3)
    with Store.writing(path) as store:
        fill(store, mutag, [], result)
        store.add("key", "MUTAG", "print", result(trainings[0]), "float32", 1, [trace])
        store.add("other", "MUTAG", "print", result(trainings[1]), "float32", 1)
        (found,) = store.traces("key")
        assert store.traces("other") == store.traces("none") == []
    assert found.to_json() == trace.to_json()


def test_a_store_can_be_read_while_it_is_written(path, mutag, trainings, result):
    with Store.writing(path) as store:
        fill(store, mutag, trainings, result)
        with Store.reading(path) as reader:
            assert len(reader.keys()) == 4
            store.add("one more", "MUTAG", "print", result(trainings[0]), "float32", 1)
            assert len(reader.keys()) == 4, "a consistent snapshot"
        with Store.reading(path) as reader:
            assert len(reader.keys()) == 5
    with Store.reading(path) as reader:
        assert len(reader.keys()) == 5
    assert [file.name for file in path.parent.iterdir()] == ["runs.sqlite"]


def test_a_reader_may_outlast_the_writer(path, mutag, trainings, result):
    with Store.writing(path) as store:
        fill(store, mutag, trainings, result)
        reading = Store.reading(path)
        reader = reading.__enter__()
        assert len(reader.keys()) == 4
    assert len(reader.keys()) == 4
    reading.__exit__(None, None, None)
    with Store.writing(path) as store:
        assert len(store.keys()) == 4


def test_a_second_writer_is_refused(path):
    sentence = (
        rf"is being written by another process \(number {os.getpid()}\); wait for it, or name"
    )
    with Store.writing(path), pytest.raises(SagpoolError, match=sentence), Store.writing(path):
        pass
    with Store.writing(path):
        pass


PROGRAM = """
import os, sys
from pathlib import Path
from sagpool.bench.store import Store
with Store.writing(Path(sys.argv[1])) as store:
    store.begin("a command", "small", "a CPU", {})
    os.kill(os.getpid(), 9)
"""


def test_a_killed_writer_releases_the_lock(path):
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], check=False)
    assert ended.returncode == -9
    with Store.writing(path) as store:
        assert [recorded.command for recorded in store.invocations()] == ["a command"]
    assert [file.name for file in path.parent.iterdir()] == ["runs.sqlite"]


def test_a_full_disk(path, mutag, trainings, result):
    with Store.writing(path) as store:
        fill(store, mutag, trainings[:2], result)
    with Store.writing(path) as store:
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages}")
        many = trainings * 30
        with pytest.raises(SagpoolError, match=r"^The disk of .* is full; the rows"):
            fill(store, mutag, many, result)
    with Store.reading(path) as store:
        assert {"key 0", "key 1"} <= store.keys()
        assert len(store.keys()) < 120


def test_a_read_only_store(path, mutag, trainings, result):
    with Store.writing(path) as store:
        store.connection.execute("PRAGMA query_only = 1")  # the same error as a file's mode gives
        with pytest.raises(
            SagpoolError, match=r"runs\.sqlite cannot be written: it is read-only\.$"
        ):
            fill(store, mutag, trainings, result)


class Refuses:
    """Behaves like SQLite in a read-only folder."""

    def execute(self, sql):
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorname = "SQLITE_CANTOPEN"
        raise error

    def close(self):
        pass


def test_a_store_in_a_read_only_folder_can_be_read(path, mutag, trainings, result, monkeypatch):
    """SQLite cannot create its lock files there, but nobody writes there either."""
    with Store.writing(path) as store:
        fill(store, mutag, trainings, result)
    connect = sqlite3.connect
    monkeypatch.setattr(
        sagpool.bench.database.sqlite3,
        "connect",
        lambda name, **options: Refuses() if "mode=ro" in name else connect(name, **options),
    )
    with Store.reading(path) as store:
        assert len(store.keys()) == 4


def test_rows_that_cannot_be_read_in_a_read_only_folder(path, monkeypatch):
    with Store.writing(path):
        pass
    path.with_name("runs.sqlite-wal").write_bytes(b"rows of a process that was killed")
    monkeypatch.setattr(
        sagpool.bench.database.sqlite3, "connect", lambda name, **options: Refuses()
    )
    sentence = r"^Some rows of .*runs\.sqlite are in runs\.sqlite-wal, which cannot be read in a re"
    with pytest.raises(SagpoolError, match=sentence), Store.reading(path):
        pass


def test_a_symlink_is_the_same_store(path, tmp_path):
    with Store.writing(path):
        pass
    (tmp_path / "link.sqlite").symlink_to(path)
    with (
        Store.writing(path),
        pytest.raises(SagpoolError, match="is being written by another process"),
        Store.writing(tmp_path / "link.sqlite"),
    ):
        pass


@pytest.mark.parametrize("what", ["curve", "settings", "confusion", "table"])
def test_an_unreadable_row_is_one_sentence(path, mutag, trainings, result, what):
    with Store.writing(path) as store:
        fill(store, mutag, trainings, result)
        if what == "table":
            store.connection.execute("DROP TABLE runs")
        else:
            store.connection.execute(f"UPDATE runs SET {what} = x'001122'")
    sentence = r"runs\.sqlite (has a row|is not a valid run store)"
    with pytest.raises(SagpoolError, match=sentence), Store.reading(path) as store:
        store.runs()


@pytest.mark.parametrize("how", ["writing", "reading"])
@pytest.mark.parametrize(
    "content", [b"text, not a database " * 300, b"SQLite format 3\0" + b"x" * 99]
)
def test_another_file_is_refused_and_left_alone(path, how, content):
    path.write_bytes(content)
    with (
        pytest.raises(SagpoolError, match=r"runs\.sqlite is (not a sagpool run store|damaged)"),
        getattr(Store, how)(path),
    ):
        pass
    assert path.read_bytes() == content


@pytest.mark.parametrize("how", ["writing", "reading"])
def test_another_database_is_refused(path, how):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (key TEXT)")
    connection.close()
    with (
        pytest.raises(SagpoolError, match=r"runs\.sqlite is not a sagpool run store\.$"),
        getattr(Store, how)(path),
    ):
        pass


@pytest.mark.parametrize("how", ["writing", "reading"])
def test_a_store_of_another_version_is_refused(path, how):
    with Store.writing(path) as store:
        store.connection.execute("PRAGMA user_version = 7")
    with (
        pytest.raises(
            SagpoolError, match=r"needs a newer version of sagpool \(its format is 7; this vers"
        ),
        getattr(Store, how)(path),
    ):
        pass


def change(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture
def filled(path, mutag, trainings, result):
    model = build("sagpool-h", shape_of(mutag, trainings[0]))
    with Store.writing(path) as store:
        fill(store, mutag, trainings[1:], result)
        traces = [explain(model, mutag, 3)]
        store.add("traced", "MUTAG", "print", result(trainings[0]), "float32", 1, traces)
        store.add_cell(cell(1))
    return path


TABLES = ("runs", "cells", "data", "invocations", "failures", "paused", "profiles")


def read_everything(store):
    store.cells(), store.failures(), store.invocations(), store.profiles(), store.data()
    keys = [run.key for run in store.runs()]
    store.validation(keys, 1), store.validation(keys), store.tested(keys), store.epochs(keys)
    return [store.traces(key) for key in keys] + [store.test_accuracy(keys), store.reached()]


def test_a_newer_store_with_more_columns_and_tables_is_read_and_written(filled, trainings, result):
    added = [f"ALTER TABLE {table} ADD COLUMN later TEXT DEFAULT 'x'" for table in TABLES]
    change(filled, *added, "CREATE TABLE later (a)")
    with Store.reading(filled) as store:
        assert len(store.runs()) == 4
        read_everything(store)
    with Store.writing(filled) as store:
        invocation = store.begin("again", "small", "a CPU", {})
        store.add("new", "MUTAG", "print", result(trainings[0]), "float32", invocation)
        store.add_cell(cell(invocation, method="gpool-h"))
        assert len(store.runs()) == 5
        read_everything(store)


@pytest.mark.parametrize(
    ("change_of_a_cell", "sentence"),
    [
        ("runs SET test_accuracy = 0.99", "the run 'traced' was changed after it was written"),
        ("runs SET curve = x'00'", "the run 'traced' was changed after it was written"),
        ("runs SET seed = 'one', checksum = NULL", "seed must be a whole number, not 'one'"),
        ("runs SET test_loss = x'00', checksum = NULL", "test_loss must be a number"),
        ("runs SET confusion = '[[1, true]]', checksum = NULL", "must be a whole number, not True"),
        ("runs SET settings = '[]', checksum = NULL", "settings must be a mapping, not"),
        ("runs SET curve = 'text', checksum = NULL", "a bytes-like object is required"),
        ("runs SET checksum = 'x'", "was changed after it was written"),
        ("cells SET seeds = 'x'", "seeds must be a whole number, not 'x'"),
        ("cells SET ranking = '[1]'", "an entry of ranking must be a mapping, not 1"),
        ("cells SET ranking = '[[[['", "it is not valid JSON"),
        ("cells SET cost = '{\"epochs\": 1}'", "cost has no grid, only epochs"),
        ("invocations SET versions = '{\"a\": 1}'", "versions must be a text, not 1"),
        ("data SET statistics = 'null'", "statistics must be a mapping, not None"),
    ],
)
def test_other_types_of_cells_are_sentences(filled, change_of_a_cell, sentence):
    change(filled, f"UPDATE {change_of_a_cell}")
    with (
        pytest.raises(SagpoolError) as raised,
        Store.reading(filled) as store,
    ):
        read_everything(store)
    assert str(raised.value).startswith(f"{filled} has a row that cannot be read: ")
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("levels", [{"kept": [99], "score": None}]),
        ("levels", [{"kept": [0, 1], "score": [0.5]}]),
        ("levels", [{"kept": [1, 0], "score": None}]),
        ("edges", [[0, 99]]),
        ("edges", [[0]]),
        ("probabilities", [0.5]),
        ("probabilities", ["a", "b"]),
        ("true_class", 2),
        ("node_labels", []),
        ("num_nodes", 10**12),
    ],
)
def test_traces_that_name_what_is_not_there_are_refused(filled, field, value):
    connection = sqlite3.connect(filled)
    sql = "SELECT traces FROM runs WHERE key = 'traced'"
    (trace,) = json.loads(connection.execute(sql).fetchone()[0])
    text = json.dumps([trace | {field: value}])
    connection.execute("UPDATE runs SET traces = ? WHERE key = 'traced'", (text,))
    connection.commit()
    connection.close()
    with (
        pytest.raises(SagpoolError, match="has a row that cannot be read"),
        Store.reading(filled) as store,
    ):
        store.traces("traced")


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE runs RENAME TO old", "CREATE VIEW runs AS SELECT * FROM old"],
        ["CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END"],
        ["ALTER TABLE runs ADD COLUMN big GENERATED ALWAYS AS (zeroblob(900000000))"],
    ],
    ids=["view", "trigger", "computed column"],
)
@pytest.mark.parametrize("how", ["writing", "reading"])
def test_a_store_that_computes_is_refused(filled, how, statements):
    change(filled, *statements)
    with pytest.raises(SagpoolError, match="is refused: it has the"), getattr(Store, how)(filled):
        pass


def test_a_cell_of_any_size_is_not_read(filled, monkeypatch):
    monkeypatch.setenv("SAGPOOL_MAX_CELL", "100000")
    change(filled, "UPDATE runs SET curve = zeroblob(120000), checksum = NULL")
    with (
        pytest.raises(SagpoolError, match=r"has a cell of more than .*SAGPOOL_MAX_CELL raises"),
        Store.reading(filled) as store,
    ):
        store.runs()


@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "other file", "folder", "fifo"])
def test_a_lock_file_that_is_something_else_is_left_alone(path, tmp_path, kind):
    precious, lock = tmp_path / "precious.txt", path.with_name("runs.sqlite-lock")
    precious.write_text("a thesis, not a lock")
    match kind:
        case "symbolic link":
            lock.symlink_to(precious)
        case "hard link":
            lock.hardlink_to(precious)
        case "other file":
            lock.write_text("my notes")
        case "folder":
            lock.mkdir()
        case "fifo":
            os.mkfifo(lock)
    with pytest.raises(SagpoolError), Store.writing(path):
        pass
    assert precious.read_text() == "a thesis, not a lock"
    assert kind != "other file" or lock.read_text() == "my notes"
    assert lock.exists()


def test_the_lock_of_a_killed_process_is_taken_over(path):
    path.with_name("runs.sqlite-lock").write_text("12345")
    with Store.writing(path):
        pass


def test_a_damaged_store_is_refused_and_left_alone(path, mutag, trainings, result):
    with Store.writing(path) as store:
        for _ in range(30):
            fill(store, mutag, [], result)
        for number in range(200):
            store.add(f"key {number}", "MUTAG", "print", result(trainings[0]), "float32", 1)
    content = bytearray(path.read_bytes())
    content[8192 : len(content) - 4096] = bytes(len(content) - 4096 - 8192)
    path.write_bytes(content)
    with (
        pytest.raises(SagpoolError, match=r"runs\.sqlite is damaged; restore a copy"),
        Store.writing(path),
    ):
        pass
    assert path.read_bytes() == content
    with (
        pytest.raises(SagpoolError, match=r"runs\.sqlite is damaged"),
        Store.reading(path) as store,
    ):
        store.runs()


def test_a_missing_store(path):
    with (
        pytest.raises(SagpoolError, match=r"^There is no run store at .*runs\.sqlite\.$"),
        Store.reading(path),
    ):
        pass
    assert not path.exists()
    with Store.writing(path.parent / "new" / "folder" / "runs.sqlite") as store:
        assert store.keys() == set()


def test_a_path_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SagpoolError, match=r"cannot be written: (Not a directory|File exists)"),
        Store.writing(tmp_path / "file" / "runs.sqlite"),
    ):
        pass
