"""Merges run stores, with the commands that made their rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sagpool.bench.copies import INVOCATION, find_copy, read_invocations
from sagpool.bench.database import CHECKSUM, RUN_COLUMNS, check_row, readable_errors, row_checksum
from sagpool.bench.overlap import Overlap, difference, differs_in_results
from sagpool.bench.published import Published, published, published_words
from sagpool.bench.records import CellRecord
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError

# All other tables have rows that belong to the key of a run.
_KNOWN = {"data", "invocations", "runs", "cells", "failures", "paused", "profiles", "migrations"}


class Merged(NamedTuple):
    """Counts of what was merged."""

    stores: int
    runs: int
    cells: int
    twice: int  # runs that were in more than one store
    # Results of trainings, and choices of settings for a fold, left out because another store has
    # other ones.
    left_out: int = 0
    # The largest differences of the accuracies and losses of these results from those kept.
    accuracy_difference: float = 0.0
    loss_difference: float = 0.0


def merge_stores(
    sources: Sequence[str | Path], output: str | Path, *, prefer_first: bool = False
) -> Merged:
    """Write the rows of run stores into a new one.

    Rows keep the commands, commits and devices that made them. A training that several stores have
    is taken from the first; if its results differ, nothing is written, unless ``prefer_first``. The
    last request of a cell is the one that began last, whichever store has it; among requests of the
    same second, the store that is named last counts.

    Args:
        sources: files of at least two stores
        output: the new file
        prefer_first: if results of a training differ (as they do by rounding), keep those of the
            first store that has it. A cell stays in one piece: if a store has all its trainings
            that any store has, those that differ are all taken from the first such store. If
            different settings were chosen for a fold, keep the choice that goes with the results
    """
    paths, target = [Path(source) for source in sources], Path(output)
    if len(paths) < 2:
        raise SagpoolError("A merge needs at least two run stores.")
    if target.exists():
        raise SagpoolError(f"{target} exists already; name a new file.")
    overlap, twice = Overlap(paths, prefer_first), 0
    with _new_store(paths[0], target) as store:
        store.connection.execute("BEGIN")
        for path in paths[1:]:
            with Store.reading(path) as source:
                twice += _Addition(store, source, overlap).run()
        store.connection.execute("COMMIT")
        counts = (len(paths), len(store.keys()), len(store.cells()), twice)
    left_out = overlap.left_out
    return Merged(*counts, left_out.count, left_out.accuracy, left_out.loss)


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
        overlap: knows which stores the rows already there come from
    """

    def __init__(self, store: Store, source: Store, overlap: Overlap) -> None:
        self.store, self.source, self.overlap = store, source, overlap
        self.to, self.of = store.connection, source.connection
        self.numbers: dict[int, int] = {}  # invocation numbers, from the source to the target

    def run(self) -> int:
        """Add everything; returns the number of runs that both stores have."""
        with readable_errors(self.source.path):
            self._check_columns()
            for fingerprint, statistics in self.of.execute("SELECT * FROM data"):
                self._insert("data", {"fingerprint": fingerprint, "statistics": statistics})
            self._invocations()
            new, twice = self._runs()
            self._training_rows("failures")
            self._cells()
            self._paused()
            for row in self._rows("profiles"):
                self._insert("profiles", row | {"invocation": self.numbers[row["invocation"]]})
            for table in self._tables(self.of) - _KNOWN:
                for row in self._rows(table):
                    if row.get("key") in new:
                        self._insert(table, row)
        return twice

    def _check_columns(self) -> None:
        for table in self._tables(self.of):
            for name in self._columns(self.of, table):
                if name not in self._columns(self.to, table):
                    raise SagpoolError(
                        f"{self.source.path} has {table}.{name}, which {self.overlap.first} "
                        "lacks; name the newer store first."
                    )

    def _invocations(self) -> None:
        """Add invocations; one that is in both stores (one is a copy) is added only once."""
        there = read_invocations(self.to)
        for number, theirs in read_invocations(self.of).items():
            same = find_copy(theirs, there)
            if same is None:
                values = dict(zip(INVOCATION, theirs.columns, strict=True))
                same = int(self._insert("invocations", values).lastrowid or 0)
            else:
                del there[same]  # invocations of one store all differ
            self.numbers[number] = same

    def _runs(self) -> tuple[set[str], int]:
        """Add runs; returns the keys of new runs, and the number of known ones."""
        known, new, twice = self.store.keys(), set[str](), 0
        for row in self._rows("runs"):
            values = [row[name] for name in RUN_COLUMNS]
            with self.source._decoding():
                check_row(values, row.get(CHECKSUM))
            if row["key"] in known:
                twice += 1
                if not self._replaces(row):
                    continue
                self._remove(row["key"])
            row["invocation"] = self.numbers[row["invocation"]]
            row[CHECKSUM] = row_checksum([row[name] for name in RUN_COLUMNS])
            self._insert("runs", row)
            self.overlap.take(self.source.path, "runs", row["key"])
            new.add(row["key"])
        return new, twice

    def _replaces(self, row: dict[str, Any]) -> bool:
        """Whether a run takes the place of the one that is there."""
        sql = f"SELECT {', '.join(RUN_COLUMNS)} FROM runs WHERE key = ?"
        values = self.to.execute(sql, (row["key"],)).fetchone()
        ours = dict(zip(RUN_COLUMNS, values, strict=True))
        found = difference(ours, row)
        if not found:
            return False
        optional = differs_in_results(ours, row)
        if not (self.overlap.prefer_first and optional):
            raise self._conflict("runs", row, "results", f": {found}", optional=optional)
        self.overlap.left_out.add_run(ours, row)
        return self.overlap.belongs_to(self.source.path, row["key"])

    def _conflict(
        self, table: str, row: dict[str, Any], what: str, how: str = "", *, optional: bool = True
    ) -> SagpoolError:
        """An error about a training that cannot be merged, or only as an option."""
        option = ", or keep the rows of the first with --prefer-first" if optional else ""
        return SagpoolError(
            f"{self.overlap.owner(table, row['key'])} and {self.source.path} have different {what} "
            f"of the same training ({row['method']} on {row['name']}, seed {row['seed']}, fold "
            f"{row['fold']}){how}. Leave one of the stores out{option}."
        )

    def _remove(self, key: str) -> None:
        for table in self._tables(self.to) - _KNOWN | {"runs"}:
            if "key" in self._columns(self.to, table):
                self.to.execute(f"DELETE FROM {table} WHERE key = ?", (key,))

    def _cells(self) -> None:
        known: dict[tuple[str, str], dict[str, Published]] = {}
        for cell in self.store.cells():
            known.setdefault((cell.dataset, cell.method), {}).update(published(cell))
        started = {one.id: one.started for one in self.store.invocations()}
        for cell in self.source.cells():
            ours = known.get((cell.dataset, cell.method), {})
            self._compare_published(cell, ours)
            for kind in published(cell).keys() - ours.keys():
                self.overlap.take(self.source.path, kind, cell.dataset, cell.method)
            records = [replace(cell, invocation=self.numbers[cell.invocation])]
            if (same := self.store.same_cell(cell)) is not None:
                kept = self._kept_choices(same, cell)
                records = [self._with_choices(one, kept) for one in (same, *records)]
            for record in sorted(records, key=lambda one: started[one.invocation]):
                self.store.add_cell(record)

    def _kept_choices(self, ours: CellRecord, theirs: CellRecord) -> dict[str, str]:
        """The keys of the chosen trainings of both records, by seed and fold."""
        kept, path = self.store.chosen_by_split(ours), self.source.path
        for split, key in self.store.chosen_by_split(theirs).items():
            chosen = kept.get(split)
            if chosen == key:
                continue
            if chosen is not None:
                if not self.overlap.prefer_first:
                    raise SagpoolError(
                        f"{self.overlap.owner('chosen', chosen)} and {path} chose different "
                        f"settings of {theirs.method} on {theirs.dataset} for {split}. Leave one "
                        "of the stores out, or keep the choices of the first with --prefer-first."
                    )
                self.overlap.left_out.count += 1
                # A choice goes with the results that it was made from.
                if not all(self.overlap.belongs_to(path, one) for one in (chosen, key)):
                    continue
            kept[split] = key
            self.overlap.take(path, "chosen", key)
        return kept

    def _with_choices(self, cell: CellRecord, kept: dict[str, str]) -> CellRecord:
        """The record with these choices for its seeds and folds."""
        splits = self.store.chosen_by_split(cell)
        return replace(cell, chosen=tuple(kept[split] for split in splits))

    def _compare_published(self, cell: CellRecord, ours: dict[str, Published]) -> None:
        theirs = published(cell)
        for kind in sorted(ours.keys() & theirs.keys()):
            if ours[kind] != theirs[kind]:
                owner = self.overlap.owner(kind, cell.dataset, cell.method)
                raise SagpoolError(
                    f"{owner} and {self.source.path} name different published {kind} of "
                    f"{cell.method} on {cell.dataset}: {published_words(ours[kind])} and "
                    f"{published_words(theirs[kind])}."
                )

    def _paused(self) -> None:
        """Keep the later of two states of a training, if one continues the other."""
        for row in self._rows("paused"):
            seen = self.store._paused(row["key"])
            if seen is None or self._continues(row, seen):
                row["invocation"] = self.numbers[row["invocation"]]
                self._insert("paused", row, "OR REPLACE")
                self.overlap.take(self.source.path, "paused", row["key"])

    def _continues(self, row: dict[str, Any], seen: np.ndarray) -> bool:
        curve = self.source._curve(row["curve"])
        shared = min(seen.shape[1], curve.shape[1])
        ours, theirs = seen[:, :shared], curve[:, :shared]
        if np.array_equal(ours, theirs, equal_nan=True):
            return curve.shape[1] > shared
        if not self.overlap.prefer_first:
            raise self._conflict("paused", row, "curves")
        self.overlap.left_out.add_curve(ours, theirs)
        return False

    def _training_rows(self, table: str) -> None:
        for row in self._rows(table):
            self._insert(table, row | {"invocation": self.numbers[row["invocation"]]})

    def _tables(self, connection: sqlite3.Connection) -> set[str]:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return {name for (name,) in connection.execute(sql)} - {"migrations"}

    def _columns(self, connection: sqlite3.Connection, table: str) -> list[str]:
        sql = "SELECT name FROM pragma_table_info(?)"
        return [name for (name,) in connection.execute(sql, (table,))]

    def _rows(self, table: str) -> Iterator[dict[str, Any]]:
        if table not in self._tables(self.of):  # older stores lack some
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
