"""``sagpool demo``: a short tour, from training to pictures."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sagpool.bench import Store, Summary, load_experiment, run_experiment
from sagpool.cli.live import LiveView
from sagpool.cli.options import AsJson, Force
from sagpool.cli.results import print_json, print_results
from sagpool.explain.draw import draw
from sagpool.output_folder import OutputFolder
from sagpool.report import write_report


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path(
        "demo"
    ),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare the paper's six methods on MUTAG, write a report, and draw kept nodes."""
    store = output / "runs.sqlite"
    folder = OutputFolder(output, "demo", force=force, beside=store)
    with LiveView() as view:
        found = run_experiment(load_experiment("demo"), store=store, device="cpu", watch=view)
    summaries = found.summaries
    page = write_report(store, output, force=force)
    pictures = _draw(store, summaries, folder)
    if as_json:
        print_json([summary.to_json() for summary in summaries])
        return
    print_results(summaries)
    typer.echo(
        f"""
With one seed and short trainings, the differences are well within the spread.
Open {page} for the whole comparison,
and {pictures[0].parent} for {len(pictures)} pictures of kept nodes.

Next:
  sagpool bench quick                          two seeds, and PROTEINS as well
  sagpool bench --dataset PROTEINS --seeds 1   one seed of the paper's protocol
  sagpool bench --help                         data sets, methods, settings, searches"""
    )


def _draw(store: Path, summaries: Sequence[Summary], folder: OutputFolder) -> list[Path]:
    """Draw the traces that are stored with the first run of each method."""
    pictures = []
    with Store.reading(store) as rows:
        for summary in summaries:
            for trace in rows.traces(summary.runs[0].key):
                png = io.BytesIO()
                draw(trace).savefig(png, format="png", dpi=150, facecolor="white")
                name = f"pictures/{summary.cell.method}-{trace.number}.png"
                pictures.append(folder.write(name, png.getvalue()))
    folder.finish()
    return pictures
