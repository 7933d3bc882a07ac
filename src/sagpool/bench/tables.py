"""Access to the tables of a run store, with readable errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from sagpool.bench.database import readable_errors
from sagpool.foreign.values import decode, decoding

AT_ONCE = 500  # most keys in a statement; SQLite has a limit


class Tables:
    """The tables of an open run store; their content may be foreign or damaged."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.connection = path, connection
        self._columns: dict[str, list[str]] = {}

    def has_column(self, table: str, column: str) -> bool:
        """Whether a table has this column; tables of older stores lack some."""
        sql = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?"
        return bool(self._read(sql, (table, column)))

    def _has(self, table: str) -> bool:
        """Whether the store has this table; older stores lack some."""
        return bool(self._read("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)))

    def _read(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with readable_errors(self.path):
            return self.connection.execute(sql, values).fetchall()

    def _named(self, sql: str, values: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        with readable_errors(self.path):
            cursor = self.connection.execute(sql, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def _of_keys(self, sql: str, keys: Iterable[str] | None) -> Iterator[tuple[Any, ...]]:
        if keys is None:
            yield from self._read(sql)
            return
        wanted = list(keys)
        for first in range(0, len(wanted), AT_ONCE):
            some = tuple(wanted[first : first + AT_ONCE])
            marks = ", ".join("?" * len(some))
            yield from self._read(f"{sql} WHERE key IN ({marks})", some)

    def _score(self, value: Any) -> float:
        with self._decoding():
            return decode(float, float("nan") if value is None else value, "a score")

    def _curve(self, content: bytes) -> np.ndarray:
        with self._decoding():
            return np.frombuffer(content, "<f4").reshape(3, -1)

    def _decoding(self) -> AbstractContextManager[None]:
        return decoding(lambda reason: f"{self.path} has a row that cannot be read: {reason}.")

    def _insert(self, conflict: str, table: str, values: list[Any]) -> sqlite3.Cursor:
        if not table.endswith(")"):
            # Name the columns: a newer version of the store may have more.
            if table not in self._columns:
                sql = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
                self._columns[table] = [name for (name,) in self._read(sql, (table,))]
            table += f" ({', '.join(self._columns[table][: len(values)])})"
        # SQLite would store a number of NumPy as bytes.
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        marks = ", ".join("?" * len(values))
        with readable_errors(self.path):
            return self.connection.execute(
                f"INSERT {conflict} INTO {table} VALUES ({marks})", values
            )

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        with readable_errors(self.path):
            # Unlike BEGIN, also possible inside a transaction.
            self.connection.execute("SAVEPOINT row")
            try:
                yield
                self.connection.execute("RELEASE row")
            except BaseException:
                with suppress(sqlite3.Error):  # after a full disk SQLite has undone it already
                    self.connection.execute("ROLLBACK TO row")
                    self.connection.execute("RELEASE row")
                raise
