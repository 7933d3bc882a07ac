"""The SQLite file of a run store: its tables, and its errors as readable sentences."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import CELL
from sagpool.foreign.values import DecodingError, shorten

# Raised only by a change that older versions cannot read. Tables and columns may be added without:
# older versions ignore them, and newer ones add them to older stores (see `_ADDED_TABLES`).
FORMAT = 1
APPLICATION = 0x5A67706C  # marks the file as one of ours

# The first columns of runs, failures and paused trainings.
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
_SCHEMA = f"""
CREATE TABLE data (
    fingerprint TEXT PRIMARY KEY,
    statistics TEXT NOT NULL            -- JSON
) WITHOUT ROWID;
CREATE TABLE invocations (
    id INTEGER PRIMARY KEY,
    started TEXT NOT NULL,
    command TEXT NOT NULL,
    experiment TEXT NOT NULL,
    device TEXT NOT NULL,
    versions TEXT NOT NULL              -- JSON
);
CREATE TABLE runs (
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
);
CREATE TABLE cells (
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
);
"""
# Added to older stores when they are written next.
_ADDED_TABLES = f"""
CREATE TABLE IF NOT EXISTS failures (
    {_TRAINING},
    reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS paused (     -- what searches have seen of trainings that have not ended
    {_TRAINING},
    curve BLOB NOT NULL                 -- float32: train loss, validation loss and accuracy
);
CREATE TABLE IF NOT EXISTS profiles (
    invocation INTEGER PRIMARY KEY REFERENCES invocations,
    time TEXT NOT NULL                  -- JSON
);
"""
_ADDED_TO_RUNS = {"checksum": "INTEGER"}  # of the row
_ADDED_TO_CELLS = {
    "chosen": "TEXT NOT NULL DEFAULT '[]'",  # JSON, keys of runs; per fold or by test accuracy
    "cost": "TEXT",  # JSON, of the search
    "fixed": "INTEGER NOT NULL DEFAULT 0",  # found by a search, and also requested without one
}


@contextmanager
def open_to_write(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file, and create it if it does not exist."""
    with readable_errors(path):
        connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        try:
            _make_or_check(path, connection)
            yield connection
            # So that a store that nobody writes is a single file. Fails while another process
            # reads; then the next writer does it.
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            connection.close()


@contextmanager
def open_to_read(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an existing file; another process may be writing it."""
    with readable_errors(path):
        connection = _read_only(path)
        try:
            _check(path, connection)
            connection.execute("BEGIN")  # a consistent snapshot
            yield connection
        finally:
            connection.close()


def _make_or_check(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        _check(path, connection)
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise SagpoolError(_DAMAGED.format(path=path))
    else:
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};"
            f"{_SCHEMA} COMMIT;"
        )
    connection.executescript(_ADDED_TABLES)
    for table, added in (("runs", _ADDED_TO_RUNS), ("cells", _ADDED_TO_CELLS)):
        present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for name, kind in added.items():
            if name not in present:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    # In this mode a killed process loses nothing that was committed, and readers do not wait for
    # the writer.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _check(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise SagpoolError(_NOT_A_STORE.format(path=path))
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT:
        age = "a newer" if version > FORMAT else "another"
        raise SagpoolError(
            f"{path} was written by {age} version of sagpool (its format is {version}; this "
            f"version reads {FORMAT})."
        )
    _refuse_programs(path, connection)


def _refuse_programs(path: Path, connection: sqlite3.Connection) -> None:
    """Tables only: a view, a trigger or a computed column can make any amount of data."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, CELL.most)
    made = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') "
        "OR (type = 'table' AND lower(sql) LIKE 'create virtual%') UNION ALL "
        "SELECT 'computed column', m.name || '.' || c.name FROM sqlite_master m "
        "JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table' AND c.hidden > 0"
    ).fetchone()
    if made:
        raise SagpoolError(f"{path} is refused: it has the {made[0]} {shorten(made[1])}.")


def _read_only(path: Path) -> sqlite3.Connection:
    name = path.absolute().as_uri()
    connection = sqlite3.connect(f"{name}?mode=ro", uri=True, timeout=30)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
        return connection
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorname not in ("SQLITE_CANTOPEN", "SQLITE_READONLY_CANTINIT"):
            raise
    # In a read-only folder SQLite cannot create its lock files; but nobody writes there either.
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise SagpoolError(
            f"Some rows of {path} are in {log.name}, which cannot be read in a read-only folder; "
            "copy both to another folder."
        )
    return sqlite3.connect(f"{name}?immutable=1", uri=True)


RUN_COLUMNS = (
    *("key", "name", "fingerprint", "method", "settings", "seed", "fold", "precision", "numerics"),
    *("invocation", "finished", "diverged", "best_epoch", "epochs", "train_loss", "train_accuracy"),
    *("validation_loss", "validation_accuracy", "test_loss", "test_accuracy", "confusion"),
    *("parameters", "seconds", "curve", "traces"),
)


def row_checksum(values: Sequence[Any]) -> int:
    """Of the `RUN_COLUMNS` of a row; detects damage, not intent."""
    curve = RUN_COLUMNS.index("curve")
    return crc32(values[curve], crc32(repr([*values[:curve], *values[curve + 1 :]]).encode()))


def check_row(row: Mapping[str, Any]) -> None:
    """Raise an error if a row is not what was written; rows of older versions have no checksum."""
    written = row.get("checksum")
    if written is not None and row_checksum([row[name] for name in RUN_COLUMNS]) != written:
        raise DecodingError(f"the run {shorten(row['key'])} was changed after it was written")


_NOT_A_STORE = "{path} is not a sagpool run store."
_DAMAGED = "{path} is damaged; restore a copy, or name another store."
_SENTENCES = {
    "SQLITE_FULL": "The disk of {path} is full; the rows in it are safe. Free some space, and run "
    "the same command again.",
    "SQLITE_READONLY": "{path} cannot be written: it is read-only.",
    "SQLITE_NOTADB": _NOT_A_STORE,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_BUSY": "{path} is being written by another process; wait for it, or name another "
    "store.",
    "SQLITE_CANTOPEN": "{path} cannot be opened.",
    "SQLITE_TOOBIG": "{path} is refused: it has a cell of more than "
    f"{CELL.default:,} bytes ({CELL.variable} raises this limit).",
    "SQLITE_IOERR": "{path} cannot be read or written: the disk reports an error.",
}


@contextmanager
def readable_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into readable sentences."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        name = getattr(error, "sqlite_errorname", None) or "unknown"
        for start, sentence in _SENTENCES.items():
            if name.startswith(start):
                raise SagpoolError(sentence.format(path=path)) from None
        raise SagpoolError(f"{path} is not a valid run store: {error}.") from None
    except UnicodeDecodeError:  # a damaged name, in a message of SQLite
        raise SagpoolError(_DAMAGED.format(path=path)) from None
