"""What a search would have chosen, and what it would have cost, in a finished grid search.

python scripts/simulate_race.py runs.sqlite [--search race] [--resamples 200] [--json]

Every cell of the run store whose grid is complete is searched again with the stored curves. Regret
is how much lower the mean validation accuracy of the choice is than that of the grid's choice, in
points; cost is a fraction of the grid's models × epochs. One grid tells little, so the search is
repeated on resamples: half of the candidates, with the folds in another order.

Instead of a run store, .npz files with the curves of one grid each are accepted: ``meta`` [n, 8]
(hidden, ratio, lr, weight decay, fold, ...), ``lens`` [n], and ``loss`` and ``acc`` end to end.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sagpool.bench import Search, Store
from sagpool.bench.plan import training_of
from sagpool.bench.records import Validation, best_epoch
from sagpool.bench.search import choose
from sagpool.fleet import Training

QUANTILES = (0.5, 0.9, 1.0)
Curves = dict[Training, np.ndarray]  # of every fold: [2, epochs] validation loss and accuracy


class Searched(NamedTuple):
    regret: float
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
    """What a search knows about a training at that epoch."""
    part = curve[:, :until]
    epochs, best = part.shape[1], best_epoch(part[0])
    loss, accuracy = part[:, best - 1].tolist() if best else (np.nan, np.nan)
    return Validation(accuracy, loss, epochs, epochs == curve.shape[1], part)


def simulate(
    search: Search, curves: Curves, candidates: Sequence[Training], order: Sequence[int]
) -> Searched:
    """Run the search on stored curves, with the folds in this order."""
    stored = {
        replace(candidate, fold=fold): curves[replace(candidate, fold=order[fold])]
        for candidate in candidates
        for fold in range(candidate.folds)
    }
    trained: dict[Training, int] = {}
    program = choose(search, candidates)
    asked = next(program)
    while True:
        known = [seen(stored[training], asked.until) for training in asked.trainings]
        trained |= {t: one.epochs for t, one in zip(asked.trainings, known, strict=True)}
        try:
            asked = program.send(known)
        except StopIteration as stop:
            ranked = stop.value
            break
    chosen = training_of(candidates[0].method, ranked[0].settings)
    accuracy = {one: _mean_accuracy(stored, one) for one in candidates}
    regret = 100 * (max(accuracy.values()) - accuracy[chosen])
    return Searched(regret, sum(trained.values()) / sum(c.shape[1] for c in stored.values()))


def _mean_accuracy(stored: Curves, candidate: Training) -> float:
    ends = [seen(stored[replace(candidate, fold=fold)], None) for fold in range(candidate.folds)]
    return float(np.nan_to_num([end.accuracy for end in ends]).mean())


def report(search: Search, name: str, curves: Curves, resamples: int) -> dict[str, object]:
    candidates = complete(curves)
    folds, random, found = np.arange(candidates[0].folds), np.random.default_rng(0), []
    whole = simulate(search, curves, candidates, folds)
    for _ in range(resamples):
        half = sorted(random.permutation(len(candidates))[: (len(candidates) + 1) // 2])
        some = [candidates[index] for index in half]
        found.append(simulate(search, curves, some, random.permutation(folds)))
    row: dict[str, object] = {"cell": name, "candidates": len(candidates), **whole._asdict()}
    if found:
        regrets, costs = np.array(found).T
        row |= {
            "resamples": resamples,
            "mean_regret": float(regrets.mean()),
            "regret_quantiles": dict(zip(QUANTILES, np.quantile(regrets, QUANTILES), strict=True)),
            "within_half_a_point": float((regrets <= 0.5 + 1e-9).mean()),
            "cost_quantiles": dict(zip(QUANTILES, np.quantile(costs, QUANTILES), strict=True)),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--search", type=Search, default=Search.RACE)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cells = {name: curves for file in options.files for name, curves in read(file).items()}
    grids = {name: curves for name, curves in cells.items() if len(complete(curves)) > 1}
    rows = [report(options.search, *grid, options.resamples) for grid in grids.items()]
    if options.json:
        print(json.dumps(rows, indent=2))
    for row in rows if not options.json else ():
        print(", ".join(f"{key} {_short(value)}" for key, value in row.items()))


def _short(value: object) -> str:
    if isinstance(value, dict):
        return " / ".join(f"{number:.3g}" for number in value.values())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
