"""``sagpool train``: a model for your own graphs."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from sagpool.bench.experiment import check_method, check_setting
from sagpool.classifier import fit
from sagpool.classifier.candidates import METHODS, Only
from sagpool.cli import options
from sagpool.cli.console import new_console
from sagpool.cli.fit_progress import fit_progress
from sagpool.cli.fit_results import fit_json, fit_lines, model_files
from sagpool.errors import SagpoolError
from sagpool.explain import explain
from sagpool.explain.explained import is_explained
from sagpool.graphs.features import Features
from sagpool.graphs.graphs import Task
from sagpool.graphs.load import load
from sagpool.models import Value, method_version
from sagpool.output_folder import OutputFolder


def train(
    data: Annotated[str, typer.Argument(help=options.DATA_HELP)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the model.")],
    task: Annotated[
        Task,
        typer.Option(help="Predict classes, several 0/1 targets (multitask), or numbers."),
    ] = "classification",
    quick: Annotated[
        bool, typer.Option("--quick", help="Simple models and one graph net, without a search.")
    ] = False,
    only: Annotated[
        Only | None, typer.Option(help="Only graph nets, or only simple models.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Try only this graph net.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Fix a setting, such as lr=0.005 or hidden=64."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Start no further model after this time; use the best so far."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, max=10**6, help="Folds of the cross-validation; by default 10 or fewer."
        ),
    ] = None,
    split: Annotated[
        Literal["random", "scaffold", "time"],
        typer.Option(
            help="How molecules are held out: scaffold keeps those of one scaffold together; time "
            "trains on the earlier molecules and predicts the latest."
        ),
    ] = "random",
    class_weight: Annotated[
        Literal["balanced"] | None,
        typer.Option(help="balanced: rare classes count as much as frequent ones."),
    ] = None,
    coverage: Annotated[
        float, typer.Option(help="How often prediction sets or intervals must contain the truth.")
    ] = 0.9,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    features: Annotated[
        Features, typer.Option(help="Node features; all: everything that is known.")
    ] = "all",
    smiles_column: options.SmilesColumn = None,
    label_column: options.LabelColumns = None,
    id_column: options.IdColumn = None,
    time_column: Annotated[
        str | None,
        typer.Option(help="Column, or SDF property, with numbers or dates, for --split time."),
    ] = None,
    device: options.Device = "auto",
    members: Annotated[
        int | None, typer.Option(min=1, max=2**20, help="Models that train side by side.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Choose a model for your graphs, estimate its accuracy, and train it on all graphs."""
    chosen = _settings(settings, method)
    if (split == "time") != (time_column is not None):
        missing = "--time-column" if split == "time" else "--split time"
        raise SagpoolError(f"--split time and --time-column need each other; add {missing}.")
    columns = options.columns_of(smiles_column, label_column, id_column)
    folder = OutputFolder(output, "train", force=force)
    graphs = load(
        data,
        features,
        columns=replace(columns, time=time_column),
        task=task,
        scaffolds=split == "scaffold",
        need_labels=True,
    )
    # Each set of options has its own checkpoint, so changed options start from the beginning.
    version = method_version(method) if method else ""
    decisive = [data, task, method, version, chosen, quick, only, folds, split, class_weight]
    key = json.dumps([*decisive, seed, features, label_column, time_column])
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    console = new_console(stderr=True)
    console.print(f"{graphs!r}", highlight=False, soft_wrap=True)
    try:
        with fit_progress(console) as show:
            fitted = fit(
                graphs,
                method=method,
                settings=chosen,
                search=not quick,
                only=only,
                folds=folds,
                seed=seed,
                minutes=minutes,
                coverage=coverage,
                class_weight=class_weight,
                device=options.device_name(device),
                members=members,
                on_progress=show,
                checkpoint=lambda name: folder.reserve(f"checkpoint-{digest}-{name}.npz"),
                keep_on_interrupt=True,
            )
    except SagpoolError:
        folder.abandon()
        raise
    for name, content in model_files(graphs, fitted, data).items():
        folder.write(name, content)
    folder.finish()  # removes the checkpoint
    if as_json:
        print(json.dumps(fit_json(fitted), indent=2))
    else:
        explained = is_explained(explain(fitted.model, graphs[[0]]))
        typer.echo("\n".join(fit_lines(fitted, output, explained=explained)))


def _settings(options_: list[str] | None, method: str | None) -> dict[str, Value]:
    """The settings of ``--set``, checked before anything is read."""
    if method is not None:
        check_method(method)
    chosen = {}
    for name, values in options.parse_settings(options_).items():
        if len(values) > 1:
            raise SagpoolError(f"{name} has {len(values)} values; give one.")
        check_setting(name, values[0], [method] if method else METHODS)
        chosen[name] = values[0]
    return chosen
