"""How long an experiment takes on a device, estimated before it is run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sagpool.bench.experiment_plan import ExperimentPlan
from sagpool.bench.plan import METHOD_VERSION, Cell, training_of
from sagpool.bench.precision import PRECISIONS
from sagpool.bench.records import Trained
from sagpool.bench.replay import StoredCell, search_program
from sagpool.bench.run_table import Group, RunTable, read_runs
from sagpool.bench.search import Search
from sagpool.bench.selection import Select
from sagpool.bench.store import Store
from sagpool.bench.workload import (
    Epochs,
    bytes_per_epoch,
    chance,
    expected_epochs,
    reference_figures,
    steps_per_epoch,
)
from sagpool.errors import SagpoolError
from sagpool.fleet import NUMERICS, MemoryShortageError, Training
from sagpool.foreign.values import shorten
from sagpool.models import method_version

# Shorter invocations say little about the speed of a device.
LONG_ENOUGH_SECONDS = 30


class CellTime(NamedTuple):
    """Seconds on the device; None if one model does not fit into the memory of this machine."""

    search: float | None
    training: float | None

    @property
    def total(self) -> float | None:
        known = self.search is not None and self.training is not None
        return self.search + self.training if known else None  # type: ignore[operator]


class TimeEstimate(NamedTuple):
    """Of the cells of a plan, in their order."""

    device: str
    measured: bool  # by earlier invocations in the run store, rather than by packaged figures
    cells: tuple[CellTime, ...]

    @property
    def seconds(self) -> float:
        """Of all cells that have an estimate."""
        return sum(cell.total or 0.0 for cell in self.cells)


def estimate_time(
    plan: ExperimentPlan, device: str, cells: Sequence[StoredCell] | None = None
) -> TimeEstimate:
    """How long what is missing of the plan takes on the device with this name.

    If neither the run store nor the package knows the device, the packaged device is used.

    Args:
        plan: what would be run
        device: its name
        cells: the result of `ExperimentPlan.stored`, if it is known already
    """
    planned = {(cell.method, plan.data[cell.dataset.name].fingerprint) for cell in plan.cells}
    runs, trained, started = None, list[Trained](), dict[int, datetime]()
    if plan.store.exists():
        with Store.reading(plan.store) as store:
            runs, trained = read_runs(store, planned), store.trained()
            started = {
                one.id: _moment(one.started, store.path)
                for one in store.invocations()
                if one.device == device
            }
    pairs = zip(plan.cells, plan.stored() if cells is None else cells, strict=True)
    workloads = [_Workload.of(plan, cell, runs, found) for cell, found in pairs]
    figures = reference_figures()
    other = {one.invocation for one in trained if not any(_is_of(one, *cell) for cell in planned)}
    comparable = {number: start for number, start in started.items() if number not in other}
    ended = dict[int, datetime]()
    for one in trained:
        at = _moment(one.finished, plan.store)
        ended[one.invocation] = max(at, ended.get(one.invocation, at))
    rate = _measured_rate(workloads, comparable, ended)
    measured, step = rate is not None, 0.0
    if rate is None:
        rate, step = figures["bytes_per_second"], figures["seconds_per_step"]
        device = figures["device"]
    return TimeEstimate(device, measured, tuple(one.time(rate, step) for one in workloads))


def _moment(text: str, store: Path) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SagpoolError(f"{store} has a time that cannot be read: {shorten(text)}.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class _Work(NamedTuple):
    bytes: float  # of all steps
    steps: float  # of the longest training, which follow each other

    def seconds(self, rate: float, step: float) -> float:
        """With this many bytes per second, and at least so many seconds for a step."""
        return max(self.bytes / rate, self.steps * step)


class _Workload(NamedTuple):
    """The training steps of a cell."""

    search: _Work | None
    training: _Work | None
    runs: dict[int, float]  # bytes of stored runs, by invocation
    slowness: float  # of the method: how many times as long its bytes take as those of others

    @staticmethod
    def of(plan: ExperimentPlan, cell: Cell, runs: RunTable | None, found: StoredCell) -> _Workload:
        data, dtype = plan.data[cell.dataset.name], PRECISIONS[plan.precision].dtype
        here = runs and runs.of_groups(lambda group: _is_of(group, cell.method, data.fingerprint))
        slowness = 1 / reference_figures()["methods"].get(cell.method, 1.0)
        epochs = Epochs.of(cell.dataset.name, cell.method, here)
        candidates = cell.candidates if plan.search is not Search.NONE else (cell.default,)
        stored = {
            _template(training_of(group.method, group.settings)): some
            for group, some in (here.by_group if here else ())
            if group.precision == plan.precision
        }
        splits = {
            template: set(
                zip(*(some.column(name).tolist() for name in ("seed", "fold")), strict=True)
            )
            for template, some in stored.items()
        }
        sizes = dict[Training, float]()
        with suppress(MemoryShortageError):
            sizes = bytes_per_epoch(data.graphs, stored.keys() | set(candidates), dtype)
        if not sizes:
            return _Workload(None, None, {}, slowness)
        steps = {template: steps_per_epoch(data.graphs, template) for template in sizes}
        reached = found.search.reached if found.search else {}

        def work(asked: Iterable[tuple[Training, float]]) -> _Work:
            """Of the epochs that are missing up to these."""
            missing = [
                (template, max(0.0, until - reached.get(training, 0.0)))
                for training, until in asked
                if (training.seed, training.fold)
                not in splits.get(template := _template(training), ())
            ]
            return _Work(
                sum(sizes[one] * count for one, count in missing),
                max((steps[one] * count for one, count in missing), default=0.0),
            )

        searching = _Work(0.0, 0.0)
        if found.final is not None:
            training = work((one, epochs(one)) for one in found.final)
        else:
            known = found.search.results if found.search else ()
            searching = work(expected_epochs(search_program(plan, cell), epochs, known).items())
            # Every candidate may be chosen. Its trainings with the first seed (or all, if chosen
            # per fold) are part of the search.
            seeds = range(1, 1 if plan.select is Select.PER_FOLD else plan.seeds)
            missing = [
                len(seeds) * one.folds - sum(seed in seeds for seed, _ in splits.get(one, ()))
                for one in candidates
            ]
            every = [
                (sizes[one] * epochs(one) * count, steps[one] * epochs(one) * bool(count))
                for one, count in zip(candidates, missing, strict=True)
            ]
            weights = [chance(one) for one in candidates]
            training = _Work(*np.average(every, axis=0, weights=weights).tolist())
        trained = defaultdict[int, float](float)
        for template, some in stored.items():
            numbers, epochs_of = some.column("invocation"), some.column("epochs")
            for number in np.unique(numbers).tolist():
                trained[number] += sizes[template] * float(epochs_of[numbers == number].sum())
        return _Workload(searching, training, dict(trained), slowness)

    def time(self, rate: float, step: float) -> CellTime:
        if self.search is None or self.training is None:
            return CellTime(None, None)
        rate /= self.slowness
        return CellTime(self.search.seconds(rate, step), self.training.seconds(rate, step))


def _is_of(runs: Group | Trained, method: str, fingerprint: str) -> bool:
    """Whether the runs are those of this method, as it is now, on these graphs."""
    state = (runs.method, runs.fingerprint, runs.numerics, runs.settings.get(METHOD_VERSION, ""))
    return state == (method, fingerprint, NUMERICS, method_version(method))


def _template(training: Training) -> Training:
    return replace(training, seed=0, fold=0)


def _measured_rate(
    workloads: Sequence[_Workload], started: dict[int, datetime], ended: dict[int, datetime]
) -> float | None:
    """Bytes per second of invocations, from their start to their last result; None if unknown."""
    work, seconds = 0.0, 0.0
    for number, start in started.items():
        took = (ended.get(number, start) - start).total_seconds()
        if took >= LONG_ENOUGH_SECONDS:
            seconds += took
            work += sum(one.runs.get(number, 0.0) * one.slowness for one in workloads)
    return work / seconds if work else None
