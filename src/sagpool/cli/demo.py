"""``sagpool demo``: a short tour, from training to pictures."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sagpool.bench import Store, Summary, load_experiment, run_experiment
from sagpool.classifier import Fit, fit
from sagpool.cli.console import new_console
from sagpool.cli.fit_progress import fit_progress
from sagpool.cli.fit_results import model_files, short_lines
from sagpool.cli.live import LiveView
from sagpool.cli.options import AsJson, Force
from sagpool.cli.prediction_text import prediction_text, reasons_text
from sagpool.cli.results import print_json, print_results
from sagpool.explain.draw import draw
from sagpool.explain.explained import explain_input
from sagpool.explain.inputs import ExplainInput
from sagpool.graphs import Graphs, load
from sagpool.output_folder import OutputFolder
from sagpool.report import write_report
from sagpool.report.explorer.page import explorer_files

DATA = "MUTAG"
FOLDS = 3  # few, to be quick; `sagpool train` uses 10 for a data set of this size
NEW = 0  # number of the molecule that the model does not see in training


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path(
        "demo"
    ),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare the paper's six methods on MUTAG, then train, predict and explain."""
    store = output / "runs.sqlite"
    folder = OutputFolder(output, "demo", force=force, beside=store)
    with LiveView() as view:
        found = run_experiment(load_experiment("demo"), store=store, device="cpu", watch=view)
    summaries = found.summaries
    page = write_report(store, output, force=force)
    pictures = _draw(store, summaries, folder)
    if not as_json:
        print_results(summaries)
        typer.echo(
            f"""
With one seed and short trainings, the differences are well within the spread.
Open {page} for the whole comparison,
and {pictures[0].parent} for {len(pictures)} pictures of kept nodes.
"""
        )
    graphs = load(DATA, "all")
    fitted = _train(graphs[[n for n in range(len(graphs)) if n != NEW]], folder)
    explained = _explain(fitted, graphs[[NEW]], folder)
    folder.finish()
    if as_json:
        print_json([summary.to_json() for summary in summaries])
        return
    typer.echo("\n".join([*short_lines(fitted, output / "model"), "", *explained]))
    predict = f"sagpool predict {output / 'model'} {DATA}"
    typer.echo(
        f"""
Next:
  {predict:43s}  predictions with uncertainty, as CSV
  sagpool train molecules.csv -o model         a model for your own graphs
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
    return pictures


def _train(graphs: Graphs, folder: OutputFolder) -> Fit:
    """The model of ``sagpool train --quick``, in the folder ``model``."""
    with fit_progress(new_console(stderr=True)) as show:
        fitted = fit(
            graphs,
            search=False,
            folds=FOLDS,
            on_progress=show,
            checkpoint=lambda name: folder.reserve(f"checkpoint-{name}.npz"),
        )
    for name, content in model_files(graphs, fitted, DATA).items():
        folder.write(f"model/{name}", content)
    return fitted


def _explain(fitted: Fit, graph: Graphs, folder: OutputFolder) -> list[str]:
    """Print the prediction for one graph and its reasons, and write a page about it."""
    model = fitted.model
    explained = explain_input(model, ExplainInput(graph, 1))
    files = explorer_files(explained)
    paths = [folder.write(f"explained/{name}", content) for name, content in files.items()]
    return [
        f"Molecule {NEW + 1} of {DATA}, which the model did not see: "
        f"{prediction_text(model, model.predict_proba(graph))}.",
        *reasons_text(explained.traces[0]),
        f"Open {paths[-1]} for its picture.",
    ]
