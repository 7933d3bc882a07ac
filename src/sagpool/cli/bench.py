"""``sagpool bench``: runs an experiment, or the missing part of it."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sagpool.bench import (
    Overrides,
    Search,
    Select,
    experiment_names,
    plan_experiment,
    run_experiment,
)
from sagpool.bench.against import NOTHING, compare_with
from sagpool.bench.engines import Local
from sagpool.bench.experiment import check_method, matches
from sagpool.bench.precision import PRECISIONS
from sagpool.cli.dry_run import DryRun, print_dry_run
from sagpool.cli.live import LiveView
from sagpool.cli.options import LabelColumns, device_name, parse_settings, several
from sagpool.cli.results import cells_json, print_against, print_json, print_results
from sagpool.errors import SagpoolError
from sagpool.graphs.features import Features
from sagpool.graphs.graphs import Task

REPEAT = "Repeat the option, or use commas, for several."


def bench(
    experiment: Annotated[
        str, typer.Argument(help=f"A .yaml file, or one of {', '.join(experiment_names())}.")
    ] = "lee2019",
    dataset: Annotated[
        list[str] | None, typer.Option(help=f"Names, TU folders or zips. {REPEAT}")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help=f"Names, or patterns like 'sagpool-h*'. {REPEAT}")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Tables of the experiment.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=10**6, help="Number of seeds.")] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, max=10**6, help="Folds of the cross-validation.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a setting, such as lr=0.005 or conv=gin.",
        ),
    ] = None,
    features: Annotated[
        Features | None,
        typer.Option(help="Which node features to use; by default those of the experiment."),
    ] = None,
    split: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="A fixed split: a file with the columns graph (a number) or id, and part: train, "
            "validation, or the name of a test set. Of several, 'test' is the main one, or else "
            "the first in the file.",
        ),
    ] = None,
    node_targets: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Targets for the node scores, with --set supervision=100: a file with the columns "
            "graph, node and target.",
        ),
    ] = None,
    match: Annotated[
        Literal["retention"] | None,
        typer.Option(help="Compare at the same retention of nodes and the same search budget."),
    ] = None,
    task: Annotated[
        Task | None,
        typer.Option(
            help="Predict classes, several 0/1 targets (multitask), or numbers (regression)."
        ),
    ] = None,
    label_column: LabelColumns = None,
    search: Annotated[
        Search, typer.Option(help="Choose settings from the experiment's grid.")
    ] = Search.NONE,
    select: Annotated[
        Select | None,
        typer.Option(
            help="Choose settings once, over all folds, or separately for each fold by its own "
            "validation part; by test accuracy (optimistic) only if the experiment allows it."
        ),
    ] = None,
    select_by: Annotated[
        str,
        typer.Option(
            help="The validation metric by which a search ranks candidates: accuracy, loss, "
            "roc_auc, f1, mcc, balanced_accuracy, log_loss, ..."
        ),
    ] = "accuracy",
    against: Annotated[
        str | None, typer.Option(help="Compare all other methods with this one at the end.")
    ] = None,
    store: Annotated[Path, typer.Option(help="The run store.")] = Path("runs.sqlite"),
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1; auto: a GPU if there is one.")] = (
        "auto"
    ),
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Train in this process, or in a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="Ray cluster: auto, HOST:PORT or ray://...; by default one on this machine."
        ),
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(
            min=1, max=2**20, help="Models that train side by side; by default as many as fit."
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option(help=f"{', '.join(PRECISIONS)} (the last two: matrix products on a GPU).")
    ] = "float32",
    checkpoint_seconds: Annotated[
        float,
        typer.Option(
            min=0, max=10**9, help="Seconds between checkpoints of a running fleet; not with Ray."
        ),
    ] = 60.0,
    profile: Annotated[
        bool, typer.Option(help="Record how the device spent its time; not with Ray.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Only show what would be run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Run an experiment, or the missing part of it, and store the results."""
    selection: dict[str, Any] = {
        "datasets": several(dataset),
        "methods": several(method),
        "tables": several(table),
        "seeds": seeds,
        "folds": folds,
        "settings": parse_settings(settings),
        "features": features,
        "split": split,
        "match": match,
        "task": task,
        "targets": several(label_column),
        "node_targets": node_targets,
    }
    if against:  # checked before anything is trained
        name = against.partition(",")[0]
        check_method(name)
        if method and not matches(name, several(method)):
            raise SagpoolError(f"--against {name} needs {name} among the methods of this command.")
    options: dict[str, Any] = {
        "search": search,
        "select": select,
        "select_by": select_by,
        "precision": precision,
        "store": store,
    }
    if dry_run:
        plan = plan_experiment(experiment, Overrides(**selection), **options)
        found = DryRun.of(plan, Local(store, device_name(device)).device)
        print_json(found.rows) if as_json else print_dry_run(found)
        return
    with LiveView() as view:
        result = run_experiment(
            experiment,
            **selection,
            **options,
            device=device,
            engine=engine,
            address=address,
            members=members,
            checkpoint_seconds=checkpoint_seconds,
            profile=profile,
            command=shlex.join(["sagpool", *sys.argv[1:]]),
            watch=view,
        )
    compared = compare_with(result.summaries, against) if against else []
    if as_json:
        print_json(cells_json(result.summaries, compared))
    else:
        print_results(result.summaries)
        print_against(compared)
        if result.profile:
            typer.echo(str(result.profile))
        typer.echo(f"Next: sagpool report {shlex.quote(str(result.store))} -o report")
    if against and not compared:
        typer.echo(NOTHING.format(reference=against), err=True)
    if result.failure:
        raise SagpoolError(result.failure)
