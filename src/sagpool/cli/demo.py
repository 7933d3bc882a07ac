"""``sagpool demo``: the paper's six methods on the built-in molecules."""

import json
import time
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from sagpool.fleet import Result, Training, train
from sagpool.graphs import Graphs, load

METHODS = ("set2set-g", "sortpool-g", "sagpool-g", "diffpool-h", "gpool-h", "sagpool-h")
FOLDS = 10
# Fewer and faster epochs than the paper's: this is a taste, not a result.
SETTINGS = {"hidden": 32, "lr": 5e-3, "patience": 20, "max_epochs": 100}


class _Row(NamedTuple):
    method: str
    mean: float
    std: float
    epochs: float
    seconds: float


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Compare the paper's six methods on MUTAG: ten folds each, one fleet for each method."""
    graphs = load("MUTAG")
    console = Console(stderr=True)
    if not as_json:
        console.print(f"{graphs!r}: {FOLDS} folds, one fleet for each method.", highlight=False)
    columns = (TextColumn("{task.description:<11}"), BarColumn(), TextColumn("{task.fields[told]}"))
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        rows = [_run(graphs, method, bar) for method in METHODS]
    if as_json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    _print_table(rows)
    typer.echo("One seed and short trainings: the differences are well within the spread.")
    typer.echo("Next: README.md shows how to compare methods, and to train on your own graphs.")


def _run(graphs: Graphs, method: str, bar: Progress) -> _Row:
    task = bar.add_task(method, total=FOLDS, told="")
    begin = time.perf_counter()
    trainings = [Training(method, fold=fold, **SETTINGS) for fold in range(FOLDS)]  # type: ignore[arg-type]
    results: list[Result] = train(
        graphs,
        trainings,
        on_progress=lambda p: bar.update(
            task, completed=p.done, told=f"{p.epochs_per_second:.0f} models·epochs/s"
        ),
    )
    accuracy = np.array([result.test.accuracy for result in results])
    return _Row(
        method,
        float(accuracy.mean()),
        float(accuracy.std(ddof=1)),
        float(np.mean([result.epochs for result in results])),
        time.perf_counter() - begin,
    )


def _print_table(rows: list[_Row]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("method")
    for column in ("accuracy", "± over folds", "epochs", "seconds"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.method,
            f"{row.mean:.1%}",
            f"{row.std:.1%}",
            f"{row.epochs:.0f}",
            f"{row.seconds:.1f}",
        )
    Console().print(table)
