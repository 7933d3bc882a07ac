"""From an experiment and a person's overrides to the trainings that have to be done."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sagpool.bench.experiment import (
    SETTINGS,
    Accuracy,
    DataSet,
    Experiment,
    Value,
    check_method,
    check_setting,
    suggestion,
)
from sagpool.errors import SagpoolError
from sagpool.fleet import NUMERICS, Training
from sagpool.graphs import Graphs
from sagpool.graphs.named_datasets import ALIASES
from sagpool.models import methods


@dataclass(frozen=True)
class Overrides:
    """What a person wants otherwise than the experiment says; empty means as it says.

    Args:
        datasets: names in the experiment, or anything that `load` takes
        methods: names or patterns, such as ``sagpool-h*``
        tables: names in the experiment
        seeds: how many
        folds: of the cross-validation
        settings: one value each, or several for a search
    """

    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    seeds: int | None = None
    folds: int | None = None
    settings: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """One method on one data set.

    Args:
        dataset: where the graphs come from
        method: a registered name
        default: settings that are used without a search, as a training (of seed 0 and fold 0)
        candidates: what a search chooses from
        published: result of others
    """

    dataset: DataSet
    method: str
    default: Training
    candidates: tuple[Training, ...]
    published: Accuracy | None


def plan(experiment: Experiment, overrides: Overrides, *, search: bool) -> list[Cell]:
    """The cells of the experiment that are wished for, data set after data set."""
    if not search:
        for name, values in overrides.settings.items():
            if len(values) > 1:
                raise SagpoolError(
                    f"{name} has {len(values)} values; give one, or let a search choose."
                )
    return [
        _cell(experiment, overrides, dataset, method)
        for dataset, method in _names(experiment, overrides)
    ]


def repeat(template: Training, seeds: int, folds: int | None = None) -> list[Training]:
    """The training with every seed and fold, or with the first folds of each seed alone."""
    return [
        replace(template, seed=seed, fold=fold)
        for seed in range(seeds)
        for fold in range(folds or template.folds)
    ]


def settings_of(training: Training) -> dict[str, Value]:
    """All that decides a training but its method, seed and fold."""
    return {name: getattr(training, name) for name in (*SETTINGS, "folds")}


def run_key(graphs: Graphs, fingerprint: str, training: Training, precision: str) -> str:
    """A name for a training and everything that decides its result.

    The data set's own name is part of it, since the random numbers depend on it.
    """
    parts: list[Any] = [NUMERICS, graphs.name, fingerprint, precision, *training.to_dict().items()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _names(experiment: Experiment, overrides: Overrides) -> list[tuple[DataSet, str]]:
    tables = [_known(name, experiment.tables, "table") for name in overrides.tables]
    wanted = [experiment.tables[name] for name in tables or experiment.tables]
    pairs = [
        (name, method) for table in wanted for name in table.datasets for method in table.methods
    ]
    listed = list(dict.fromkeys(pairs))
    chosen = _expand(overrides.methods)
    datasets = [_dataset(experiment, name) for name in overrides.datasets] or [
        experiment.datasets[name] for name in dict.fromkeys(name for name, _ in listed)
    ]
    # Two folders of one name are two data sets.
    sources: dict[str, set[object]] = {}
    for dataset in datasets:
        sources.setdefault(dataset.name, set()).add(dataset.source)
    datasets = [replace(d, name=str(d.source)) if len(sources[d.name]) > 1 else d for d in datasets]
    cells = []
    for dataset in datasets:
        of_dataset = [method for name, method in listed if name == dataset.name]
        if chosen:
            # A method that the experiment lists for some data sets alone runs on those, unless
            # the data set was asked for by name.
            elsewhere = {method for _, method in listed}
            runs = [
                method
                for method in chosen
                if overrides.datasets or method in of_dataset or method not in elsewhere
            ]
        else:
            runs = of_dataset or list(wanted[0].methods)
        cells += [(dataset, method) for method in runs]
    return list(dict.fromkeys(cells))


def _cell(experiment: Experiment, overrides: Overrides, dataset: DataSet, method: str) -> Cell:
    settings = experiment.settings_of(dataset.name, method)
    grid = experiment.grid_of(dataset.name, method)
    for name, values in overrides.settings.items():
        for value in values:
            check_setting(name, value)
        settings[name] = values[0]
        grid[name] = values
    if overrides.folds is not None:
        settings["folds"] = overrides.folds
    default = Training(method, **settings)  # type: ignore[arg-type]
    candidates = [
        replace(default, **dict(zip(grid, values, strict=True)))  # type: ignore[arg-type]
        for values in itertools.product(*grid.values())
    ]
    return Cell(
        dataset,
        method,
        default,
        tuple(dict.fromkeys(candidates)),
        experiment.accuracy.get((dataset.name, method)),
    )


def _dataset(experiment: Experiment, wanted: str) -> DataSet:
    """The experiment's own entry, whatever the case, or any other data set."""
    name = ALIASES.get(wanted.lower(), wanted)
    for known, dataset in experiment.datasets.items():
        if known.lower() == name.lower():
            return dataset
    return DataSet(_short(name), name)


def _short(source: str) -> str:
    """How a file or folder is called, without its way and its ending."""
    path = Path(source)
    return path.stem if path.suffix in (".zip", ".jsonl", ".csv", ".tsv", ".sdf") else path.name


def _expand(patterns: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        matching = [name for name in methods() if fnmatchcase(name, pattern)]
        if not matching:
            check_method(pattern)
        found += matching
    return list(dict.fromkeys(found))


def _known(name: str, known: Mapping[str, object], kind: str) -> str:
    if name not in known:
        raise SagpoolError(f"The experiment has no {kind} '{name}'{suggestion(name, known)}.")
    return name
