"""``sagpool report``: tables, figures and a page from a run store."""

from pathlib import Path
from typing import Annotated

import typer

from sagpool.cli.results import print_json


def report(
    store: Annotated[Path, typer.Argument(help="A run store made by `sagpool bench`.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The folder to write into.  [default: report]"),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            help="Whose claims to judge: a .yaml file, or a name.  [default: that of the store, if "
            "it comes with the package]"
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON; write files only with -o."),
    ] = False,
) -> None:
    """Make tables, figures and an HTML page from a run store."""
    # Imported here because matplotlib takes a second to import.
    from sagpool.bench.experiment_file import load_experiment
    from sagpool.report.content import read_content
    from sagpool.report.write import write_content

    content = read_content(store, None if experiment is None else load_experiment(experiment))
    page = None if as_json and output is None else write_content(content, output or Path("report"))
    if as_json:
        print_json([summary.to_json() for summary in content.summaries])
        return
    assert page is not None
    figures, tables = (
        len(list((page.parent / name).glob(f"*.{kind}")))
        for name, kind in (("figures", "png"), ("tables", "csv"))
    )
    typer.echo(
        f"{len(content.summaries)} cells from {len(content.runs)} trainings: {figures} figures, "
        f"{tables} tables and a page in {page.parent}."
    )
    typer.echo(f"Open {page} in a browser.")
