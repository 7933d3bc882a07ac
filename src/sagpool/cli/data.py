"""``sagpool data``: statistics of data sets."""

import dataclasses
import json
import logging
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import JustifyMethod
from rich.table import Table

from sagpool.cli.console import table_console
from sagpool.cli.options import AsJson, IdColumn, LabelColumns, SmilesColumn, columns_of
from sagpool.errors import SagpoolError
from sagpool.graphs.builtin import BUILT_IN
from sagpool.graphs.features import Features
from sagpool.graphs.graphs import Statistics, Task
from sagpool.graphs.load import WITH_SPLIT, load
from sagpool.graphs.named_datasets import data_folders, list_datasets

log = logging.getLogger("sagpool")


def data(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|PATH]...",
            help="Data sets; by default all built-in ones and those in SAGPOOL_DATA.",
        ),
    ] = None,
    features: Annotated[Features, typer.Option(help="Which node features to use.")] = "auto",
    task: Annotated[Task, typer.Option(help="What the labels are.")] = "classification",
    smiles_column: SmilesColumn = None,
    label_column: LabelColumns = None,
    id_column: IdColumn = None,
    as_json: AsJson = False,
) -> None:
    """Show the statistics of data sets: size, classes, features (the paper's Table 1)."""
    if names:
        columns = columns_of(smiles_column, label_column, id_column)
        rows = [load(name, features, columns=columns, task=task).statistics() for name in names]
        locations: dict[str, list[str]] = {}
    else:
        rows, locations = _all_local(features)
    if as_json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    else:
        _print_table(rows, locations)


def _all_local(features: Features) -> tuple[list[Statistics], dict[str, list[str]]]:
    """All data sets that need no download, and their names by location."""
    rows = []
    locations: dict[str, list[str]] = defaultdict(list)
    sources: list[tuple[str | Path, str]] = [(name, "built in") for name in BUILT_IN]
    sources += [(path, f"in {path.parent}") for path in list_datasets()]
    for source, location in sources:
        try:
            rows.append(load(source, features).statistics())
            locations[location].append(rows[-1].name)
        except SagpoolError as error:
            # One bad file must not hide the others.
            log.warning("%s", error)
    return rows, locations


def _print_table(rows: list[Statistics], locations: dict[str, list[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("data set", "graphs", "classes", "avg nodes", "avg edges", "features", "majority"):
        side: JustifyMethod = "left" if name in ("data set", "features") else "right"
        table.add_column(name, justify=side, no_wrap=True)
    for s in rows:
        table.add_row(
            s.name,
            str(s.graphs),
            str(s.classes),
            f"{s.avg_nodes:.2f}",
            f"{s.avg_edges:.2f}",
            f"{s.features} {s.feature_kind}",
            "" if s.majority is None else f"{s.majority:.1%}",
        )
    table_console().print(table)
    if locations:
        typer.echo(f"generated on demand, with a fixed split: {', '.join(WITH_SPLIT)}")
    for location, names in locations.items():
        typer.echo(f"{location}: {', '.join(names)}")
    if locations and not data_folders():
        typer.echo("Set SAGPOOL_DATA to a folder with NAME/ or NAME.zip to see more.")
