"""``sagpool demo``: a short tour, from training to pictures."""

from pathlib import Path
from typing import Annotated

import typer

from sagpool.bench.engines import Local
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.plan import Overrides, plan
from sagpool.bench.run import load_data
from sagpool.bench.store import Store
from sagpool.bench.summary import Summary
from sagpool.cli.bench import run
from sagpool.cli.options import AsJson
from sagpool.cli.results import print_json, print_results
from sagpool.explain.draw import draw
from sagpool.report import write_report


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path(
        "demo"
    ),
    as_json: AsJson = False,
) -> None:
    """Compare the paper's six methods on MUTAG, write a report, and draw kept nodes."""
    store = output / "runs.sqlite"
    experiment = load_experiment("demo")
    cells = plan(experiment, Overrides(), search=False)
    engine = Local(output / "runs.sqlite-checkpoints")
    data = load_data(cells, experiment.statistics)
    _, summaries = run(experiment, cells, data, experiment.seeds, store, engine)
    page = write_report(store, output)
    pictures = _draw(store, summaries, output / "pictures")
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


def _draw(store: Path, summaries: list[Summary], folder: Path) -> list[Path]:
    """Draw the traces that are stored with the first run of each method."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    with Store.reading(store) as rows:
        for summary in summaries:
            for trace in rows.traces(summary.runs[0].key):
                path = folder / f"{summary.cell.method}-{trace.number}.png"
                draw(trace).savefig(path, dpi=150, facecolor="white")
                pictures.append(path)
    return pictures
