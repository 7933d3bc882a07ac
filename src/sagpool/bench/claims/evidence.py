"""The rows by which claims are judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sagpool.bench.experiment import Accuracy, Experiment, Related
from sagpool.bench.run_table import column
from sagpool.bench.summary import Summary


@dataclass(frozen=True, eq=False)
class CellRows:
    """The test accuracies of one method on one data set."""

    accuracy: Mapping[tuple[int, int], float]  # in percent, by seed and fold; NaN if diverged
    splits: tuple[Any, ...]  # equal for cells with the same splits
    folds: int
    note: str = ""  # how the data differ from those of the published experiment

    @staticmethod
    def of(summary: Summary) -> CellRows:
        cell, runs = summary.cell, summary.runs
        splits = [column(runs, name).tolist() for name in ("seed", "fold")]
        accuracy = 100 * column(runs, "test_accuracy")
        return CellRows(
            dict(zip(zip(*splits, strict=True), accuracy.tolist(), strict=True)),
            (cell.name, cell.fingerprint, cell.settings["folds"], cell.settings["validation"]),
            cell.settings["folds"],
            cell.note,
        )

    @property
    def learnt(self) -> dict[tuple[int, int], float]:
        """The accuracies of all runs that did not diverge at once."""
        return {split: value for split, value in self.accuracy.items() if not np.isnan(value)}

    @property
    def seed_means(self) -> dict[int, float]:
        """Means by seed, only for seeds with all folds: some folds are easier than others."""
        runs: dict[int, list[float]] = defaultdict(list)
        for (seed, _), value in sorted(self.accuracy.items()):
            runs[seed].append(value)
        return {
            seed: float(np.nanmean(values))
            for seed, values in runs.items()
            if len(values) == self.folds and not np.all(np.isnan(values))
        }


@dataclass(frozen=True, eq=False)
class Evidence:
    """The cells of a store, the published results, and the size of a complete cell."""

    cells: Mapping[tuple[str, str], CellRows]  # by data set and method
    published: Mapping[tuple[str, str], Accuracy]
    published_seeds: int
    runs: Mapping[str, int]  # numbers of runs of complete cells, by data set
    related: Related = ()  # data sets whose errors are taken as fully correlated

    @staticmethod
    def of(
        experiment: Experiment, cells: Mapping[tuple[str, str], CellRows], related: Related = ()
    ) -> Evidence:
        runs = {name: experiment.runs_of(name) for name in experiment.datasets}
        return Evidence(cells, experiment.accuracy, experiment.published_seeds, runs, related)
