"""Experiments as data: what to run, with which settings, and what others have published."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Any

from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.graphs.features import Features
from sagpool.models import methods

Value = int | float
SETTINGS = tuple(
    item.name
    for item in fields(Training)
    if item.name not in ("method", "seed", "fold", "folds", "method_settings")
)


@dataclass(frozen=True)
class DataSet:
    name: str  # by which the experiment calls it
    source: str | Path  # what `load` is given
    features: Features = "auto"


@dataclass(frozen=True)
class Table:
    """Every method is run on every data set."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """Settings for the methods and data sets whose names match one of the patterns."""

    values: Mapping[str, tuple[Value, ...]]
    methods: tuple[str, ...] = ("*",)
    datasets: tuple[str, ...] = ("*",)

    def covers(self, dataset: str, method: str) -> bool:
        return _matches(method, self.methods) and _matches(dataset, self.datasets)


@dataclass(frozen=True)
class Accuracy:
    """In percent, as published."""

    mean: float
    std: float


@dataclass(frozen=True)
class Experiment:
    """What an experiment file says.

    Args:
        name: of the file
        title: one line for people
        datasets: by name
        tables: which methods run on which data sets, by name
        seeds: how many
        protocol: settings that are the same everywhere, ``folds`` among them
        grid: what a search chooses from
        settings: what is used without a search; later rules go before earlier ones
        statistics: of the data sets, as published
        feature_kinds: node features of the published experiment, where others may be at hand
        accuracy: published results by (data set, method)
    """

    name: str
    title: str
    datasets: Mapping[str, DataSet]
    tables: Mapping[str, Table]
    seeds: int
    protocol: Mapping[str, Value]
    grid: tuple[Rule, ...]
    settings: tuple[Rule, ...]
    statistics: Mapping[str, Mapping[str, float]]
    feature_kinds: Mapping[str, str]
    accuracy: Mapping[tuple[str, str], Accuracy]

    def settings_of(self, dataset: str, method: str) -> dict[str, Value]:
        """The protocol, and the settings for this cell."""
        chosen = dict(self.protocol)
        for rule in self.settings:
            if rule.covers(dataset, method):
                chosen |= {name: values[0] for name, values in rule.values.items()}
        return chosen

    def grid_of(self, dataset: str, method: str) -> dict[str, tuple[Value, ...]]:
        """The values that a search tries for this cell, by setting."""
        grid: dict[str, tuple[Value, ...]] = {}
        for rule in self.grid:
            if rule.covers(dataset, method):
                grid |= rule.values
        return grid


def number(text: Any) -> Value:
    """A number as people write it in a file or on the command line: 128, 5e-4, 1/2."""
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
        raise ValueError(f"{text} is no finite number")
    return value


def check_setting(name: str, value: Value) -> None:
    """Raise an error if this is no setting of a training, or no value for it."""
    if name not in SETTINGS:
        raise SagpoolError(f"'{name}' is no setting{suggestion(name, SETTINGS)}.")
    if name == "ratio" and not 0 < value <= 1:
        raise SagpoolError(f"ratio must be above 0 and at most 1, not {value}.")
    if name == "dropout" and not 0 <= value < 1:
        raise SagpoolError(f"dropout must be at least 0 and below 1, not {value}.")
    Training("any", **{name: value})  # type: ignore[arg-type]


def check_method(name: str) -> None:
    if name not in methods():
        raise SagpoolError(f"There is no method '{name}'{suggestion(name, methods())}.")


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """``; did you mean x?`` or ``; choose from x, y``, to be put behind what is wrong."""
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f"; did you mean '{close[0]}'" if close else f"; choose from {', '.join(known)}"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
