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
    as_json: AsJson = False,
) -> None:
    """Merge several run stores into a new one."""
    merged = merge_stores(stores, output)
    if as_json:
        print_json(merged._asdict())
        return
    typer.echo(
        f"{merged.runs:,} trainings and {merged.cells:,} cells of {merged.stores} stores in "
        f"{output}; {merged.twice:,} of the trainings were in more than one."
    )
