"""Merges run stores, with the commands that made their rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sagpool.bench.database import CHECKSUM, RUN_COLUMNS, check_row, readable_errors, row_checksum
from sagpool.bench.records import CellRecord
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError

# Columns in which equal trainings may differ: who made them, when, and how fast.
_INCIDENTAL = {"invocation", "finished", "seconds", "traces"}
_DECISIVE = [name for name in RUN_COLUMNS if name not in _INCIDENTAL]
_INVOCATION = ("started", "command", "experiment", "device", "versions")
_Published = dict[str, tuple[float | None, float | None]]  # mean and standard deviation
# All other tables have rows that belong to the key of a run.
_KNOWN = {"data", "invocations", "runs", "cells", "failures", "paused", "profiles", "migrations"}


class Merged(NamedTuple):
    """Counts of what was merged."""

    stores: int
    runs: int
    cells: int
    twice: int  # runs that were in more than one store


def merge_stores(sources: Sequence[str | Path], output: str | Path) -> Merged:
    """Write the rows of run stores into a new one.

    Rows keep the commands, commits and devices that made them. A training that several stores have
    is taken from the first; if its results differ, nothing is written.

    Args:
        sources: files of at least two stores; if a cell is in several stores, the request in the
            last one counts as the last
        output: the new file
    """
    paths, target = [Path(source) for source in sources], Path(output)
    if len(paths) < 2:
        raise SagpoolError("A merge needs at least two run stores.")
    if target.exists():
        raise SagpoolError(f"{target} exists already; name a new file.")
    with _new_store(paths[0], target) as store:
        twice = 0
        store.connection.execute("BEGIN")
        for path in paths[1:]:
            with Store.reading(path) as source:
                twice += _Addition(store, source, paths[0] if len(paths) == 2 else target).run()
        store.connection.execute("COMMIT")
        return Merged(len(paths), len(store.keys()), len(store.cells()), twice)


@contextmanager
def _new_store(first: Path, target: Path) -> Iterator[Store]:
    """A copy of the first store, which becomes the target at the end of the block."""
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        with Store.reading(first) as source, readable_errors(part):
            copy = sqlite3.connect(part)
            source.connection.backup(copy)
            copy.close()
        with Store.writing(part) as store:
            yield store
        os.replace(part, target)
    finally:
        for suffix in ("", "-wal", "-shm", "-lock"):
            part.with_name(part.name + suffix).unlink(missing_ok=True)


class _Addition:
    """Adds the rows of one store to another.

    Args:
        store: the target, inside a transaction
        source: the store to read
        before: the file that errors name as the owner of the rows already there
    """

    def __init__(self, store: Store, source: Store, before: Path) -> None:
        self.store, self.source, self.before = store, source, before
        self.to, self.of = store.connection, source.connection
        self.numbers: dict[int, int] = {}  # invocation numbers, from the source to the target

    def run(self) -> int:
        """Add everything; returns the number of runs that both stores have."""
        with readable_errors(self.source.path):
            for table in self._tables():
                for name in self._columns(self.of, table):
                    if name not in self._columns(self.to, table):
                        raise SagpoolError(
                            f"{self.source.path} has {table}.{name}, which {self.before} lacks; "
                            "name the newer store first."
                        )
            for fingerprint, statistics in self.of.execute("SELECT * FROM data"):
                self._insert("data", {"fingerprint": fingerprint, "statistics": statistics})
            self._invocations()
            new, twice = self._runs()
            self._cells()
            self._training_rows("failures")
            self._paused()
            for row in self._rows("profiles"):
                self._insert("profiles", row | {"invocation": self.numbers[row["invocation"]]})
            for table in self._tables() - _KNOWN:
                for row in self._rows(table):
                    if row.get("key") in new:
                        self._insert(table, row)
        return twice

    def _invocations(self) -> None:
        """Add invocations; a command in both stores (one is a copy) is added only once."""
        sql = f"SELECT id, {', '.join(_INVOCATION)} FROM invocations ORDER BY id"
        known = {tuple(row): number for number, *row in self.to.execute(sql)}
        for number, *row in self.of.execute(sql):
            if tuple(row) not in known:
                values = dict(zip(_INVOCATION, row, strict=True))
                known[tuple(row)] = int(self._insert("invocations", values).lastrowid or 0)
            self.numbers[number] = known[tuple(row)]

    def _runs(self) -> tuple[set[str], int]:
        """Add runs; returns the keys of new runs, and the number of known ones."""
        known, new, twice = self.store.keys(), set[str](), 0
        for row in self._rows("runs"):
            values = [row[name] for name in RUN_COLUMNS]
            with self.source._decoding():
                check_row(values, row.get(CHECKSUM))
            if row["key"] in known:
                self._compare(row)
                twice += 1
                continue
            row["invocation"] = self.numbers[row["invocation"]]
            row[CHECKSUM] = row_checksum([row[name] for name in RUN_COLUMNS])
            self._insert("runs", row)
            new.add(row["key"])
        return new, twice

    def _compare(self, row: dict[str, Any]) -> None:
        sql = f"SELECT {', '.join(_DECISIVE)} FROM runs WHERE key = ?"
        ours = self.to.execute(sql, (row["key"],)).fetchone()
        if ours != tuple(row[name] for name in _DECISIVE):
            raise SagpoolError(
                f"{self.before} and {self.source.path} have different results of the same "
                f"training ({row['method']} on {row['name']}, seed {row['seed']}, fold "
                f"{row['fold']}): {ours[_DECISIVE.index('test_accuracy')]} and "
                f"{row['test_accuracy']}. Leave one of the stores out."
            )

    def _cells(self) -> None:
        known: dict[tuple[str, str], dict[str, _Published]] = {}
        for cell in self.store.cells():
            known.setdefault((cell.dataset, cell.method), {}).update(_published(cell))
        for cell in self.source.cells():
            self._compare_published(cell, known.get((cell.dataset, cell.method), {}))
            self.store.add_cell(replace(cell, invocation=self.numbers[cell.invocation]))

    def _compare_published(self, cell: CellRecord, ours: dict[str, _Published]) -> None:
        theirs = _published(cell)
        for name in sorted(ours.keys() & theirs.keys()):
            if ours[name] != theirs[name]:
                raise SagpoolError(
                    f"{self.before} and {self.source.path} name different published {name} of "
                    f"{cell.method} on {cell.dataset}: {_words(ours[name])} and "
                    f"{_words(theirs[name])}."
                )

    def _paused(self) -> None:
        """Keep the later of two states of a training, if one continues the other."""
        for row in self._rows("paused"):
            seen = self.store._paused(row["key"])
            if seen is not None:
                curve = self.source._curve(row["curve"])
                shared = min(seen.shape[1], curve.shape[1])
                if (seen[:, :shared] != curve[:, :shared]).any():
                    raise SagpoolError(
                        f"{self.before} and {self.source.path} have different curves of the same "
                        f"training ({row['method']} on {row['name']}, seed {row['seed']}, fold "
                        f"{row['fold']})."
                    )
                if curve.shape[1] <= seen.shape[1]:
                    continue
            self._insert(
                "paused", row | {"invocation": self.numbers[row["invocation"]]}, "OR REPLACE"
            )

    def _training_rows(self, table: str) -> None:
        for row in self._rows(table):
            self._insert(table, row | {"invocation": self.numbers[row["invocation"]]})

    def _tables(self) -> set[str]:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return {name for (name,) in self.of.execute(sql)} - {"migrations"}

    def _columns(self, connection: sqlite3.Connection, table: str) -> list[str]:
        sql = "SELECT name FROM pragma_table_info(?)"
        return [name for (name,) in connection.execute(sql, (table,))]

    def _rows(self, table: str) -> Iterator[dict[str, Any]]:
        if table not in self._tables():  # older stores lack some
            return
        cursor = self.of.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield dict(zip(names, row, strict=True))

    def _insert(
        self, table: str, row: dict[str, Any], conflict: str = "OR IGNORE"
    ) -> sqlite3.Cursor:
        marks = ", ".join("?" * len(row))
        sql = f"INSERT {conflict} INTO {table} ({', '.join(row)}) VALUES ({marks})"
        return self.to.execute(sql, list(row.values()))


def _published(cell: CellRecord) -> dict[str, _Published]:
    """What is published for a cell, by kind, in words; a kind without figures is left out."""
    found: dict[str, _Published] = {}
    if cell.paper_mean is not None:
        found["results"] = {"": (cell.paper_mean, cell.paper_std)}
    if cell.paper_tests:
        found["results of tests"] = dict(cell.paper_tests)
    return found


def _words(published: _Published) -> str:
    """Such as ``61.5 ± 1.2``, or ``later 61.5 ± 1.2, test 61.5 ± 1``."""
    figures = {
        name: f"{mean:g}" if std is None else f"{mean:g} ± {std:g}"
        for name, (mean, std) in sorted(published.items())
    }
    return ", ".join(f"{name} {figure}".lstrip() for name, figure in figures.items())
