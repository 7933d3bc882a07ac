"""Summaries of a run store, one per cell. Accuracies are in percent from here on."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from sagpool.bench.records import CellRecord, Failure, Run
from sagpool.bench.run_table import RunTable, column
from sagpool.bench.selection import BY_ACCURACY, Select
from sagpool.bench.stored_cells import group_key
from sagpool.statistics import Comparison, Spread, compare, holm, spread

T = TypeVar("T", Run, Failure)


@dataclass(frozen=True, eq=False)
class Summary:
    """A cell and its runs."""

    cell: CellRecord
    runs: Sequence[Run]  # ordered by seed and fold
    spread: Spread
    failures: tuple[Failure, ...] = ()
    # For cells selected per fold: the test accuracy, in percent, of the single candidate with the
    # best mean validation accuracy over the same trainings.
    over_folds: float | None = None
    variant: str = ""  # distinguishes it from other cells of the method: ", losses none"
    # Accuracies in the tests of a fixed split, by name; the first is the main test, which all other
    # fields refer to.
    tests: Mapping[str, Spread] = field(default_factory=dict)
    no_better_than_majority: bool = False  # see `compare_with_majority`
    # Accuracy, in percent, of the most frequent class of the main test, if the split is fixed.
    majority: float | None = None

    @property
    def method(self) -> str:
        """The method, with unusual settings: ``diffpool-h, losses none``."""
        return self.cell.method + self.variant

    @property
    def learnt(self) -> bool:
        """Whether at least one of the runs has a test accuracy."""
        return not np.isnan(self.spread.mean)

    @property
    def loss(self) -> float | None:
        """The mean test loss of a cell without accuracies: a regression."""
        losses = column(self.runs, "test_loss")
        found = losses[~np.isnan(losses)]
        return float(found.mean()) if not self.learnt and len(found) else None

    @property
    def diverged(self) -> int:
        return int(column(self.runs, "diverged").sum())

    @property
    def whole(self) -> bool:
        """Whether all of its runs have an accuracy: those that diverged at once have none."""
        return len(self.accuracy) == len(self.runs)

    @property
    def epochs(self) -> float:
        """Mean number of epochs of a run."""
        return float(column(self.runs, "epochs").mean())

    @property
    def parameters(self) -> int:
        """Mean number of parameters of a run; differs only if folds have their own settings."""
        return round(float(column(self.runs, "parameters").mean()))

    @property
    def seconds(self) -> float:
        """Total seconds of all runs."""
        return float(column(self.runs, "seconds").sum())

    @property
    def mismatch(self) -> str | None:
        """Why a matched comparison could not match it; empty if it could, None without a match."""
        return self.cell.retention.mismatch if self.cell.retention else None

    @property
    def select(self) -> Select:
        """How the settings were selected, if there was a search."""
        return self.cell.select

    @property
    def criterion(self) -> str:
        """The validation result by which a search ranked its candidates."""
        named = self.cell.search.partition(" by ")[2]
        return named or (BY_ACCURACY if self.loss is None else "loss")

    @property
    def main_test(self) -> str | None:
        """The test that all accuracies are of, if there are several."""
        return next(iter(self.tests)) if len(self.tests) > 1 else None

    @property
    def optimism(self) -> float | None:
        """How much better a choice over all folds looks than one per fold, in percentage points."""
        if self.over_folds is None or not self.learnt:
            return None
        return self.over_folds - self.spread.mean

    @property
    def accuracy(self) -> np.ndarray:
        """``[runs]`` in percent, of runs that have an accuracy."""
        accuracy = 100 * column(self.runs, "test_accuracy")
        return accuracy[~np.isnan(accuracy)]

    @property
    def deviation(self) -> float | None:
        """Our mean minus the paper's, in units of the paper's standard deviation."""
        if self.cell.paper_mean is None or not self.cell.paper_std or not self.learnt:
            return None
        return (self.spread.mean - self.cell.paper_mean) / self.cell.paper_std

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON; accuracies in percent."""
        runs, cost = self.runs, self.cell.cost
        return {
            "dataset": self.cell.dataset,
            "method": self.cell.method,
            "settings": self.cell.settings,
            "runs": len(runs),
            "mean": self.spread.mean if self.learnt else None,
            "loss": self.loss,
            "std_seeds": self.spread.std_seeds,
            "std_folds": self.spread.std_folds,
            "ci95": self.spread.ci95,
            "paper_mean": self.cell.paper_mean,
            "paper_std": self.cell.paper_std,
            "deviation": self.deviation,
            "diverged": self.diverged,
            "failed": len(self.failures),
            "no_better_than_majority": self.no_better_than_majority,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "parameters": self.parameters,
            "step_bytes": self.cell.bytes,
            "precision": self.cell.precision,
            "search": self.cell.search,
            "search_epochs": cost.epochs if cost else None,
            "grid_epochs": cost.grid if cost else None,
            "grid_epochs_exact": cost.exact if cost else None,
            "select": str(self.select),
            "over_folds_mean": self.over_folds,
            "over_folds_difference": self.optimism,
            "note": self.cell.note,
            **({"main_test": self.main_test} if self.main_test else {}),
            **({"tests": self._tests_json()} if self.tests else {}),
            "not_matched": self.mismatch,
        }

    def _tests_json(self) -> dict[str, dict[str, Any]]:
        published = self.cell.paper_tests or {}
        found = {}
        for name, one in self.tests.items():
            mean, std = published.get(name, (None, None))
            found[name] = {
                **{"mean": one.mean, "std_seeds": one.std_seeds, "ci95": one.ci95},
                **{"paper_mean": mean, "paper_std": std},
            }
        return found


@dataclass(frozen=True)
class Pair:
    """A comparison of two methods on one data set."""

    dataset: str
    first: str
    second: str
    comparison: Comparison
    holm: float  # p after Holm's correction over all pairs of the data set


def summarise(
    cells: Iterable[CellRecord], runs: Iterable[Run], failures: Iterable[Failure] = ()
) -> list[Summary]:
    """A summary of every cell that has runs, in the order of the cells."""
    runs, failures = runs if isinstance(runs, RunTable) else list(runs), list(failures)
    failed = _by_cell(failures)
    of_cell: Mapping[tuple[Any, ...], Sequence[Run]]
    if isinstance(runs, RunTable):
        of_cell = {group_key(some[0]): some for _, some in runs.by_group}
    else:
        of_cell = _by_cell(runs)
    summaries = []
    for cell in cells:
        here: Sequence[Run]
        if cell.chosen:
            chosen = set(cell.chosen)
            if isinstance(runs, RunTable):
                here = runs.with_keys(chosen)
            else:
                here = tuple(run for run in runs if run.key in chosen)
            lost = [failure for failure in failures if failure.key in chosen]
        else:
            here, lost = of_cell.get(group_key(cell), ()), failed[group_key(cell)]
        if here:
            spread_here = _spread(column(here, "test_accuracy"), here, cell)
            same_splits = _chosen_over_folds(cell, here, of_cell)
            tests = {}
            if isinstance(here, RunTable):
                tests = {
                    name: _spread(accuracy, here, cell)
                    for name, accuracy in here.test_accuracy().items()
                }
            one = Summary(cell, here, spread_here, tuple(lost), same_splits, tests=tests)
            summaries.append(one)
    return summaries


def _by_cell(records: Iterable[T]) -> dict[tuple[Any, ...], list[T]]:
    found: dict[tuple[Any, ...], list[T]] = defaultdict(list)
    for record in records:
        found[group_key(record)].append(record)
    return found


def _chosen_over_folds(
    cell: CellRecord, chosen: Sequence[Run], runs: Mapping[tuple[Any, ...], Sequence[Run]]
) -> float | None:
    """Mean accuracy of the candidate that is best over all folds, on the splits of these runs."""
    if not cell.per_fold or not cell.ranking:
        return None
    splits = {(run.seed, run.fold) for run in chosen}
    one = replace(cell, settings=cell.ranking[0].settings)
    same = [run for run in runs.get(group_key(one), []) if (run.seed, run.fold) in splits]
    accuracy = [100 * run.test_accuracy for run in same if _learnt(run)]
    return float(np.mean(accuracy)) if accuracy else None


def compare_methods(summaries: list[Summary]) -> list[Pair]:
    """All pairs of methods on each data set, on the splits that both have run."""
    pairs = []
    for dataset in dict.fromkeys(s.cell.dataset for s in summaries):
        here = [s for s in summaries if s.cell.dataset == dataset]
        compared = [
            (a.method, b.method, comparison)
            for a, b in itertools.combinations(here, 2)
            if (comparison := _compare(a, b)) is not None
        ]
        adjusted = holm([comparison.p for *_, comparison in compared])
        pairs += [
            Pair(dataset, first, second, comparison, p)
            for (first, second, comparison), p in zip(compared, adjusted, strict=True)
        ]
    return pairs


def _compare(a: Summary, b: Summary) -> Comparison | None:
    same = on_same_splits(a, b)
    return None if same is None else compare(*same, a.cell.settings["folds"])


def on_same_splits(a: Summary, b: Summary) -> tuple[np.ndarray, np.ndarray] | None:
    """``[splits]`` accuracies of both in percent; None if they have no comparable runs."""
    splits = ("folds", "validation")
    same_splits = all(a.cell.settings[name] == b.cell.settings[name] for name in splits)
    same = (a.cell.name, a.cell.fingerprint) == (b.cell.name, b.cell.fingerprint)
    if not (same_splits and same and a.cell.protocol == b.cell.protocol):
        return None  # their splits or the meanings of their results differ
    folds = a.cell.settings["folds"]
    (first, its_accuracy), (second, other_accuracy) = (_by_split(s.runs, folds) for s in (a, b))
    _, at, other_at = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    if not len(at):
        return None
    return its_accuracy[at], other_accuracy[other_at]


def _by_split(runs: Sequence[Run], folds: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the splits, by seed and fold, and accuracies of the runs that have one."""
    accuracy = 100 * column(runs, "test_accuracy")
    split = column(runs, "seed") * folds + column(runs, "fold")
    learnt = ~np.isnan(accuracy)
    return split[learnt], accuracy[learnt]


def _spread(accuracy: np.ndarray, runs: Sequence[Run], cell: CellRecord) -> Spread:
    """The spread of ``[runs]`` accuracies in percent, without missing ones."""
    accuracy = 100 * accuracy
    learnt = ~np.isnan(accuracy)
    if not learnt.any():
        return Spread(float("nan"), None, None, None)
    found = spread(accuracy[learnt], column(runs, "seed")[learnt], cell.settings["folds"])
    if found.ci95 is None:
        return found
    low, high = found.ci95
    return found._replace(ci95=(max(low, 0.0), min(high, 100.0)))


def _learnt(run: Run) -> bool:
    return not np.isnan(run.test_accuracy)
