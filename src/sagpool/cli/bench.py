"""``sagpool bench``: run or resume an experiment."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from sagpool.bench.engines import Engine, Local
from sagpool.bench.engines.chunks import TRIES
from sagpool.bench.engines.cluster import connected
from sagpool.bench.experiment import Experiment
from sagpool.bench.experiment_file import load_experiment, shipped
from sagpool.bench.plan import Cell, Overrides, plan
from sagpool.bench.precision import PRECISIONS
from sagpool.bench.run import Bench, CellState, Loaded, load_data, versions
from sagpool.bench.search import Search
from sagpool.bench.store import Store
from sagpool.bench.summary import Summary, summarise
from sagpool.cli.dry_run import show_plan
from sagpool.cli.live import LiveView
from sagpool.cli.options import parse_settings, several
from sagpool.cli.results import print_json, print_results
from sagpool.errors import SagpoolError


class Where(StrEnum):
    LOCAL = "local"
    RAY = "ray"


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
    engine: Annotated[
        Where, typer.Option(help="This process, or the machines of a Ray cluster.")
    ] = Where.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster: auto, HOST:PORT, ray://...; or this machine alone."),
    ] = None,
    members: Annotated[
        int | None, typer.Option(min=1, help="Models side by side; by default, what fits.")
    ] = None,
    precision: Annotated[
        str, typer.Option(help=f"{', '.join(PRECISIONS)} (the last two: of products on a GPU).")
    ] = "float32",
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="How often a running fleet is kept on disk; not with Ray.")
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option(help="Only show what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Run an experiment into a run store, or what is missing of it."""
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise SagpoolError(f"--precision is one of {known}, not '{precision}'.")
    description = load_experiment(experiment)
    overrides = Overrides(
        several(dataset), several(method), several(table), seeds, folds, parse_settings(settings)
    )
    cells = plan(description, overrides, search=search is not Search.NONE)
    seeds = seeds or description.seeds
    data = load_data(cells, description.statistics)
    if store.is_symlink():
        store = store.resolve()
    if dry_run:
        show_plan(description, cells, data, seeds, search, precision, store, as_json=as_json)
        return
    with engine_of(engine, address, store, device, members, checkpoint_seconds) as trainer:
        states, summaries = run(description, cells, data, seeds, store, trainer, search, precision)
    if as_json:
        print_json([summary.to_json() for summary in summaries])
    else:
        print_results(summaries)
        typer.echo(f"Next: sagpool report {shlex.quote(str(store))} -o report")
    _tell_failures(states)


def _tell_failures(states: list[CellState]) -> None:
    failed = [state for state in states if state.stage == "failed"]
    if failed:
        first = failed[0]
        raise SagpoolError(
            f"{len(failed)} of {len(states)} cells could not be run; {first.cell.method} on "
            f"{first.cell.dataset.name}: {first.reason}"
        )
    lost = [(state.cell, one) for state in states for one in state.lost]
    if lost:
        cell, one = lost[0]
        count = "1 training" if len(lost) == 1 else f"{len(lost)} trainings"
        raise SagpoolError(
            f"{count} failed {TRIES} times and came to nothing; {cell.method} on "
            f"{cell.dataset.name}, seed {one.training.seed}, fold {one.training.fold}: {one.reason}"
        )


@contextmanager
def engine_of(
    where: Where,
    address: str | None,
    store: Path,
    device: str,
    members: int | None,
    checkpoint_seconds: float,
) -> Iterator[Engine]:
    """The engine that was asked for."""
    if where is Where.LOCAL:
        if address is not None:
            raise SagpoolError("--address is that of a Ray cluster: it goes with --engine ray.")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        yield Local(Path(f"{store}-checkpoints"), device, members, checkpoint_seconds)
        return
    with connected(address):
        from sagpool.bench.engines.on_ray import Ray  # not everybody has it

        yield Ray(device, members)


def run(
    experiment: Experiment,
    cells: list[Cell],
    data: Mapping[str, Loaded],
    seeds: int,
    store_path: Path,
    engine: Engine,
    search: Search = Search.NONE,
    precision: str = "float32",
) -> tuple[list[CellState], list[Summary]]:
    """Do what is missing, watched by the person; what became of the cells, and their results."""
    console = Console(stderr=True)
    with Store.writing(store_path) as store, LiveView(cells, console) as view:
        command = shlex.join(["sagpool", *sys.argv[1:]])
        invocation = store.begin(command, experiment.name, engine.device, versions())
        bench = Bench(
            *(store, engine, data, seeds, search, precision, invocation, view),
            experiment.feature_kinds,
        )
        try:
            states = bench.run(cells)
        except KeyboardInterrupt:
            view.stop("Stopped. The same command goes on from here.")
            raise
        # Of these seeds alone: the store may have more.
        asked = [cell for cell in store.cells() if cell.invocation == invocation]
        runs = [run for run in store.runs() if run.seed < seeds]
        failures = [failure for failure in store.failures() if failure.seed < seeds]
    return states, summarise(asked, runs, failures)
