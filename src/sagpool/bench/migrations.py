"""The tables of a run store, as numbered changes; older stores get the missing ones."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress

import sagpool
from sagpool.foreign.values import shorten

# Raise only with a change that older versions cannot read. New tables and columns do not count:
# older versions ignore them.
FORMAT = 1

Migration = Callable[[sqlite3.Connection], None]

# Common to the tables of runs, failures and paused trainings.
_TRAINING = """key TEXT PRIMARY KEY,
    name TEXT NOT NULL,                 -- of the graphs; random numbers depend on it
    fingerprint TEXT NOT NULL REFERENCES data,
    method TEXT NOT NULL,
    settings TEXT NOT NULL,             -- JSON
    seed INTEGER NOT NULL,
    fold INTEGER NOT NULL,
    precision TEXT NOT NULL,
    numerics INTEGER NOT NULL,
    invocation INTEGER NOT NULL REFERENCES invocations,
    finished TEXT NOT NULL"""


def _run(*statements: str) -> Migration:
    """Statements without effect if already applied, as in stores older than the numbering."""

    def change(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return change


def _add_columns(table: str, **columns: str) -> Migration:
    """Add the columns that are missing."""

    def change(connection: sqlite3.Connection) -> None:
        present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for name, kind in columns.items():
            if name not in present:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")

    return change


_DATA = """CREATE TABLE IF NOT EXISTS data (
    fingerprint TEXT PRIMARY KEY,
    statistics TEXT NOT NULL            -- JSON
) WITHOUT ROWID"""
_INVOCATIONS = """CREATE TABLE IF NOT EXISTS invocations (
    id INTEGER PRIMARY KEY,
    started TEXT NOT NULL,
    command TEXT NOT NULL,
    experiment TEXT NOT NULL,
    device TEXT NOT NULL,
    versions TEXT NOT NULL              -- JSON
)"""
_RUNS = f"""CREATE TABLE IF NOT EXISTS runs (
    {_TRAINING},
    diverged INTEGER NOT NULL,
    best_epoch INTEGER NOT NULL,
    epochs INTEGER NOT NULL,
    train_loss REAL, train_accuracy REAL,
    validation_loss REAL, validation_accuracy REAL,
    test_loss REAL, test_accuracy REAL, -- NULL if the training diverged at once
    confusion TEXT NOT NULL,            -- JSON
    parameters INTEGER NOT NULL,
    seconds REAL NOT NULL,
    curve BLOB NOT NULL,                -- float32: train loss, validation loss and accuracy
    traces TEXT                         -- JSON, of a few test graphs, for the first run of a cell
)"""
_CELLS = """CREATE TABLE IF NOT EXISTS cells (
    dataset TEXT NOT NULL,              -- its name in the experiment
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL REFERENCES data,
    method TEXT NOT NULL,
    settings TEXT NOT NULL,
    precision TEXT NOT NULL,
    numerics INTEGER NOT NULL,
    seeds INTEGER NOT NULL,
    invocation INTEGER NOT NULL REFERENCES invocations,
    search TEXT NOT NULL,
    ranking TEXT NOT NULL,              -- JSON, best first, by validation
    bytes INTEGER NOT NULL,             -- memory of one model's training step; 0: unknown
    paper_mean REAL, paper_std REAL,
    note TEXT NOT NULL,                 -- how the data differ from the published ones
    UNIQUE (dataset, name, fingerprint, method, settings, precision, numerics)
)"""
# As above, but cells of different searches differ. Only older versions write `fixed`.
_CELLS_BY_SEARCH = """CREATE TABLE cells_by_search (
    dataset TEXT NOT NULL,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL REFERENCES data,
    method TEXT NOT NULL,
    settings TEXT NOT NULL,
    precision TEXT NOT NULL,
    numerics INTEGER NOT NULL,
    seeds INTEGER NOT NULL,
    invocation INTEGER NOT NULL REFERENCES invocations,
    search TEXT NOT NULL,
    ranking TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    paper_mean REAL, paper_std REAL,
    note TEXT NOT NULL,
    chosen TEXT NOT NULL DEFAULT '[]',
    cost TEXT,
    fixed INTEGER NOT NULL DEFAULT 0,
    paper_tests TEXT,
    retention TEXT,
    UNIQUE (dataset, name, fingerprint, method, settings, precision, numerics, search)
)"""
_FAILURES = f"""CREATE TABLE IF NOT EXISTS failures (
    {_TRAINING},
    reason TEXT NOT NULL
)"""
# Curves of unfinished trainings, for searches.
_PAUSED = f"""CREATE TABLE IF NOT EXISTS paused (
    {_TRAINING},
    curve BLOB NOT NULL                 -- float32: train loss, validation loss and accuracy
)"""
_PROFILES = """CREATE TABLE IF NOT EXISTS profiles (
    invocation INTEGER PRIMARY KEY REFERENCES invocations,
    time TEXT NOT NULL                  -- JSON
)"""

# All tests of trainings on a fixed split, in the order of the split; the first is also in runs.
_TESTS = """CREATE TABLE IF NOT EXISTS tests (
    key TEXT NOT NULL,                  -- of the run
    name TEXT NOT NULL,
    loss REAL, accuracy REAL,           -- NULL if the training diverged at once
    PRIMARY KEY (key, name)
)"""

# Predictions of runs with a best epoch; see `sagpool.bench.predictions`.
_PREDICTIONS = """CREATE TABLE IF NOT EXISTS predictions (
    key TEXT PRIMARY KEY,               -- of the run
    task TEXT NOT NULL,
    outputs INTEGER NOT NULL,           -- numbers predicted for each graph
    kind TEXT NOT NULL,                 -- of the numbers that are true, as NumPy writes it
    validation BLOB NOT NULL,           -- float32
    validation_truth BLOB NOT NULL,
    test BLOB NOT NULL,                 -- float32
    test_truth BLOB NOT NULL
) WITHOUT ROWID"""

_RATIOS = """CREATE TABLE IF NOT EXISTS learnt_ratios (
    key TEXT NOT NULL,                  -- of the run
    level INTEGER NOT NULL,
    grouping TEXT NOT NULL,             -- size or class
    name TEXT NOT NULL,                 -- of the group of graphs
    graphs INTEGER NOT NULL,
    ratio REAL NOT NULL,
    PRIMARY KEY (key, level, grouping, name)
)"""


def _tell_searches_apart(connection: sqlite3.Connection) -> None:
    """Make the search part of the key of a cell.

    A row that stood for a search and for a command without one becomes two.
    """
    same = (
        "dataset, name, fingerprint, method, settings, precision, numerics, seeds, invocation, "
        "bytes, paper_mean, paper_std, note, chosen, paper_tests, retention"
    )
    connection.execute(_CELLS_BY_SEARCH)
    connection.execute(
        f"INSERT INTO cells_by_search ({same}, search, ranking, cost) "
        f"SELECT {same}, search, ranking, cost FROM ("
        f"SELECT rowid AS place, 1 AS half, {same}, search, ranking, cost FROM cells "
        f"UNION ALL SELECT rowid, 2, {same}, 'none', '[]', NULL FROM cells "
        "WHERE fixed AND search != 'none') ORDER BY place, half"
    )
    connection.execute("DROP TABLE cells")
    connection.execute("ALTER TABLE cells_by_search RENAME TO cells")


# In order of introduction, numbered from 1. A released migration never changes.
MIGRATIONS: tuple[Migration, ...] = (
    _run(_DATA, _INVOCATIONS, _RUNS, _CELLS),
    _run(_FAILURES),
    _run(_PAUSED, _PROFILES),
    _add_columns(
        "cells",
        chosen="TEXT NOT NULL DEFAULT '[]'",  # JSON, keys of runs; per fold or by test accuracy
        cost="TEXT",  # JSON, cost of the search
    ),
    # 1 if settings found by a search were also requested without one.
    _add_columns("cells", fixed="INTEGER NOT NULL DEFAULT 0"),
    _add_columns("runs", checksum="INTEGER"),  # checksum of the row
    _run(_TESTS),
    _add_columns("cells", paper_tests="TEXT"),  # JSON: published mean and std, by test
    _add_columns("cells", retention="TEXT"),  # JSON, of a comparison with the same retention
    _run(_PREDICTIONS),
    _run(_RATIOS),
    _tell_searches_apart,
)

_NUMBERS = """CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    version TEXT NOT NULL               -- of sagpool, which made the change
)"""


def migrate(connection: sqlite3.Connection, application: int) -> None:
    """Make the changes that the store lacks, all or none; an empty file gets all of them.

    Args:
        connection: in autocommit mode
        application: the number that marks the file as a run store
    """
    missing = list(range(1, len(MIGRATIONS) + 1))
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").fetchone():
        done = {number for (number,) in connection.execute("SELECT number FROM migrations")}
        missing = [number for number in missing if number not in done]
    if not missing:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"PRAGMA application_id = {application}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute(_NUMBERS)
        for number in missing:
            MIGRATIONS[number - 1](connection)
            made = (number, sagpool.__version__)
            connection.execute("INSERT INTO migrations (number, version) VALUES (?, ?)", made)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # after a full disk SQLite has undone it already
            connection.execute("ROLLBACK")
        raise


def newer_version(connection: sqlite3.Connection) -> str:
    """The version of sagpool that made the last change unknown to this version."""
    sql = "SELECT version FROM migrations WHERE number > ? ORDER BY number DESC LIMIT 1"
    with suppress(sqlite3.Error):
        row = connection.execute(sql, (len(MIGRATIONS),)).fetchone()
        if row is not None and isinstance(row[0], str):
            return f"sagpool {shorten(row[0])[1:-1]} or newer"
    return "a newer version of sagpool"
