"""``sagpool train``: a model for your own graphs."""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from sagpool.bench.experiment import check_method, check_setting
from sagpool.classifier import Fit, FitProgress, fit
from sagpool.classifier.candidates import METHODS
from sagpool.classifier.folder import files_of
from sagpool.cli import options
from sagpool.cli.console import new_console
from sagpool.errors import SagpoolError
from sagpool.graphs.features import Features
from sagpool.graphs.load import load
from sagpool.graphs.records import Columns
from sagpool.models import method_version
from sagpool.output_folder import OutputFolder


def train(
    data: Annotated[str, typer.Argument(help=options.DATA_HELP)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the model.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="No search: estimate and train one candidate.")
    ] = False,
    method: Annotated[
        str | None, typer.Option(help="Name of a method; by default sagpool-h or sagpool-g.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Fix a setting, such as lr=0.005 or hidden=64."
        ),
    ] = None,
    folds: Annotated[
        int, typer.Option(min=2, max=10**6, help="Folds of the cross-validation.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    features: Annotated[
        Features,
        typer.Option(help="Node features; auto: labels, or else attributes, or else degrees."),
    ] = "auto",
    smiles_column: options.SmilesColumn = None,
    label_column: options.LabelColumn = None,
    device: options.Device = "auto",
    members: Annotated[
        int | None, typer.Option(min=1, max=2**20, help="Models side by side.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Choose a model for your graphs, estimate its accuracy, and train it on all graphs."""
    if method is not None:
        check_method(method)
    chosen = {}
    for name, values in options.parse_settings(settings).items():
        if len(values) > 1:
            raise SagpoolError(f"{name} has {len(values)} values; give one.")
        check_setting(name, values[0], [method] if method else METHODS)
        chosen[name] = values[0]
    folder = OutputFolder(output, "train", force=force)
    graphs = load(data, features, columns=Columns(smiles_column, label_column))
    # Each set of options has its own checkpoint, so that changed options start from the beginning.
    version = method_version(method) if method else ""
    key = json.dumps([data, method, version, chosen, quick, folds, seed, features])
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    console = new_console(stderr=True)
    console.print(f"{graphs!r}", highlight=False, soft_wrap=True)
    with _progress_bar(console) as show:
        fitted = fit(
            graphs,
            method=method,
            settings=chosen,
            search=not quick,
            folds=folds,
            seed=seed,
            device=options.device_name(device),
            members=members,
            on_progress=show,
            checkpoint=lambda name: folder.reserve(f"checkpoint-{digest}-{name}.npz"),
        )
    model = replace(fitted.model, about={**fitted.model.about, "source": data})
    for name, content in files_of(model).items():
        folder.write(name, content)
    folder.finish()  # removes the checkpoint
    if as_json:
        print(json.dumps(_json(fitted), indent=2))
    else:
        _print(fitted, output)


@contextmanager
def _progress_bar(console: Console) -> Iterator[Callable[[FitProgress], None]]:
    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.fields[status]}"))
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=1.0, status="")

        def show(progress: FitProgress) -> None:
            left = progress.seconds_left
            status = progress.stage + (f", {left:.0f} s left" if left is not None else "")
            bar.update(task, completed=progress.fraction, status=status)

        try:
            yield show
        except KeyboardInterrupt:
            bar.stop()
            console.print("Stopped. Run the same command again to continue.", highlight=False)
            raise


def _json(fitted: Fit) -> dict[str, object]:
    return {
        "model": fitted.model.name,
        "mixture": list(fitted.model.mixture),
        "settings": fitted.model.about["settings"],
        "leaderboard": fitted.model.about["leaderboard"],
        "estimate": fitted.estimate.to_json(),
    }


def _print(fitted: Fit, output: Path) -> None:
    estimate = fitted.estimate
    low, high = estimate.ci95
    count = len(fitted.leaderboard)
    lines = [
        fitted.model.name + (f", chosen from {count} candidates" if count > 1 else ""),
        *(
            f"  {row.name:30s} accuracy {row.score:6.1%}   log loss {row.loss:.4f}   "
            f"weight {row.weight:4.2f}   {row.seconds:.0f} s"
            for row in fitted.leaderboard
        ),
        "",
        f"Estimate from {estimate.folds}-fold cross-validation:",
        f"  accuracy           {estimate.accuracy:6.1%}   95 % interval {low:.1%} to {high:.1%}",
        f"  most frequent class{estimate.majority:6.1%}   accuracy of always predicting it",
        f"  balanced accuracy  {estimate.balanced_accuracy:6.1%}",
    ]
    if estimate.auroc is not None:
        lines.append(f"  AUROC               {estimate.auroc:.3f}")
    if not estimate.better_than_majority:
        lines += [
            "",
            "Warning: the model is not shown to be better than always predicting the most "
            "frequent class.",
        ]
    folder = shlex.quote(str(output))
    lines += [
        "",
        f"The model, trained on all graphs, is in {output}.",
        "Next:",
        f"  sagpool predict {folder} DATA",
        f"  sagpool explain {folder} DATA -o pictures",
    ]
    typer.echo("\n".join(lines))
