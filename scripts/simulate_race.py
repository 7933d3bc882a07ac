"""Simulate a search in a finished grid search: its choice and its cost.

python scripts/simulate_race.py runs.sqlite [--search race] [--resamples 200] [--json]

Every cell of the run store with a complete grid is searched again with the stored curves. The
stored folds stand for all possible folds: a candidate is as good as its mean validation accuracy
over them. Regret is the accuracy of the best candidate minus that of the choice, in points; cost is
a fraction of the grid's models × epochs.

One search tells little, so it is repeated on resamples, whose folds are drawn with replacement for
every seed. A grid search also chooses by few folds, so its regret is shown as well. A further
figure is how often a choice is at most half a point worse than the choice of a grid search on other
folds, for the search and for a grid search.

Instead of a run store, .npz files with the curves of one grid each are accepted: ``meta`` [n, 8]
(hidden, ratio, lr, weight decay, fold, ...), ``lens`` [n], and ``loss`` and ``acc`` end to end.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sagpool.bench import Search, Store
from sagpool.bench.plan import repeat, training_of
from sagpool.bench.records import Validation, best_epoch
from sagpool.bench.rounds import rank
from sagpool.bench.search import choose
from sagpool.fleet import Training

QUANTILES = (0.5, 0.9, 1.0)
SEEDS = 16  # more than any search uses
Curves = dict[Training, np.ndarray]  # for every fold: [2, epochs] validation loss and accuracy


class Searched(NamedTuple):
    chosen: Training
    cost: float


def read(path: Path) -> dict[str, Curves]:
    """The curves of all trainings of seed 0, by data set and method."""
    cells: dict[str, Curves] = defaultdict(dict)
    if path.suffix == ".npz":
        file = np.load(path)
        ends = np.cumsum(file["lens"])[:-1]
        curves = zip(np.split(file["loss"], ends), np.split(file["acc"], ends), strict=True)
        for (hidden, ratio, lr, decay, fold, *_), curve in zip(file["meta"], curves, strict=True):
            training = Training("sagpool-h", 0, int(fold), lr, decay, int(hidden), ratio)
            cells[path.stem][training] = np.stack(curve)
        return cells
    with Store.reading(path) as store:
        for run in store.runs():
            if run.seed == 0:
                training = replace(training_of(run.method, run.settings), fold=run.fold)
                cells[f"{run.name} {run.method}"][training] = run.curve[1:]
    return cells


def complete(curves: Curves) -> list[Training]:
    """The candidates that have all folds."""
    folds: dict[Training, int] = defaultdict(int)
    for training in curves:
        folds[replace(training, fold=0)] += 1
    return [candidate for candidate, count in folds.items() if count == candidate.folds]


def seen(curve: np.ndarray, until: int | None) -> Validation:
    """What a search knows about a training at this epoch."""
    part = curve[:, :until]
    epochs, best = part.shape[1], best_epoch(part[0])
    loss, accuracy = part[:, best - 1].tolist() if best else (np.nan, np.nan)
    return Validation(accuracy, loss, epochs, epochs == curve.shape[1], part)


class FinishedGrid:
    """The complete candidates of a cell, with all values that a search may ask for."""

    def __init__(self, curves: Curves) -> None:
        self.candidates = complete(curves)
        self.known = cache(lambda training, until: seen(curves[training], until))
        self.in_fold = cache(lambda training, fold: replace(training, seed=0, fold=fold))
        self.ends = {
            candidate: [self.known(one, None) for one in repeat(candidate, seeds=1)]
            for candidate in self.candidates
        }

    def accuracy(self, candidate: Training) -> float:
        """The mean accuracy over the stored folds, in percent."""
        return 100 * float(np.nan_to_num([end.accuracy for end in self.ends[candidate]]).mean())

    def choice(self, candidates: Sequence[Training], folds: np.ndarray) -> Training:
        """The choice of a grid search with stored folds ``[seeds, folds]``."""
        return rank(candidates, self._ends(candidates, folds))[0][0]

    def search(self, search: Search, candidates: Sequence[Training], folds: np.ndarray) -> Searched:
        """Run the search with stored folds ``[seeds, folds]`` in place of those it requests."""
        trained: dict[Training, int] = {}

        def result(training: Training, until: int | None) -> Validation:
            fold = int(folds[training.seed, training.fold])
            known = self.known(self.in_fold(training, fold), until)
            trained[training] = known.epochs
            return known

        program = choose(search, candidates)
        asked = next(program)
        while True:
            try:
                asked = program.send([result(one, asked.until) for one in asked.trainings])
            except StopIteration as stop:
                ranked = stop.value
                break
        whole = sum(end.epochs for end in self._ends(candidates, folds))
        chosen = training_of(candidates[0].method, ranked[0].settings)
        return Searched(chosen, sum(trained.values()) / whole)

    def _ends(self, candidates: Sequence[Training], folds: np.ndarray) -> list[Validation]:
        """The results of a grid, which uses the first seed."""
        return [self.ends[candidate][fold] for candidate in candidates for fold in folds[0]]


def report(
    search: Search, name: str, grid: FinishedGrid, resamples: int, fraction: float
) -> dict[str, object]:
    count, folds = len(grid.candidates), grid.candidates[0].folds
    random = np.random.default_rng(0)
    accuracy = {candidate: grid.accuracy(candidate) for candidate in grid.candidates}

    def draw() -> np.ndarray:
        return random.integers(folds, size=(SEEDS, folds))

    as_stored = draw()
    as_stored[0] = np.arange(folds)
    whole = grid.search(search, grid.candidates, as_stored)
    regret = max(accuracy.values()) - accuracy[whole.chosen]
    row: dict[str, object] = {"cell": name, "candidates": count, "regret": regret}
    row |= {"cost": whole.cost}
    regrets, worse, costs = [], [], []  # regret, and points below the other grid: [search, grid]
    for _ in range(resamples):
        drawn = sorted(random.permutation(count)[: max(2, round(fraction * count))])
        some, here, elsewhere = [grid.candidates[index] for index in drawn], draw(), draw()
        found = grid.search(search, some, here)
        chosen = np.array([accuracy[found.chosen], accuracy[grid.choice(some, here)]])
        regrets.append(max(accuracy[one] for one in some) - chosen)
        worse.append(accuracy[grid.choice(some, elsewhere)] - chosen)
        costs.append(found.cost)
    if resamples:
        row |= {
            "resamples": resamples,
            "mean_regret": np.mean(regrets, 0).tolist(),
            "regret_quantiles": np.quantile(regrets, QUANTILES, axis=0).T.tolist(),
            "within_half_a_point": (np.array(worse) <= 0.5 + 1e-9).mean(0).tolist(),
            "cost_quantiles": np.quantile(costs, QUANTILES).tolist(),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--search", type=Search, default=Search.RACE)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--candidates", type=float, default=1.0, help="fraction, of a resample")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cells = [(file, *cell) for file in options.files for cell in read(file).items()]
    grids = [(f"{file.stem}: {name}", FinishedGrid(curves)) for file, name, curves in cells]
    rows = [
        report(options.search, name, grid, options.resamples, options.candidates)
        for name, grid in grids
        if len(grid.candidates) > 1
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
    for row in rows if not options.json else ():
        print(", ".join(f"{key} {_short(value)}" for key, value in row.items()))


def _short(value: object) -> str:
    if isinstance(value, list):
        several = isinstance(value[0], list)
        return (" beside " if several else " / ").join(map(_short, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
