"""The cells that an experiment would run, with the data loaded and everything checked."""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from sagpool.bench.experiment import Experiment
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.plan import Cell, Overrides, plan, repeat, run_key
from sagpool.bench.precision import PRECISIONS
from sagpool.bench.predictions import METRICS
from sagpool.bench.racing import most_seeds
from sagpool.bench.ranked_by import check_defined
from sagpool.bench.replay import StoredCell, stored_cell
from sagpool.bench.search import Search, count_trainings
from sagpool.bench.selection import BY_ACCURACY, Select
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.fleet.defined_metrics import check_stopping
from sagpool.fleet.schedule import group_by_shape
from sagpool.fleet.stopping import RULES
from sagpool.fleet.training import OPTIONS
from sagpool.fleet.validation_metrics import REGRESSION_METRICS
from sagpool.foreign.limits import TRAININGS
from sagpool.foreign.values import shorten
from sagpool.graphs import Graphs, load, with_node_targets, with_split
from sagpool.graphs.features import Features, unit_rows
from sagpool.graphs.graphs import Task
from sagpool.graphs.records import Columns

log = logging.getLogger("sagpool")


@dataclass(frozen=True)
class FingerprintedGraphs:
    """A data set with a hash of its content, which is slow to compute."""

    graphs: Graphs
    fingerprint: str
    different: bool = False  # whether its statistics are not the published ones


@dataclass(frozen=True, eq=False)
class ExperimentPlan:
    """The cells that `run_experiment` would run, with the data loaded and everything checked."""

    experiment: Experiment
    cells: tuple[Cell, ...]
    data: Mapping[str, FingerprintedGraphs]
    seeds: int
    search: Search
    select: Select
    precision: str
    store: Path
    match: str | None = None  # property that all methods have in common
    select_by: str = BY_ACCURACY  # the validation result by which a search ranks candidates

    def keys(self, cell: Cell, trainings: Iterable[Training]) -> list[str]:
        """The keys of trainings in the store."""
        data = self.data[cell.dataset.name]
        return [
            run_key(data.graphs, data.fingerprint, training, self.precision)
            for training in trainings
        ]

    def stored(self) -> tuple[StoredCell, ...]:
        """What the store has of each cell."""
        if not self.store.exists():
            return tuple(stored_cell(self, cell, None) for cell in self.cells)
        with Store.reading(self.store) as store:
            return tuple(stored_cell(self, cell, store) for cell in self.cells)

    def describe(self, stored: Sequence[StoredCell] | None = None) -> list[dict[str, Any]]:
        """One row per cell: how many trainings it has, and how many of them are stored.

        Args:
            stored: the result of `stored`, if it is known already
        """
        pairs = zip(self.cells, self.stored() if stored is None else stored, strict=True)
        return [self._row(cell, found) for cell, found in pairs]

    def _row(self, cell: Cell, found: StoredCell) -> dict[str, Any]:
        trainings = self.seeds * cell.default.folds
        row = {"dataset": cell.dataset.name, "method": cell.method, "trainings": trainings}
        row |= {"stored": found.stored}
        if found.search is not None:
            chosen = found.final is not None
            if chosen:
                searching = found.search.begun
            elif self.select is Select.PER_FOLD:
                searching = len(cell.candidates) * trainings
            else:
                searching = count_trainings(self.search, cell.candidates)
            row |= {"candidates": len(cell.candidates), "search": searching}
            row |= {"search_stored": found.search.stored, "chosen": chosen}
        if found.final is not None and self.select is not Select.PER_FOLD:
            row |= _main_settings(found.final[0])
        return row


def _main_settings(training: Training) -> dict[str, Any]:
    """Those that most experiments vary, options other than the defaults, and the method's own."""
    names, every = ("lr", "weight_decay", "hidden", "ratio"), training.to_dict()
    return {
        **{name: getattr(training, name) for name in names},
        **{name: every[name] for name in OPTIONS if name in every},
        **dict(training.method_settings),
    }


def plan_experiment(
    experiment: str | Path | Experiment = "lee2019",
    overrides: Overrides = Overrides(),
    *,
    search: Search | str = Search.NONE,
    select: Select | str | None = None,
    select_by: str = BY_ACCURACY,
    precision: str = "float32",
    store: str | Path = "runs.sqlite",
) -> ExperimentPlan:
    """Read the experiment, load its data and check everything; see `run_experiment`."""
    check_choice("precision", precision, tuple(PRECISIONS))
    check_choice("search", search, tuple(Search))
    if select is not None:
        check_choice("select", select, tuple(Select))
    search = Search(search)
    if overrides.features is not None:
        check_choice("features", overrides.features, get_args(Features))
    if overrides.task is not None:
        check_choice("task", overrides.task, get_args(Task))
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment)
    select = _selection(select, search, experiment)
    seeds = experiment.seeds if overrides.seeds is None else _whole("seeds", overrides.seeds)
    cells = tuple(plan(experiment, overrides, search=search is not Search.NONE))
    path = Path(store)
    for cell in cells:
        number = seeds * max(one.folds for one in (cell.default, *cell.candidates))
        TRAININGS.check(number, f"{cell.dataset.name} {cell.method}")
    data = _load_data(cells, experiment.statistics)
    path = path.resolve() if path.is_symlink() else path
    _check_select_by(select_by, search, select)
    _check_metric(select_by, data)
    for cell in cells:
        most = most_seeds(cell.candidates) if search is Search.RACE else 1
        _check_stopping(data[cell.dataset.name].graphs, cell, max(seeds, most))
    if search in (Search.HALVING, Search.RACE):
        _check_unfinished(select_by, search, cells, data)
    if select_by != BY_ACCURACY:
        _check_defined(select_by, cells, data, seeds, per_fold=select is Select.PER_FOLD)
    choices = (search, select, precision, path, overrides.match, select_by)
    return ExperimentPlan(experiment, cells, data, seeds, *choices)


def _whole(name: str, given: Any) -> int:
    try:
        found = operator.index(given)
    except TypeError:
        raise SagpoolError(f"{name} must be a whole number, not {shorten(given)}.") from None
    if found < 1:
        raise SagpoolError(f"{name} must be at least 1, not {found}.")
    return found


def _selection(select: str | None, search: Search, experiment: Experiment) -> Select:
    """How the search chooses: as requested, or as the experiment says."""
    usual = experiment.select if search is not Search.NONE else Select.OVER_FOLDS
    chosen = usual if select is None else Select(select)
    if chosen is Select.TEST:
        if experiment.select is not Select.TEST:
            raise SagpoolError(
                "Choosing settings by test accuracy gives optimistic figures; only an experiment "
                f"with 'select: test' in its protocol may do so, and {experiment.name} has none."
            )
        if search is not Search.GRID:
            raise SagpoolError(
                f"{experiment.name} chooses settings by test accuracy, which is known at the end "
                "of a training; search by grid, or select over-folds or per-fold."
            )
    if chosen is Select.PER_FOLD and search is Search.NONE:
        raise SagpoolError("Settings can only be selected per fold by a search: grid or halving.")
    if chosen is Select.PER_FOLD and search is Search.RACE:
        raise SagpoolError(
            "A race compares candidates over the folds, so it cannot select per fold; search by "
            "grid or halving."
        )
    return chosen


def _check_select_by(metric: str, search: Search, select: Select) -> None:
    if metric == BY_ACCURACY:
        return
    check_choice("select-by", metric, (BY_ACCURACY, "loss", *METRICS[1:], *REGRESSION_METRICS))
    if search is Search.NONE:
        raise SagpoolError(f"Settings can only be selected by {metric} in a search.")
    if select is Select.TEST:
        raise SagpoolError("A search by test results can only select by accuracy.")


def _check_unfinished(
    metric: str, search: Search, cells: Iterable[Cell], data: Mapping[str, FingerprintedGraphs]
) -> None:
    """Refuse a metric that is unknown for unfinished trainings.

    For a paused training the curve is known, but no predictions; the curve has the accuracy and
    the value by which the training stops.
    """
    for cell in cells:
        stopping = cell.default.stopping
        regression = data[cell.dataset.name].graphs.task == "regression"
        ranking = "loss" if regression and metric == BY_ACCURACY else metric
        if ranking not in (BY_ACCURACY, stopping):
            possible = {
                f"--set stopping={ranking}": ranking in RULES,
                f"--select-by {stopping}": not RULES[stopping].adds_norm,
            }
            options = " or ".join(option for option, works in possible.items() if works)
            advice = f"use {options}, or search by grid" if options else "search by grid"
            raise SagpoolError(
                f"A {search} compares unfinished trainings, by accuracy or by what they stop by, "
                f"which is not the {ranking} here; {advice}."
            )


def _check_metric(metric: str, data: Mapping[str, FingerprintedGraphs]) -> None:
    for one in data.values():
        known = REGRESSION_METRICS if one.graphs.task == "regression" else METRICS
        if metric not in (BY_ACCURACY, "loss", *known):
            raise SagpoolError(
                f"{one.graphs.name} is a {one.graphs.task}, in which settings cannot be selected "
                f"by {metric}; choose from loss, {', '.join(known)}."
            )


def _check_defined(
    metric: str,
    cells: Iterable[Cell],
    data: Mapping[str, FingerprintedGraphs],
    seeds: int,
    *,
    per_fold: bool,
) -> None:
    """Check the metric on the splits of the searches, once for all methods that share them."""
    searches = {
        (cell.dataset.name, one.split, one.folds, one.validation): one
        for cell in cells
        for one in cell.candidates[:1]
    }
    for (name, *_), one in searches.items():
        splits = repeat(one, seeds if per_fold else 1)
        check_defined(metric, data[name].graphs, splits, per_fold=per_fold)


def _check_stopping(graphs: Graphs, cell: Cell, seeds: int) -> None:
    """Refuse a metric for stopping that some validation part of the cell does not define."""
    for one in {one.stopping: one for one in (cell.default, *cell.candidates)}.values():
        if RULES[one.stopping].metric:
            check_stopping(graphs, repeat(one, seeds))


def check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise SagpoolError(f"{name} must be one of {', '.join(known)}, not '{value}'.")


def _load_data(
    cells: Iterable[Cell], published: Mapping[str, Mapping[str, float]]
) -> dict[str, FingerprintedGraphs]:
    """Load the data sets of the cells, by name, and check that all trainings are possible."""
    data: dict[str, FingerprintedGraphs] = {}
    for cell in cells:
        name = cell.dataset.name
        if name not in data:
            own = cell.dataset
            named = own.targets[0] if len(own.targets) == 1 else own.targets or None
            graphs = load(own.source, own.features, columns=Columns(label=named), task=own.task)
            graphs = unit_rows(graphs) if cell.dataset.normalise == "l2" else graphs
            if cell.dataset.split is not None:
                graphs = with_split(graphs, cell.dataset.split)
            elif graphs.part is not None and cell.default.split != "fixed":
                log.warning("%s comes with a split; --set split=fixed uses it.", name)
            if cell.dataset.node_targets is not None:
                graphs = with_node_targets(graphs, cell.dataset.node_targets)
            # Those of other targets are not compared with the paper anyway.
            usual = own.task == "classification" and not own.targets
            known = published.get(own.name_in_experiment, {}) if usual else {}
            different = _compare_statistics(graphs, known)
            data[name] = FingerprintedGraphs(graphs, graphs.fingerprint(), different)
        group_by_shape(data[name].graphs, [cell.default, *cell.candidates])
    return data


def _compare_statistics(graphs: Graphs, published: Mapping[str, float]) -> bool:
    """Whether the graphs differ from the published ones; warns if they do."""
    ours = vars(graphs.statistics())
    different = [
        f"{name} is {round(ours[name], 2):g}, not {theirs:g}"
        for name, theirs in published.items()
        if round(ours[name], 2) != theirs
    ]
    if different:
        log.warning(
            "%s is not the paper's data set, so it is not compared with the paper: %s.",
            *(graphs.name, "; ".join(different)),
        )
    return bool(different)
