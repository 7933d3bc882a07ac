"""`run_experiment`: an experiment, from its description to its results, in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sagpool.bench.engines import Engine, Local
from sagpool.bench.engines.chunks import ATTEMPTS
from sagpool.bench.engines.cluster import connected
from sagpool.bench.experiment import Experiment
from sagpool.bench.experiment_plan import check_choice, plan_experiment
from sagpool.bench.majority import compare_with_majority
from sagpool.bench.own_methods import check_own_methods
from sagpool.bench.plan import Overrides
from sagpool.bench.provenance import code_state
from sagpool.bench.records import DeviceTime
from sagpool.bench.run import CellState, ExperimentRunner
from sagpool.bench.run_table import read_runs
from sagpool.bench.search import Search
from sagpool.bench.selection import BY_ACCURACY, Select
from sagpool.bench.store import Store
from sagpool.bench.summary import Summary, summarise
from sagpool.errors import SagpoolError
from sagpool.fleet.versions import versions
from sagpool.foreign.values import shorten
from sagpool.graphs.features import Features
from sagpool.graphs.graphs import Task
from sagpool.models import Value

ENGINES = ("local", "ray")


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """The results of `run_experiment`."""

    # Summaries of all cells with finished trainings; curves and confusion matrices are in the
    # store.
    summaries: tuple[Summary, ...]
    cells: tuple[CellState, ...]  # the final state of every cell, with its failures
    store: Path  # file with the rows of all trainings
    profile: DeviceTime | None = None  # how the device spent its time, if requested

    @property
    def failure(self) -> str:
        """What went wrong, in one sentence; empty if every training has a result."""
        failed = [state for state in self.cells if state.stage == "failed"]
        if failed:
            cell = failed[0].cell
            return (
                f"{len(failed)} of {len(self.cells)} cells could not be run; {cell.method} on "
                f"{cell.dataset.name}: {failed[0].reason}"
            )
        lost = [(state.cell, failure) for state in self.cells for failure in state.failures]
        if not lost:
            return ""
        cell, first = lost[0]
        count = "1 training" if len(lost) == 1 else f"{len(lost)} trainings"
        return (
            f"{count} failed {ATTEMPTS} times; {cell.method} on {cell.dataset.name}, "
            f"seed {first.training.seed}, fold {first.training.fold}: {first.reason}"
        )

    def __repr__(self) -> str:
        from sagpool.bench.display import result_text

        return result_text(self)

    def _repr_html_(self) -> str:
        from sagpool.bench.display import result_html

        return result_html(self)


def run_experiment(
    experiment: str | Path | Experiment = "lee2019",
    *,
    datasets: str | Sequence[str] = (),
    methods: str | Sequence[str] = (),
    tables: str | Sequence[str] = (),
    seeds: int | None = None,
    folds: int | None = None,
    settings: Mapping[str, Value | Sequence[Value]] | None = None,
    features: Features | None = None,
    split: str | Path | None = None,
    match: str | None = None,
    task: Task | None = None,
    targets: str | Sequence[str] = (),
    node_targets: str | Path | None = None,
    search: Search | str = Search.NONE,
    select: Select | str | None = None,
    select_by: str = BY_ACCURACY,
    store: str | Path = "runs.sqlite",
    device: str = "auto",
    engine: str | Engine = "local",
    address: str | None = None,
    members: int | None = None,
    precision: str = "float32",
    checkpoint_seconds: float = 60.0,
    profile: bool = False,
    command: str = "",
    watch: Callable[[CellState], None] = lambda state: None,
) -> ExperimentResult:
    """Run an experiment into a run store. Trainings that the store already has are not repeated.

    Args:
        experiment: the name of an experiment of the package, a .yaml file, or an `Experiment`
        datasets: names in the experiment, or anything that `sagpool.load` accepts; by default all
        methods: names or patterns such as ``sagpool-h*``; by default those of the experiment
        tables: tables of the experiment; by default all
        seeds: number of seeds
        folds: number of folds of the cross-validation
        settings: values by name, such as ``{"lr": 0.005, "conv": "gin"}``; several for a search. A
            setting that only some methods have applies to these methods
        features: node features of all data sets, as in `sagpool.load`; by default those of the
            experiment. The results appear under another data set name
        split: a file with the split of the one data set, see `sagpool.graphs.with_split`. The
            results appear under another data set name
        match: ``retention``: all methods get the same ratio, methods that make clusters use that
            ratio of the mean graph, and a search must have equally many candidates for
            all. Methods that still keep a different fraction of the nodes are marked in results
        task: ``classification``, ``multitask`` (several targets of 0 and 1, with gaps) or
            ``regression``; by default what the experiment says
        targets: columns with the classes or targets, if they have no standard names
        node_targets: a file with targets for the node scores of the one data set, see
            `sagpool.graphs.with_node_targets`; for methods with ``supervision``. The results
            appear under another data set name
        search: ``none``, ``grid``, ``halving`` or ``race``
        select: ``over-folds``: one choice by the mean over the folds of the first seed (in a
            race also of further seeds);
            ``per-fold``: a choice for every seed and fold by its own validation part (nested);
            ``test``: as ``over-folds``, but by test accuracy, which only an experiment that says so
            may do. By default what the experiment says, or ``over-folds``
        select_by: the validation result by which a search ranks candidates: ``accuracy``,
            ``loss``, ``balanced_accuracy``, ``roc_auc``, ``f1``, ``mcc``, ``log_loss``; of a
            regression ``rmse``, ``mae``, ``r2``. Searches that compare unfinished trainings rank
            by the accuracy, or by the loss or metric by which the trainings stop
        store: the file of the run store
        device: ``cpu``, ``cuda`` or ``cuda:1``; ``auto``: a GPU if there is one
        engine: ``local`` (this process), ``ray``, or an engine object
        address: address of the Ray cluster; by default one is started on this machine
        members: the largest number of models that train side by side; by default as many as fit
        precision: a name in `sagpool.bench.precision.PRECISIONS`
        checkpoint_seconds: time between two checkpoints of a running fleet; not with Ray
        profile: whether to record how the device spent its time; not with Ray
        command: recorded in the store
        watch: called whenever the state of a cell changes
    """
    values = {name: _as_tuple(value) for name, value in (settings or {}).items()}
    if empty := [name for name, given in values.items() if not given]:
        raise SagpoolError(f"settings: {empty[0]} has no values.")
    overrides = Overrides(
        datasets=_as_texts("datasets", datasets),
        methods=_as_texts("methods", methods),
        tables=_as_texts("tables", tables),
        seeds=seeds,
        folds=folds,
        settings=values,
        features=features,
        split=split,
        match=match,
        task=task,
        targets=_as_texts("targets", targets),
        node_targets=node_targets,
    )
    plan = plan_experiment(
        experiment,
        overrides,
        search=search,
        select=select,
        select_by=select_by,
        precision=precision,
        store=store,
    )
    check_own_methods(plan)
    if profile and engine != "local":
        raise SagpoolError("A profile is of one device, so it needs the engine 'local'.")
    with (
        _open_engine(
            engine, plan.store, device, address, members, checkpoint_seconds, profile
        ) as trainer,
        Store.writing(plan.store) as opened,
    ):
        name = plan.experiment.name
        used = versions(cell.method for cell in plan.cells) | code_state()
        command = command or f"run_experiment({name!r})"
        invocation = opened.begin(command, name, trainer.device, used)
        with _profiled(trainer, opened, invocation):
            runner = ExperimentRunner(plan, opened, trainer, invocation, watch)
            states = runner.run()
        cells = runner.as_searched(
            [cell for cell in opened.cells() if cell.invocation == invocation]
        )
        runs = read_runs(opened, {(cell.method, cell.fingerprint) for cell in cells})
        # The store may have further seeds.
        summaries = summarise(
            cells,
            runs.before_seed(plan.seeds),
            [failure for failure in opened.failures() if failure.seed < plan.seeds],
        )
        summaries = compare_with_majority(opened, summaries)
        spent = opened.profiles().get(invocation)
    return ExperimentResult(tuple(summaries), tuple(states), plan.store, spent)


@contextmanager
def _profiled(engine: Engine, store: Store, invocation: int) -> Iterator[None]:
    """Store how the time was spent, if the engine measures it, even if the run was stopped."""
    try:
        yield
    finally:
        if isinstance(engine, Local) and engine.profile.on:
            store.add_profile(invocation, DeviceTime.of(engine.profile, time.perf_counter()))


@contextmanager
def _open_engine(
    engine: str | Engine,
    store: Path,
    device: str,
    address: str | None,
    members: int | None,
    checkpoint_seconds: float,
    profile: bool,
) -> Iterator[Engine]:
    if not isinstance(engine, str):
        yield engine
        return
    check_choice("engine", engine, ENGINES)
    if engine == "local":
        if address is not None:
            raise SagpoolError("The address of a Ray cluster needs the engine 'ray'.")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        folder = Path(f"{store}-checkpoints")
        yield Local(folder, device, members, checkpoint_seconds, profile=profile)
        return
    with connected(address):
        from sagpool.bench.engines.on_ray import Ray  # optional dependency

        yield Ray(device, members)


def _as_texts(name: str, given: Any) -> tuple[str, ...]:
    """One name or path, or several of them."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    values = [*given] if several else [given]
    texts = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in values]
    for text in texts:
        if not isinstance(text, str):
            raise SagpoolError(f"{name} must be names or paths, not {shorten(text)}.")
    return tuple(texts)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
