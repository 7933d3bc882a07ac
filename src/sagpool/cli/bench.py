"""``sagpool bench``: run or resume an experiment."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from sagpool.bench.engines import Local
from sagpool.bench.engines.engine import PRECISIONS
from sagpool.bench.experiment import Experiment, Value, number
from sagpool.bench.experiment_file import load_experiment, shipped
from sagpool.bench.plan import Cell, Wishes, plan
from sagpool.bench.run import Bench, CellState, load_data, versions
from sagpool.bench.search import Search, rounds
from sagpool.bench.store import Store
from sagpool.bench.summary import Summary, summarise
from sagpool.cli.live import LiveView
from sagpool.cli.results import print_results
from sagpool.errors import SagpoolError

MANY = "Repeat the option, or put commas, for several."


def bench(
    experiment: Annotated[
        str, typer.Argument(help=f"A .yaml file, or one of {', '.join(shipped())}.")
    ] = "lee2019",
    dataset: Annotated[
        list[str] | None, typer.Option(help=f"Names, TU folders or zips. {MANY}")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help=f"Names, or patterns like 'sagpool-h*'. {MANY}")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Tables of the experiment.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds.")] = None,
    folds: Annotated[int | None, typer.Option(min=2, help="Folds of the cross-validation.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Another value for a setting, such as lr=0.005."
        ),
    ] = None,
    search: Annotated[
        Search, typer.Option(help="How settings are chosen, by validation results.")
    ] = Search.NONE,
    store: Annotated[Path, typer.Option(help="The run store.")] = Path("runs.sqlite"),
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1; auto: cuda if there is one.")] = (
        "auto"
    ),
    members: Annotated[
        int | None, typer.Option(min=1, help="Models side by side; by default, what fits.")
    ] = None,
    precision: Annotated[str, typer.Option(help=f"{' or '.join(PRECISIONS)}.")] = "float32",
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="How often a running fleet is kept on disk.")
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option(help="Only show what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Run an experiment into a run store, or what is missing of it."""
    if precision not in PRECISIONS:
        raise SagpoolError(f"--precision is {' or '.join(PRECISIONS)}, not '{precision}'.")
    description = load_experiment(experiment)
    wishes = Wishes(
        _several(dataset), _several(method), _several(table), seeds, folds, _settings(settings)
    )
    cells = plan(description, wishes, search=search is not Search.NONE)
    seeds = seeds or description.seeds
    if dry_run:
        _print_plan(description, cells, seeds, search)
        return
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    engine = Local(Path(f"{store}-checkpoints"), device, members, checkpoint_seconds)
    states, summaries = run(description, cells, seeds, store, engine, search, precision)
    if as_json:
        print(json.dumps([summary.to_json() for summary in summaries], indent=2))
    else:
        print_results(summaries)
        typer.echo(f"Next: sagpool report {shlex.quote(str(store))} -o report")
    failed = [state for state in states if state.stage == "failed"]
    if failed:
        first = failed[0]
        raise SagpoolError(
            f"{len(failed)} of {len(cells)} cells could not be run; {first.cell.method} on "
            f"{first.cell.dataset.name}: {first.reason}"
        )


def run(
    experiment: Experiment,
    cells: list[Cell],
    seeds: int,
    store_path: Path,
    engine: Local,
    search: Search = Search.NONE,
    precision: str = "float32",
) -> tuple[list[CellState], list[Summary]]:
    """Do what is missing, watched by the person; what became of the cells, and their results."""
    data = load_data(cells, experiment.statistics)
    console = Console(stderr=True)
    with Store.writing(store_path) as store, LiveView(cells, console) as view:
        command = shlex.join(["sagpool", *sys.argv[1:]])
        invocation = store.begin(command, experiment.name, engine.device, versions())
        bench = Bench(store, engine, data, seeds, search, precision, invocation, view)
        try:
            states = bench.run(cells)
        except KeyboardInterrupt:
            view.stop("Stopped. The same command goes on from here.")
            raise
        wanted = {(s.cell.method, data[s.cell.dataset.name].fingerprint) for s in states}
        summaries = [
            summary
            for summary in summarise(store)
            if summary.cell.invocation == invocation
            and (summary.cell.method, summary.cell.fingerprint) in wanted
        ]
    return states, summaries


def _several(options: list[str] | None) -> tuple[str, ...]:
    return tuple(name for option in options or () for name in option.split(",") if name)


def _settings(options: list[str] | None) -> dict[str, tuple[Value, ...]]:
    settings = {}
    for option in options or ():
        name, sign, values = option.partition("=")
        try:
            settings[name.strip()] = tuple(number(value.strip()) for value in values.split(","))
        except ValueError:
            sign = ""
        if not sign or not name:
            raise SagpoolError(f"--set takes NAME=VALUE with a number, not '{option}'.")
    return settings


def _print_plan(experiment: Experiment, cells: list[Cell], seeds: int, search: Search) -> None:
    typer.echo(f"{experiment.title}: {len(cells)} cells, {seeds} seeds, search: {search}.")
    for cell in cells:
        line = f"{cell.dataset.name} {cell.method}: {seeds * cell.default.folds} trainings"
        if search is Search.GRID:
            line += f", and {len(cell.candidates) * cell.default.folds} to choose from "
            line += f"{len(cell.candidates)} candidates"
        if search is Search.HALVING:
            line += f", after {len(rounds(cell.candidates))} rounds of halving "
            line += f"{len(cell.candidates)} candidates"
        else:
            chosen = {
                name: getattr(cell.default, name)
                for name in ("lr", "weight_decay", "hidden", "ratio")
            }
            line += "" if search is not Search.NONE else f", {chosen}"
        typer.echo(line)
