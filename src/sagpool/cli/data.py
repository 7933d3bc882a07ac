"""``sagpool data``: statistics of data sets."""

import dataclasses
import json
import logging
from collections import defaultdict
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from sagpool.errors import SagpoolError
from sagpool.graphs.builtin import BUILT_IN
from sagpool.graphs.features import Features
from sagpool.graphs.graphs import Statistics
from sagpool.graphs.load import load
from sagpool.graphs.named_datasets import data_folders, list_datasets

log = logging.getLogger("sagpool")


class _Found(NamedTuple):
    source: str | Path
    folder: str  # what a person is told about where it lies


def data(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|PATH]...",
            help="Data sets; without any, what is built in and what is found along SAGPOOL_DATA.",
        ),
    ] = None,
    features: Annotated[Features, typer.Option(help="Which node features to use.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Show the statistics of data sets: size, classes, features (the paper's Table 1)."""
    if names:
        rows = [load(name, features).statistics() for name in names]
        folders: dict[str, list[str]] = {}
    else:
        rows, folders = _everything(features)
    if as_json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    else:
        _print_table(rows, folders)


def _everything(features: Features) -> tuple[list[Statistics], dict[str, list[str]]]:
    """What can be loaded without a download, and the names in each folder."""
    rows = []
    folders: dict[str, list[str]] = defaultdict(list)
    for source, folder in [
        *(_Found(name, "built in") for name in BUILT_IN),
        *(_Found(path, f"in {path.parent}") for path in list_datasets()),
    ]:
        try:
            rows.append(load(source, features).statistics())
            folders[folder].append(rows[-1].name)
        except SagpoolError as error:
            # One bad file must not hide the others.
            log.warning("%s", error)
    return rows, folders


def _print_table(rows: list[Statistics], folders: dict[str, list[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("data set", no_wrap=True)
    for column in ("graphs", "classes", "avg nodes", "avg edges"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("features", no_wrap=True)
    table.add_column("majority", justify="right", no_wrap=True)
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
    console = Console()
    if not console.is_terminal:
        # Only a terminal has a width to respect; piped output keeps its columns whole.
        console = Console(width=200)
    console.print(table)
    for folder, names in folders.items():
        typer.echo(f"{folder}: {', '.join(names)}")
    if folders and not data_folders():
        typer.echo("Set SAGPOOL_DATA to a folder with NAME/ or NAME.zip to see more.")
