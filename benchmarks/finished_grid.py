"""A finished grid search, read from a run store."""

from pathlib import Path
from typing import NamedTuple

from sagpool.bench.records import CellRecord, Run
from sagpool.bench.store import Store
from sagpool.bench.stored_cells import settings_text


class Searched(NamedTuple):
    """A finished grid, read from its store."""

    cell: CellRecord
    runs: list[Run]

    @property
    def epochs(self) -> int:
        return sum(run.epochs for run in self.runs)


def read_grid(path: Path, dataset: str, method: str) -> Searched:
    found = find_grid(path, dataset, method)
    assert found is not None
    return found


def find_grid(path: Path, dataset: str, method: str) -> Searched | None:
    """A finished grid search; None if the store has none for this cell."""
    with Store.reading(path) as store:
        for cell in store.cells():
            if (cell.dataset, cell.method, cell.search) == (dataset, method, "grid"):
                candidates = {settings_text(one.settings) for one in cell.ranking}
                runs = [
                    run
                    for run in store.runs()
                    if (run.name, run.method, run.seed) == (cell.name, method, 0)
                    and settings_text(run.settings) in candidates
                ]
                return Searched(cell, runs)
    return None
