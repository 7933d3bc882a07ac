"""``sagpool report``: tables, figures and a page from a run store."""

from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from sagpool.cli.options import Force
from sagpool.cli.results import cells_json, print_json


def report(
    store: Annotated[Path, typer.Argument(help="A run store made by `sagpool bench`.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The folder to write into.  [default: report]"),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            help="The experiment whose claims are judged: a .yaml file, or a name.  [default: that "
            "of the store, if it comes with the package]"
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare all other methods with this one.")
    ] = None,
    force: Force = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON; write files only with -o."),
    ] = False,
) -> None:
    """Make tables, figures and an HTML page from a run store."""
    # Imported here because matplotlib takes a second to import.
    from sagpool.bench.experiment_file import load_experiment
    from sagpool.report.content import read_content
    from sagpool.report.write import report_folder, write_content

    folder = None
    if output or not as_json:  # refuse the folder before reading the store, which may take long
        folder = report_folder(store, output or Path("report"), force=force)
    described = None if experiment is None else load_experiment(experiment)
    content = read_content(store, described, against)
    page = write_content(content, folder) if folder else None
    if as_json:
        compared = [one for table in content.against for one in table.comparisons]
        print_json(cells_json(content.summaries, compared))
        return
    assert folder is not None
    assert page is not None
    figures, tables = (
        sum(PurePosixPath(name).match(pattern) for name in folder.written)
        for pattern in ("figures/*.png", "tables/*.csv")
    )
    typer.echo(
        f"{len(content.summaries)} cells from {len(content.runs)} trainings: {figures} figures, "
        f"{tables} tables and a page in {page.parent}."
    )
    typer.echo(f"Open {page} in a browser.")
