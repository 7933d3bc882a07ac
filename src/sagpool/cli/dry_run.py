"""What ``sagpool bench --dry-run`` shows."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from sagpool.bench.experiment import Experiment
from sagpool.bench.plan import Cell, repeat, run_key
from sagpool.bench.run import Loaded
from sagpool.bench.search import Search, rounds
from sagpool.bench.store import Store
from sagpool.cli.results import print_json

_TOLD = ("lr", "weight_decay", "hidden", "ratio")


def show_plan(
    experiment: Experiment,
    cells: Sequence[Cell],
    data: Mapping[str, Loaded],
    seeds: int,
    search: Search,
    precision: str,
    store_path: Path,
    *,
    as_json: bool,
) -> None:
    """The cells, and how many of their trainings the store has already."""
    stored: set[str] = set()
    if store_path.exists():
        with Store.reading(store_path) as store:
            stored = store.keys()
    rows = [_row(cell, data[cell.dataset.name], seeds, search, precision, stored) for cell in cells]
    if as_json:
        print_json(rows)
        return
    many = "1 seed" if seeds == 1 else f"{seeds} seeds"
    typer.echo(f"{experiment.title}: {len(cells)} cells, {many}, search: {search}.")
    for row in rows:
        line = f"{row['dataset']} {row['method']}: {row['trainings']} trainings"
        if search is Search.NONE:
            settings = ", ".join(f"{name} {row[name]:g}" for name in _TOLD)
            line += f", {row['stored']} of them stored; {settings}"
        else:
            line += f", after choosing from {row['candidates']} candidates in {row['search']} more"
        typer.echo(line)


def _row(
    cell: Cell, loaded: Loaded, seeds: int, search: Search, precision: str, stored: set[str]
) -> dict[str, object]:
    wanted = repeat(cell.default, seeds)
    row: dict[str, object] = {
        "dataset": cell.dataset.name,
        "method": cell.method,
        "trainings": len(wanted),
    }
    if search is Search.NONE:
        keys = {run_key(loaded.graphs, loaded.fingerprint, one, precision) for one in wanted}
        settings = {name: getattr(cell.default, name) for name in _TOLD}
        return row | {"stored": len(keys & stored), **settings}
    count = len(cell.candidates)
    trainings = count * cell.default.folds
    if search is Search.HALVING:
        trainings, left = 0, count
        for _, folds in rounds(cell.candidates):
            trainings += left * folds
            left = -(-left // 2)
    return row | {"candidates": count, "search": trainings}
