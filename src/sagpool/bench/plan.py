"""From an experiment and overrides to cells and their trainings."""

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sagpool.bench.experiment import (
    Accuracy,
    DataSet,
    Experiment,
    check_method,
    check_setting,
    has_setting,
    matches,
)
from sagpool.bench.retention import matched_settings
from sagpool.errors import SagpoolError
from sagpool.fleet import NUMERICS, Training
from sagpool.fleet.training import PROTOCOL
from sagpool.foreign.limits import CANDIDATES
from sagpool.graphs import Graphs
from sagpool.graphs.features import Features
from sagpool.graphs.graphs import Task
from sagpool.graphs.named_datasets import ALIASES
from sagpool.models import Value, method_version, methods
from sagpool.models.registry import suggestion

# Key in the settings of a stored run, if the method has a version.
METHOD_VERSION = "method_version"


@dataclass(frozen=True)
class Overrides:
    """Changes to an experiment; empty fields change nothing."""

    datasets: tuple[str, ...] = ()  # names in the experiment, or anything that `load` accepts
    methods: tuple[str, ...] = ()  # names or patterns, such as ``sagpool-h*``
    tables: tuple[str, ...] = ()  # names in the experiment
    seeds: int | None = None
    folds: int | None = None
    # Several values for a search.
    settings: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    features: Features | None = None  # node features of all data sets
    split: str | Path | None = None  # file that assigns graphs to parts, for a single data set
    match: str | None = None  # property that all methods must have in common: ``retention``
    task: Task | None = None  # task of all data sets
    targets: tuple[str, ...] = ()  # columns with the classes or targets
    node_targets: str | Path | None = None  # file with node targets, for a single data set


@dataclass(frozen=True)
class Cell:
    """One method on one data set; its trainings are for seed 0 and fold 0."""

    dataset: DataSet
    method: str
    default: Training  # settings without a search
    candidates: tuple[Training, ...]  # settings that a search tries
    published: Accuracy | None
    # Published results in the tests of a fixed split, by name.
    published_tests: tuple[tuple[str, Accuracy], ...] = ()


def plan(experiment: Experiment, overrides: Overrides, *, search: bool) -> list[Cell]:
    """The chosen cells of the experiment, grouped by data set."""
    pairs = _pairs(experiment, overrides)
    for file, what in ((overrides.split, "a split"), (overrides.node_targets, "node targets")):
        if file is not None and len({dataset for dataset, _ in pairs}) > 1:
            raise SagpoolError(f"A file with {what} is for one data set; choose one (--dataset).")
    chosen = list(dict.fromkeys(method for _, method in pairs))
    for name, values in overrides.settings.items():
        if len(values) > 1 and name in PROTOCOL:
            raise SagpoolError(f"{name} is part of the protocol, not of a search; give one value.")
        if len(values) > 1 and not search:
            raise SagpoolError(f"{name} has {len(values)} values; give one, or use a search.")
        for value in values:
            check_setting(name, value, chosen)
    if overrides.match is not None:
        overrides = _matched(experiment, overrides, pairs)
    cells = [_cell(experiment, overrides, dataset, method) for dataset, method in pairs]
    if overrides.match is not None and search:
        _check_budgets(cells)
    if overrides.node_targets is not None and not any(map(_supervised, cells)):
        raise SagpoolError(
            "No method of this command learns from node targets; add --set supervision=100 and a "
            "method that has it, such as sagpool-g-ratio."
        )
    return cells


def _supervised(cell: Cell) -> bool:
    trainings = (cell.default, *cell.candidates)
    return any(dict(one.method_settings).get("supervision") for one in trainings)


def _matched(
    experiment: Experiment, overrides: Overrides, pairs: list[tuple[DataSet, str]]
) -> Overrides:
    """The cells with one ratio for all methods."""
    if overrides.match != "retention":
        raise SagpoolError(f"Methods can be matched by retention, not by '{overrides.match}'.")
    found = overrides.settings.get("ratio") or tuple(
        dict.fromkeys(
            experiment.settings_of(dataset.name_in_experiment, method).get("ratio", Training.ratio)
            for dataset, method in pairs
        )
    )
    if len(found) > 1:
        raise SagpoolError(
            f"The same retention needs one ratio, not {', '.join(map(str, found))}: --set ratio=..."
        )
    return replace(overrides, settings={**overrides.settings, "ratio": found})


def _check_budgets(cells: list[Cell]) -> None:
    """Refuse a matched comparison in which methods have different numbers of candidates."""
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        counts = {cell.method: len(cell.candidates) for cell in cells if cell.dataset == dataset}
        (most, large), (least, small) = (
            choice(counts.items(), key=lambda item: item[1]) for choice in (max, min)
        )
        if large != small:
            raise SagpoolError(
                f"Matched methods need the same search budget, but on {dataset.name} {most} has "
                f"{large} candidates and {least} {small}; give one value to settings that only "
                "some methods have."
            )


def repeat(template: Training, seeds: int, folds: int | None = None) -> list[Training]:
    """The training with every seed and fold, or with only the first folds of each seed."""
    first = replace(template, seed=0, fold=0)
    return [
        first.repeated(seed, fold)
        for seed in range(seeds)
        for fold in range(folds or template.folds)
    ]


def settings_of(training: Training) -> dict[str, Value]:
    """Everything that decides a training except its method, seed and fold.

    Includes the version of the method, if it has one of its own.
    """
    every = training.to_dict()
    settings = {name: every[name] for name in every if name not in ("method", "seed", "fold")}
    version = method_version(training.method)
    return settings | ({METHOD_VERSION: version} if version else {})


def training_of(method: str, settings: Mapping[str, Value]) -> Training:
    """The training with these settings, for seed 0 and fold 0; the inverse of `settings_of`."""
    own = {name: value for name, value in settings.items() if name != METHOD_VERSION}
    return Training.from_dict({"method": method, **own})


def run_key(graphs: Graphs, fingerprint: str, training: Training, precision: str) -> str:
    """A hash of everything that decides the result of a training.

    The name of the data set is included because random numbers depend on it.
    """
    parts: list[Any] = [NUMERICS, graphs.name, fingerprint, precision, *training.to_dict().items()]
    version = method_version(training.method)
    parts += [("version", version)] if version else []
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _pairs(experiment: Experiment, overrides: Overrides) -> list[tuple[DataSet, str]]:
    tables = [_check_known(name, experiment.tables, "table") for name in overrides.tables]
    wanted = [experiment.tables[name] for name in tables or experiment.tables]
    pairs = [
        (name, method) for table in wanted for name in table.datasets for method in table.methods
    ]
    listed = list(dict.fromkeys(pairs))
    chosen = _matching_methods(overrides.methods)
    datasets = [_dataset(experiment, name) for name in overrides.datasets] or [
        experiment.datasets[name] for name in dict.fromkeys(name for name, _ in listed)
    ]
    # Two folders with the same name are two data sets.
    sources: dict[str, set[object]] = {}
    for dataset in datasets:
        sources.setdefault(dataset.name, set()).add(dataset.source)
    datasets = [replace(d, name=str(d.source)) if len(sources[d.name]) > 1 else d for d in datasets]
    cells = []
    for dataset in datasets:
        of_dataset = [method for name, method in listed if name == dataset.name]
        if chosen:
            # A method that the experiment lists only for some data sets runs only on these, unless
            # the data set was requested by name.
            elsewhere = {method for _, method in listed}
            runs = [
                method
                for method in chosen
                if overrides.datasets or method in of_dataset or method not in elsewhere
            ]
        else:
            runs = of_dataset or list(wanted[0].methods)
        if overrides.features is not None:
            dataset = dataset.with_features(overrides.features)
        if overrides.task is not None or overrides.targets:
            task = overrides.task or dataset.task
            dataset = dataset.with_targets(task, overrides.targets or dataset.targets)
        if overrides.split is not None:
            dataset = dataset.with_split(Path(overrides.split))
        if overrides.node_targets is not None:
            dataset = dataset.with_node_targets(Path(overrides.node_targets))
        cells += [(dataset, method) for method in runs]
    return list(dict.fromkeys(cells))


def _cell(experiment: Experiment, overrides: Overrides, dataset: DataSet, method: str) -> Cell:
    name_in_experiment = dataset.name_in_experiment
    settings = experiment.settings_of(name_in_experiment, method)
    grid = experiment.grid_of(name_in_experiment, method)
    for name, values in overrides.settings.items():
        if has_setting(method, name):
            settings[name] = values[0]
            grid[name] = values
    if overrides.match is not None:
        matched = matched_settings(method, float(settings["ratio"]))
        settings, grid = settings | matched, grid | {name: (v,) for name, v in matched.items()}
    place = f"{dataset.name} {method}"
    if dataset.split is not None:
        if "split" in overrides.settings:
            raise SagpoolError(
                f"{place} already has the split of a file; it cannot have another one."
            )
        settings["split"] = "fixed"
    if overrides.folds is not None:
        if settings.get("split") == "fixed":
            raise SagpoolError(f"{place} has a fixed split, so it has no folds to choose.")
        settings["folds"] = overrides.folds
    CANDIDATES.check(math.prod(len(values) for values in grid.values()), place)
    candidates = [
        training_of(method, {**settings, **dict(zip(grid, values, strict=True))})
        for values in itertools.product(*grid.values())
    ]
    if len({(one.folds, one.validation) for one in candidates}) > 1:
        raise SagpoolError(
            f"{place}: the candidates of a search are compared on the same splits; give one value "
            "of folds and of validation."
        )
    known = (name_in_experiment, method)
    usual = experiment.datasets.get(name_in_experiment, dataset)
    if any(getattr(dataset, n) != getattr(usual, n) for n in ("split", "task", "targets")):
        known = ("", "")  # the published numbers are of other splits, or of another task
    return Cell(
        dataset,
        method,
        training_of(method, settings),
        tuple(dict.fromkeys(candidates)),
        experiment.accuracy.get(known),
        tuple(experiment.tests.get(known, {}).items()),
    )


def _dataset(experiment: Experiment, wanted: str) -> DataSet:
    """The experiment's data set of that name, ignoring case, or any other data set."""
    name = ALIASES.get(wanted.lower(), wanted)
    for known, dataset in experiment.datasets.items():
        if known.lower() == name.lower():
            return dataset
    return DataSet(_short_name(name), name)


def _short_name(source: str) -> str:
    """The name of a file or folder, without its path and suffix."""
    path = Path(source)
    return path.stem if path.suffix in (".zip", ".jsonl", ".csv", ".tsv", ".sdf") else path.name


def _matching_methods(patterns: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        matching = [name for name in methods() if matches(name, [pattern])]
        if not matching:
            check_method(pattern)
        found += matching
    return list(dict.fromkeys(found))


def _check_known(name: str, known: Mapping[str, object], kind: str) -> str:
    if name not in known:
        raise SagpoolError(f"The experiment has no {kind} '{name}'; {suggestion(name, known)}.")
    return name
