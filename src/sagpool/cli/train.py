"""``sagpool train``: a model for one's own graphs."""

import hashlib
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from sagpool.bench.experiment import check_method, check_setting
from sagpool.classifier.fit import Fit, fit
from sagpool.classifier.model import CARD, CONFIG, WEIGHTS
from sagpool.cli.options import parse_settings
from sagpool.errors import SagpoolError
from sagpool.fleet import Progress
from sagpool.graphs.features import Features
from sagpool.graphs.load import load
from sagpool.graphs.records import Columns


def train(
    data: Annotated[
        str,
        typer.Argument(help="A .jsonl, .csv, .tsv or .sdf file, a TU folder, zip or name."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the model.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="No search: estimate and train one candidate.")
    ] = False,
    method: Annotated[
        str | None, typer.Option(help="A method by name; by default sagpool-h or sagpool-g.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Fix a setting, such as lr=0.005 or hidden=64."
        ),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Held-out parts for the estimate.")] = 10,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    features: Annotated[
        Features,
        typer.Option(help="Node features; auto: labels, or else attributes, or else degrees."),
    ] = "auto",
    smiles_column: Annotated[
        str | None, typer.Option(help="Of a table, if its name is not a usual one.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Of a table or an SDF file, likewise.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda; auto: cuda if there is one.")] = "auto",
    members: Annotated[int | None, typer.Option(min=1, help="Models side by side.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Choose a model for your graphs, estimate how well it does, and train it on all of them."""
    if method is not None:
        check_method(method)
    chosen = {}
    for name, values in parse_settings(settings).items():
        if len(values) > 1:
            raise SagpoolError(f"{name} has {len(values)} values; give one.")
        check_setting(name, values[0])
        chosen[name] = values[0]
    _check_folder(output)
    graphs = load(data, features, columns=Columns(smiles_column, label_column))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SagpoolError(f"{output} cannot be made: {error.strerror}.") from None
    # Other options begin anew, and do not stumble over what was begun with these.
    asked = json.dumps([data, method, chosen, quick, folds, seed, features])
    digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
    checkpoint = output / f"checkpoint-{digest}.npz"
    console = Console(stderr=True)
    console.print(f"{graphs!r}", highlight=False, soft_wrap=True)
    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.fields[told]}"))
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=None, told="")

        def show(progress: Progress) -> None:
            bar.update(
                task,
                completed=progress.done,
                total=progress.total,
                told=f"{progress.done}/{progress.total} trainings, "
                f"{progress.epochs_per_second:.0f} models·epochs/s",
            )

        try:
            found = fit(
                graphs,
                method=method,
                settings=chosen,
                search=not quick,
                folds=folds,
                seed=seed,
                device=device,
                members=members,
                on_progress=show,
                checkpoint=checkpoint,
            )
        except KeyboardInterrupt:
            bar.stop()
            console.print("Stopped. The same command goes on from here.", highlight=False)
            raise
    # Where the data came from, as the person wrote it.
    model = replace(found.model, about={**found.model.about, "source": data})
    model.save_pretrained(output)
    for begun in output.glob("checkpoint-*.npz"):
        begun.unlink()
    if as_json:
        print(json.dumps(_json(found), indent=2))
    else:
        _tell(found, output)


def _check_folder(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise SagpoolError(f"{output} is a file; a model needs a folder.")
    theirs = [name for name in (CONFIG, CARD) if (output / name).exists()]
    if theirs and not (output / WEIGHTS).exists():
        raise SagpoolError(f"{output} has a {theirs[0]} that is no model's; name another folder.")


def _json(found: Fit) -> dict[str, object]:
    return {
        "method": found.model.method,
        "settings": found.model.about["settings"],
        "epochs": found.model.about["epochs"],
        "candidates": len(found.candidates),
        "estimate": found.estimate.to_json(),
    }


def _tell(found: Fit, output: Path) -> None:
    estimate, chosen = found.estimate, found.chosen
    low, high = estimate.ci95
    of = f", chosen from {len(found.candidates)}" if len(found.candidates) > 1 else ""
    lines = [
        f"{chosen.method}, lr {chosen.lr:g}, hidden size {chosen.hidden}{of}",
        "",
        f"Estimate from {estimate.folds} held-out parts:",
        f"  accuracy           {estimate.accuracy:6.1%}   95 % interval {low:.1%} to {high:.1%}",
        f"  most frequent class{estimate.majority:6.1%}   what always saying it would give",
        f"  balanced accuracy  {estimate.balanced_accuracy:6.1%}",
    ]
    if estimate.auroc is not None:
        lines.append(f"  AUROC               {estimate.auroc:.3f}")
    if not estimate.better_than_majority:
        lines += [
            "",
            "Warning: the model is not shown to be better than always saying the most frequent "
            "class.",
        ]
    place = shlex.quote(str(output))
    lines += [
        "",
        f"The model, trained on all graphs, is in {output}.",
        "Next:",
        f"  sagpool predict {place} DATA",
        f"  sagpool explain {place} DATA -o pictures",
    ]
    typer.echo("\n".join(lines))
