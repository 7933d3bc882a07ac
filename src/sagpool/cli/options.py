"""Options that several commands have in common."""

from typing import Annotated

import torch
import typer

from sagpool.bench.experiment import parse_value
from sagpool.errors import SagpoolError
from sagpool.graphs.records import Columns
from sagpool.models import Value

DATA_HELP = "A .jsonl, .csv, .tsv or .sdf file, a TU folder or zip, or the name of a data set."
SmilesColumn = Annotated[
    str | None, typer.Option(help="SMILES column of a table, if it has no usual name.")
]
LabelColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--label-column",
        help="Column of a table, or SDF property, with the classes or targets, if it has no usual "
        "name. For several targets, repeat the option or use commas.",
    ),
]
IdColumn = Annotated[
    str | None, typer.Option(help="Column, or SDF property, with the name of each graph.")
]
Device = Annotated[str, typer.Option(help="cpu or cuda; auto: cuda if available.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Write into a folder with other files, and overwrite files of the same names.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


def device_name(option: str) -> str:
    """The name of the device; resolves ``auto``."""
    if option == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return option


def columns_of(smiles: str | None, labels: list[str] | None, id_: str | None = None) -> Columns:
    """The titles of the columns of a table, for `load`."""
    named = several(labels)
    return Columns(smiles, named[0] if len(named) == 1 else named or None, id_)


def several(options: list[str] | None) -> tuple[str, ...]:
    """The values of an option that may be repeated and may contain commas."""
    return tuple(name for option in options or () for name in option.split(",") if name)


def parse_settings(options: list[str] | None) -> dict[str, tuple[Value, ...]]:
    """The values of ``--set lr=0.005``; several by ``--set lr=0.01,0.001`` or by repeating it."""
    settings: dict[str, tuple[Value, ...]] = {}
    for option in options or ():
        name, sign, values = option.partition("=")
        if not sign or not name:
            raise SagpoolError(f"--set takes NAME=VALUE, not '{option}'.")
        given = tuple(parse_value(value.strip()) for value in values.split(","))
        settings[name.strip()] = settings.get(name.strip(), ()) + given
    return settings
