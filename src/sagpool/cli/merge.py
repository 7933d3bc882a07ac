"""``sagpool merge``: several run stores as one."""

from pathlib import Path
from typing import Annotated

import typer

from sagpool.bench.merge import merge_stores
from sagpool.cli.options import AsJson
from sagpool.cli.results import print_json


def merge(
    stores: Annotated[list[Path], typer.Argument(help="Run stores made by `sagpool bench`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The new run store.")],
    prefer_first: Annotated[
        bool,
        typer.Option(
            "--prefer-first",
            help="If results of a training differ, keep those of the first store that has it (of "
            "the first that has the whole cell, if one has).",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Merge several run stores into a new one."""
    merged = merge_stores(stores, output, prefer_first=prefer_first)
    if as_json:
        print_json(merged._asdict())
        return
    typer.echo(
        f"{merged.runs:,} trainings and {merged.cells:,} cells of {merged.stores} stores in "
        f"{output}; {merged.twice:,} of the trainings were in more than one."
    )
    if merged.left_out:
        typer.echo(
            f"{merged.left_out:,} results (or choices of settings per fold) that differ from those "
            "of another store were left out; accuracies differ by at most "
            f"{merged.accuracy_difference:.2g}, losses by at most {merged.loss_difference:.2g}."
        )
