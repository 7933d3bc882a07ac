"""``sagpool demo``: the built-in tour, from trainings to pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sagpool.bench import Store, Summary, load_experiment, run_experiment
from sagpool.cli.live import LiveView
from sagpool.cli.results import print_json, print_results


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path(
        "demo"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Compare the paper's six methods on MUTAG, write a report, and draw what was kept."""
    from sagpool.report import write_report  # matplotlib takes its time to load

    store = output / "runs.sqlite"
    with LiveView() as view:
        found = run_experiment(load_experiment("demo"), store=store, device="cpu", watch=view)
    summaries = found.summaries
    page = write_report(store, output)
    pictures = _draw(store, summaries, output / "pictures")
    if as_json:
        print_json([summary.to_json() for summary in summaries])
        return
    print_results(summaries)
    typer.echo(
        f"""
One seed and short trainings: the differences are well within the spread.
Open {page} for the whole comparison,
and {pictures[0].parent} for {len(pictures)} pictures of the nodes that were kept.

Next:
  sagpool bench quick                          two seeds, and PROTEINS as well
  sagpool bench --dataset PROTEINS --seeds 1   one seed of the paper's protocol
  sagpool bench --help                         data sets, methods, settings, searches"""
    )


def _draw(store: Path, summaries: Sequence[Summary], folder: Path) -> list[Path]:
    """A picture of each graph that is kept with a run."""
    from sagpool.explain.draw import draw

    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    with Store.reading(store) as rows:
        for summary in summaries:
            for trace in rows.traces(summary.runs[0].key):
                path = folder / f"{summary.cell.method}-{trace.number}.png"
                draw(trace).savefig(path, dpi=150, facecolor="white")
                pictures.append(path)
    return pictures
