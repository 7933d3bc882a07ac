"""The cells of a run store.

A search is part of a cell's identity: two searches that find the same settings, and a command that
names these settings without a search, are cells of their own. They share their trainings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sagpool.bench.records import CellRecord, Failure, Run
from sagpool.bench.tables import Tables
from sagpool.foreign.values import decode, parse_json


class StoredCells(Tables):
    """Adds and reads the cells of a run store."""

    def add_cell(self, cell: CellRecord) -> None:
        """Add a cell, or replace it.

        If the new record has no retention or no published numbers, those of the old record are
        kept. So are trainings chosen for seeds and folds that the new record lacks.
        """
        if (old := self.same_cell(cell)) is not None:
            if cell.retention is None:
                cell = replace(cell, retention=old.retention)
            if cell.paper_mean is None:
                cell = replace(cell, paper_mean=old.paper_mean, paper_std=old.paper_std)
            if not cell.paper_tests:
                cell = replace(cell, paper_tests=old.paper_tests)
            if len(old.chosen) > len(cell.chosen):
                # The ranking is over all trainings that were chosen from.
                cell = replace(cell, ranking=old.ranking, cost=old.cost)
            chosen = self.chosen_by_split(old) | self.chosen_by_split(cell)
            cell = replace(cell, chosen=tuple(chosen.values()))
        ranking = json.dumps([candidate._asdict() for candidate in cell.ranking])
        cost = json.dumps(cell.cost._asdict()) if cell.cost else None
        values = vars(cell) | {"settings": settings_text(cell.settings), "ranking": ranking}
        values |= {"chosen": json.dumps(cell.chosen), "cost": cost}
        values["paper_tests"] = json.dumps(cell.paper_tests) if cell.paper_tests else None
        values["retention"] = json.dumps(cell.retention._asdict()) if cell.retention else None
        self._insert("OR REPLACE", f"cells ({', '.join(values)})", list(values.values()))

    def cells(self) -> list[CellRecord]:
        """All cells, the one that was requested last at the end."""
        return self._cells(
            "SELECT cells.* FROM cells LEFT JOIN invocations ON invocations.id = cells.invocation "
            "ORDER BY invocations.started, cells.rowid"
        )

    def same_cell(self, cell: CellRecord) -> CellRecord | None:
        """The stored record of this cell."""
        wanted = cell_key(cell)
        return next((one for one in self._of_method(cell) if cell_key(one) == wanted), None)

    def bytes_of(self, cell: CellRecord) -> int:
        """The recorded memory of a training step of this cell; 0 if unknown."""
        known = (one for one in self._of_method(cell) if group_key(one) == group_key(cell))
        return max((one.bytes for one in known), default=0)

    def chosen_by_split(self, cell: CellRecord) -> dict[str, str]:
        """The keys of the chosen trainings, by ``seed 0, fold 1``.

        If a training has no row yet, its split is unknown, so its own key stands for it.
        """
        splits: dict[str, str] = {}
        for table in ("runs", "failures"):
            sql = f"SELECT key, seed, fold FROM {table}"
            for key, seed, fold in self._of_keys(sql, cell.chosen) if self._has(table) else ():
                splits[key] = f"seed {seed}, fold {fold}"
        return {splits.get(key, key): key for key in cell.chosen}

    def _of_method(self, cell: CellRecord) -> list[CellRecord]:
        sql = "SELECT * FROM cells WHERE dataset = ? AND method = ? ORDER BY rowid"
        return self._cells(sql, (cell.dataset, cell.method))

    def _cells(self, sql: str, values: tuple[Any, ...] = ()) -> list[CellRecord]:
        rows = self._named(sql, values)
        with self._decoding():
            return [cell for row in rows for cell in _decoded(row)]


def _decoded(row: dict[str, Any]) -> Iterable[CellRecord]:
    # Older stores lack some of these columns.
    for name in ("settings", "ranking", "chosen", "cost", "retention", "paper_tests"):
        row[name] = parse_json(text) if (text := row.get(name)) else None
    row["chosen"] = row["chosen"] or []
    cell = decode(CellRecord, row, "a cell")
    yield cell
    # In older stores one row stands for a search and for a command without one.
    if row.get("fixed") and cell.search != "none":
        yield replace(cell, search="none", ranking=(), cost=None)


def group_key(record: CellRecord | Run | Failure) -> tuple[Any, ...]:
    """Equal for a cell and its trainings."""
    return (
        *(record.name, record.fingerprint, record.method, settings_text(record.settings)),
        *(record.precision, record.numerics),
    )


def cell_key(cell: CellRecord) -> tuple[Any, ...]:
    """Equal for records of the same cell: of the same settings, found in the same way."""
    return (cell.dataset, cell.search, *group_key(cell))


def settings_text(settings: dict[str, Any]) -> str:
    """JSON that is equal for equal settings."""
    return json.dumps(settings, sort_keys=True)
