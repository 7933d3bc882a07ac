"""Experiments as data: what to run, with which settings, and the published results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sagpool.bench.selection import Select
from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.fleet.training import OPTIONS
from sagpool.graphs.features import FEATURE_KINDS, Features, Normalise
from sagpool.graphs.graphs import Task
from sagpool.models import Display, Value, method_settings, methods
from sagpool.models.registry import suggestion

if TYPE_CHECKING:
    from sagpool.bench.claims import Claim

# Settings of a training; methods have settings of their own besides.
SETTINGS = tuple(
    item.name
    for item in fields(Training)
    if item.name not in ("method", "seed", "fold", "folds", "method_settings")
)


Related = tuple[tuple[str, ...], ...]  # groups of data sets that share graphs


@dataclass(frozen=True)
class DataSet:
    name: str  # name in the results
    source: str | Path  # the argument of `load`
    features: Features = "auto"
    normalise: Normalise = "none"
    entry: str = ""  # its name in the experiment, if different
    split: Path | None = None  # file that assigns graphs to parts, see `with_split`
    task: Task = "classification"
    targets: tuple[str, ...] = ()  # columns of a file, if not the standard ones
    node_targets: Path | None = None  # file, see `with_node_targets`

    @property
    def name_in_experiment(self) -> str:
        return self.entry or self.name

    def with_features(self, features: Features) -> DataSet:
        """The same data with other node features, under another name: results must not mix."""
        if features == self.features:
            return self
        kind = FEATURE_KINDS.get(features, features)
        name = f"{self.name} ({kind})"
        return replace(self, name=name, features=features, entry=self.name_in_experiment)

    def with_split(self, file: Path) -> DataSet:
        """The same data with the split of a file, under another name: results must not mix."""
        name = f"{self.name} (split {file.stem})"
        return replace(self, name=name, split=file, entry=self.name_in_experiment)

    def with_targets(self, task: Task, targets: tuple[str, ...]) -> DataSet:
        """The same graphs with another task, under another name: results must not mix."""
        if (task, targets) == (self.task, self.targets):
            return self
        name = f"{self.name} ({', '.join(targets) or task})"
        return replace(self, name=name, task=task, targets=targets, entry=self.name_in_experiment)

    def with_node_targets(self, file: Path) -> DataSet:
        """The same data with node targets of a file, under another name: results must not mix."""
        name = f"{self.name} (nodes {file.stem})"
        return replace(self, name=name, node_targets=file, entry=self.name_in_experiment)


@dataclass(frozen=True)
class Table:
    """Data sets and methods; every method is run on every data set."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """Settings for methods and data sets whose names match one of the patterns."""

    values: Mapping[str, tuple[Value, ...]]
    methods: tuple[str, ...] = ("*",)
    datasets: tuple[str, ...] = ("*",)

    def covers(self, dataset: str, method: str) -> bool:
        return matches(method, self.methods) and matches(dataset, self.datasets)


@dataclass(frozen=True)
class Accuracy:
    """A published result, in percent."""

    mean: float
    std: float


class Elsewhere(NamedTuple):
    """A published result of a method that this package lacks, in percent."""

    mean: float
    std: float | None


@dataclass(frozen=True)
class Experiment:
    """The content of an experiment file."""

    name: str  # name of the file
    title: str  # one line that describes it
    datasets: Mapping[str, DataSet]
    tables: Mapping[str, Table]
    seeds: int
    protocol: Mapping[str, Value]  # settings of all trainings, including ``folds``
    grid: tuple[Rule, ...]  # values that a search tries
    settings: tuple[Rule, ...]  # values without a search; later rules override earlier ones
    statistics: Mapping[str, Mapping[str, float]]  # published statistics of the data sets
    feature_kinds: Mapping[str, str]  # published kind of features, if our data may lack them
    accuracy: Mapping[tuple[str, str], Accuracy]  # published, by (data set, method)
    # Published results in the tests of a fixed split: by (data set, method), then by test.
    tests: Mapping[tuple[str, str], Mapping[str, Accuracy]] = field(default_factory=dict)
    published_seeds: int = 20  # number of seeds of the published means
    claims: tuple[Claim, ...] = ()  # claims of the paper, with the tests that decide them
    related: Related = ()  # results on these data sets are not independent
    select: Select = Select.OVER_FOLDS  # default of how a search chooses
    # Published results of methods that this package lacks: by method, then by data set.
    elsewhere: Mapping[str, Mapping[str, Elsewhere]] = field(default_factory=dict)
    # How methods are displayed, in order.
    display: Mapping[str, Display] = field(default_factory=dict)

    def split_of(self, dataset: str) -> Value:
        """How the graphs of a data set are split; ``fixed`` if the experiment names a file."""
        known = self.datasets.get(dataset)
        if known is not None and known.split is not None:
            return "fixed"
        return self.protocol.get("split", Training.split)

    def runs_of(self, dataset: str) -> int:
        """The number of runs of a complete cell."""
        fixed = self.split_of(dataset) == "fixed"
        return self.seeds * (1 if fixed else int(self.protocol.get("folds", Training.folds)))

    def settings_of(self, dataset: str, method: str) -> dict[str, Value]:
        """The protocol and the settings of this cell, without settings that the method lacks."""
        chosen = dict(self.protocol)
        for rule in self.settings:
            if rule.covers(dataset, method):
                chosen |= {name: values[0] for name, values in rule.values.items()}
        return {name: value for name, value in chosen.items() if has_setting(method, name)}

    def grid_of(self, dataset: str, method: str) -> dict[str, tuple[Value, ...]]:
        """The values that a search tries in this cell, by setting."""
        grid: dict[str, tuple[Value, ...]] = {}
        for rule in self.grid:
            if rule.covers(dataset, method):
                grid |= rule.values
        return {name: values for name, values in grid.items() if has_setting(method, name)}


def number(text: Any) -> int | float:
    """A number as written in a file or on the command line: 128, 5e-4, 1/2."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    try:
        return int(str(text))
    except ValueError:
        pass
    try:
        value = float(Fraction(text) if isinstance(text, str) and "/" in text else text)
    except ZeroDivisionError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def parse_value(text: Any) -> Value:
    """The value of a setting as written in a file or on the command line: a number or a word."""
    if isinstance(text, bool):
        return text
    try:
        return number(text)
    except ValueError:
        if isinstance(text, str):
            return text
        raise


def has_setting(method: str, name: str) -> bool:
    return name == "folds" or name in SETTINGS or name in method_settings(method)


def check_setting(name: str, value: Value, among: Iterable[str] | None = None) -> None:
    """Raise an error unless one of the methods (by default all) has this setting and value."""
    if name in OPTIONS:
        Training("any", **{name: value})  # type: ignore[arg-type]
        return
    if name in SETTINGS:
        if isinstance(value, str | bool):
            raise SagpoolError(f"{name} must be a number, not {value!r}.")
        if name == "ratio" and not 0 < value <= 1:
            raise SagpoolError(f"ratio must be above 0 and at most 1, not {value}.")
        if name == "dropout" and not 0 <= value < 1:
            raise SagpoolError(f"dropout must be at least 0 and below 1, not {value}.")
        Training("any", **{name: value})  # type: ignore[arg-type]
        return
    own = {method: method_settings(method) for method in (methods() if among is None else among)}
    for method in (method for method, settings in own.items() if name in settings):
        Training.from_dict({"method": method, name: value})
    if not any(name in settings for settings in own.values()):
        known = dict.fromkeys((*SETTINGS, *(key for settings in own.values() for key in settings)))
        raise SagpoolError(f"'{name}' is not a setting; {suggestion(name, known)}.")


def check_method(name: str) -> None:
    if name not in methods():
        hint = " Load methods of your own with --plugin FILE."
        raise SagpoolError(f"There is no method '{name}'; {suggestion(name, methods())}.{hint}")


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
