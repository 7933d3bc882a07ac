"""The SQLite file of a run store: its tables, and its errors as readable sentences."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from sagpool.bench.migrations import FORMAT, migrate, newer_version
from sagpool.errors import SagpoolError
from sagpool.foreign.limits import CELL
from sagpool.foreign.values import DecodingError, shorten

APPLICATION = 0x5A67706C  # marks the file as a run store


@contextmanager
def open_to_write(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file, and create it if it does not exist."""
    with readable_errors(path):
        connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        try:
            _make_or_check(path, connection)
            yield connection
            # Makes a store that nobody writes a single file. Fails while another process reads;
            # then the next writer does it.
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
    migrate(connection, APPLICATION)
    # In this mode a killed process loses nothing that was committed, and readers do not wait for
    # the writer.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _check(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise SagpoolError(_NOT_A_STORE.format(path=path))
    _refuse_programs(path, connection)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT:
        needed = newer_version(connection) if version > FORMAT else "another version of sagpool"
        raise SagpoolError(
            f"{path} needs {needed} (its format is {version}; this version reads {FORMAT})."
        )


def _refuse_programs(path: Path, connection: sqlite3.Connection) -> None:
    """Allow only tables: a view, a trigger or a computed column can produce unlimited data."""
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


CHECKSUM = "checksum"  # the column
_CURVE = RUN_COLUMNS.index("curve")


def row_checksum(values: Sequence[Any]) -> int:
    """Checksum of the `RUN_COLUMNS` of a row; detects damage, not tampering."""
    others = [*values[:_CURVE], *values[_CURVE + 1 :]]
    return crc32(values[_CURVE], crc32(repr(others).encode()))


def check_row(values: Sequence[Any], written: Any) -> None:
    """Raise an error if the `RUN_COLUMNS` of a row do not have the checksum that was written.

    Rows of older versions have no checksum.
    """
    if written is not None and row_checksum(values) != written:
        raise DecodingError(f"the run {shorten(values[0])} was changed after it was written")


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
    except UnicodeDecodeError:  # SQLite's message contains a damaged name
        raise SagpoolError(_DAMAGED.format(path=path)) from None
