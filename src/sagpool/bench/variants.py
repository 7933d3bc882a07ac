"""Which cells may share a table, and names for several cells of one method on one data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import mode
from typing import Any

from sagpool.bench.experiment import SETTINGS, Experiment
from sagpool.bench.plan import METHOD_VERSION
from sagpool.bench.protocol_words import in_words
from sagpool.bench.records import CellRecord
from sagpool.bench.selection import BY_ACCURACY, SELECTED, Select
from sagpool.bench.summary import Summary
from sagpool.bench.usual_values import CellValue, usual_values
from sagpool.fleet import NUMERICS, Training
from sagpool.fleet.training import OPTIONS, PROTOCOL
from sagpool.models import method_settings, methods

# Settings that decide what a result means; cells that differ in them never share a table.
_PROTOCOL = (*PROTOCOL, "folds", "validation", "patience", "max_epochs")
# Other settings that tables would hide: part of a cell's name if unusual and not searched.
_NAMED = ("ratio", "batch_size", "dropout", "class_weight", "schedule")
USUAL_PRECISION = "float32"
_DEFAULTS = {name: default for name, (default, *_) in OPTIONS.items()}
_NO_METHOD_SETTINGS = {*SETTINGS, "folds", METHOD_VERSION, SELECTED}


class Chosen(StrEnum):
    """How the settings of a cell were chosen; claims prefer the earlier values."""

    SEARCHED = "searched settings"  # by validation, over the folds of the first seed
    PER_FOLD = "settings chosen per fold"
    FIXED = "fixed settings"
    BY_TEST = "settings chosen by test accuracy"


_BY_VALIDATION = (Chosen.SEARCHED, Chosen.PER_FOLD)


@dataclass(frozen=True, eq=False)
class Group:
    """Cells that may share a table: of one protocol, with settings chosen in the same way."""

    chosen: Chosen
    differences: tuple[str, ...]  # from the protocol of the experiment, in words
    cells: tuple[Summary, ...]  # the last requested one of each name and data set
    superseded: tuple[Summary, ...] = ()  # earlier ones of the same names

    @property
    def main(self) -> list[Summary]:
        """The cells, without variants of a method that is also present with its usual settings."""
        usual = {(s.cell.dataset, s.cell.method) for s in self.cells if not s.variant}
        return [
            s for s in self.cells if not s.variant or (s.cell.dataset, s.cell.method) not in usual
        ]


def group_cells(summaries: Sequence[Summary], experiment: Experiment | None = None) -> list[Group]:
    """All groups of cells; the main one first, then those of the same protocol.

    The main group is the one with the most main cells among those with the protocol of the
    experiment; in a tie, searched settings come before fixed ones. If a data set or the code of a
    method has changed, only cells of the latest state are included. If cells have the same name,
    the last requested one is shown: showing the best would be a choice by test results.

    Args:
        summaries: cells in the order of their requests
        experiment: defines the usual settings; without it, the protocol of most cells does
    """
    latest = set(of_latest_versions(summaries))
    current = [s for s in of_latest_data(summaries) if s in latest]
    usual = _Usual(experiment, current)
    found: dict[tuple[tuple[str, ...], Chosen], dict[tuple[str, str], list[Summary]]] = {}
    for summary in current:
        key = (usual.differences(summary), way_chosen(summary.cell))
        named = replace(summary, variant=usual.variant(summary.cell))
        cells = found.setdefault(key, {})
        # Moves it to the end: the order is that of requests.
        earlier = cells.pop((named.cell.dataset, named.method), [])
        cells[named.cell.dataset, named.method] = [*earlier, named]
    groups = [
        Group(
            chosen,
            differences,
            tuple(same[-1] for same in cells.values()),
            superseded=tuple(one for same in cells.values() for one in same[:-1]),
        )
        for (differences, chosen), cells in found.items()
    ]
    ways = list(Chosen)
    return sorted(
        groups,
        key=lambda group: (
            len(group.differences),
            group.differences,
            group.chosen is Chosen.BY_TEST,
            -len(group.main),
            ways.index(group.chosen),
        ),
    )


def of_latest_data(summaries: Sequence[Summary]) -> list[Summary]:
    """The cells of the latest state of each data set; cells are in the order of their requests."""
    states = {s.cell.dataset: s.cell.fingerprint for s in summaries}
    return [s for s in summaries if s.cell.fingerprint == states[s.cell.dataset]]


def of_latest_versions(summaries: Sequence[Summary]) -> list[Summary]:
    """The cells made by the latest version of each method; cells are in the order of requests."""
    versions = {s.cell.method: s.cell.settings.get(METHOD_VERSION) for s in summaries}
    return [s for s in summaries if s.cell.settings.get(METHOD_VERSION) == versions[s.cell.method]]


def way_chosen(cell: CellRecord) -> Chosen:
    """How the settings were chosen."""
    if cell.select is Select.TEST:
        return Chosen.BY_TEST
    if cell.per_fold:
        return Chosen.PER_FOLD
    return Chosen.FIXED if cell.search == "none" else Chosen.SEARCHED


def settled(cell: CellRecord) -> dict[str, Any]:
    """The settings of the cell that no search has varied, with all defaults."""
    defaults = all_defaults(cell.method)
    candidates = [defaults | one.settings for one in cell.ranking]
    # Searches by test accuracy do not store what they tried; the usual grids vary the ratio.
    varied = {SELECTED} | ({"ratio"} if cell.select is Select.TEST else set())
    return {
        name: value
        for name, value in (defaults | cell.settings).items()
        if name not in varied
        and not isinstance(value, list)
        and all(one.get(name) == value for one in candidates)
    }


def searched_method_settings(cell: CellRecord) -> dict[str, Any]:
    """The settings of the method itself that a search varied, with their defaults.

    The default is None if the method is a plugin that is not loaded.
    """
    tried = [cell.settings, *(one.settings for one in cell.ranking)]
    defaults = all_defaults(cell.method)
    names = dict.fromkeys(name for one in tried for name in one if name not in _NO_METHOD_SETTINGS)
    return {
        name: defaults.get(name)
        for name in names
        # A choice per fold has lists of values.
        if any(one.get(name) != cell.settings.get(name) for one in tried)
        or isinstance(cell.settings.get(name), list)
    }


def all_defaults(method: str) -> dict[str, Any]:
    """What stores leave out: defaults of options and, if it is loaded, of the method's settings."""
    return _DEFAULTS | (dict(method_settings(method)) if method in methods() else {})


class _Usual:
    """What needs no mention: the settings of the experiment, and how most searches chose."""

    def __init__(self, experiment: Experiment | None, summaries: Iterable[Summary]) -> None:
        self.experiment = experiment
        # Settings of the last requested cell of each protocol, and how many cells have it.
        found: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}
        every: list[tuple[CellRecord, Chosen, dict[str, Any]]] = []
        criteria: list[str] = []
        for summary in summaries:
            cell, chosen, own = summary.cell, way_chosen(summary.cell), settled(summary.cell)
            protocol = tuple(own.get(name) for name in _PROTOCOL)
            found[protocol] = (found.pop(protocol, (0, {}))[0] + 1, own)
            if chosen in _BY_VALIDATION:
                criteria.append(summary.criterion)
            every.append((cell, chosen, own))
        # In a tie, the last one.
        counts = [*reversed(found.values())]
        self.usual = max(counts, key=lambda one: one[0])[1] if counts else {}
        # Cells with method settings of their own count only where there are no others.
        plain = [one for one in every if not self._method_settings(one[0], one[2])]
        self.values = {
            name: _usual_values(name, every) | _usual_values(name, plain) for name in _NAMED
        }
        by_accuracy = experiment is not None and BY_ACCURACY in criteria
        self.criterion = BY_ACCURACY if by_accuracy else mode(criteria or [BY_ACCURACY])

    def differences(self, summary: Summary) -> tuple[str, ...]:
        """Differences from the usual protocol, in words."""
        cell = summary.cell
        own, usual = settled(cell), self._protocol(cell)
        words = [
            in_words(name, own[name])
            for name in _PROTOCOL
            if name in own
            and own[name] != usual.get(name, own[name])
            and not (name == "folds" and own["split"] == "fixed")  # one split is its only fold
        ]
        if way_chosen(cell) in _BY_VALIDATION and summary.criterion != self.criterion:
            words.append(f"settings chosen by the validation {summary.criterion}")
        if cell.precision != USUAL_PRECISION:
            words.append(f"a precision of {cell.precision}")
        if cell.numerics != NUMERICS:
            words.append(f"made by version {cell.numerics} of the numerics, not {NUMERICS}")
        return tuple(words)

    def variant(self, cell: CellRecord) -> str:
        """The method's own settings, and those in `_NAMED`, if unusual."""
        own = settled(cell)
        named = self._method_settings(cell, own)
        named |= {
            name: own[name]
            for name in _NAMED
            if name in own and own[name] != self._usual_value(name, cell)
        }
        return "".join(
            f", {name.replace('_', ' ')} {_short(value)}" for name, value in named.items()
        )

    def _method_settings(self, cell: CellRecord, own: Mapping[str, Any]) -> dict[str, Any]:
        """The method's own settings in ``own`` that differ from the usual ones."""
        usual = {**all_defaults(cell.method), **self._settings(cell)}
        return {
            name: value
            for name, value in own.items()
            if name not in _NO_METHOD_SETTINGS and usual.get(name) != value
        }

    def _protocol(self, cell: CellRecord) -> Mapping[str, Any]:
        if self.experiment is not None:
            return {**_DEFAULTS, **vars(Training("any")), **self._settings(cell)}
        return self.usual | _DEFAULTS

    def _settings(self, cell: CellRecord) -> Mapping[str, Any]:
        """The experiment's settings without a search; empty if unknown."""
        if self.experiment is None:
            return {}
        dataset = self._dataset(cell)
        split = {"split": self.experiment.split_of(dataset)}
        if cell.method not in methods():  # a plugin that is not loaded
            return {**self.experiment.protocol, **split}
        return {**self.experiment.settings_of(dataset, cell.method), **split}

    def _dataset(self, cell: CellRecord) -> str:
        """Its name in the experiment; results with other features have another name."""
        assert self.experiment is not None
        known = cell.dataset in self.experiment.datasets
        return cell.dataset if known else cell.dataset.rsplit(" (", 1)[0]

    def _usual_value(self, name: str, cell: CellRecord) -> Any:
        """The usual value of a setting in `_NAMED`; None if the usual search varies it."""
        chosen = way_chosen(cell)
        shared = self.values[name].get((cell.dataset, chosen))
        if self.experiment is None or cell.method not in methods():
            return shared
        dataset = self._dataset(cell)
        # Data sets that an experiment lacks have batches and dropout of their own, but its ratio.
        if dataset not in self.experiment.datasets and name != "ratio":
            return shared
        grid = self.experiment.grid_of(dataset, cell.method)
        if chosen is not Chosen.FIXED and len(grid.get(name, ())) > 1:
            return None
        return self._settings(cell).get(name, getattr(Training, name))


def _usual_values(
    name: str, cells: Iterable[tuple[CellRecord, Chosen, Mapping[str, Any]]]
) -> dict[tuple[str, Chosen], Any]:
    values = [CellValue(c.dataset, c.method, chosen, own.get(name)) for c, chosen, own in cells]
    return usual_values(values, getattr(Training, name))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
