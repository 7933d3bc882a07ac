"""Choosing settings, by validation results alone.

The paper does not say on which trainings its grid search looked. Ours looks at the folds of the
first seed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np

from sagpool.bench.plan import repeat, settings_of
from sagpool.bench.records import Ranked, Validation
from sagpool.fleet import Training

# What halving gives its first round: enough epochs to see that a learning rate is hopeless.
FEWEST_EPOCHS = 16
FEWEST_FOLDS = 2

# Trains all of them and gives what a search may know, in their order.
Train = Callable[[Sequence[Training]], Sequence[Validation]]


class Search(StrEnum):
    NONE = "none"
    GRID = "grid"
    HALVING = "halving"


def choose(search: Search, candidates: Sequence[Training], train: Train) -> list[Ranked]:
    """The candidates, best first.

    By the mean validation accuracy, the measure of the tables; the lower loss decides between
    equals. Those that halving has dropped come after those that it kept, later rounds first.
    """
    if search is Search.HALVING:
        return _halving(candidates, train)
    return _rank(candidates, candidates, train, folds=candidates[0].folds)


def rounds(candidates: Sequence[Training]) -> list[tuple[int, int]]:
    """The most epochs and the number of folds of each round of halving; the last is the full one.

    The number of epochs doubles from round to round, and that of the folds towards the end.
    """
    first = candidates[0]
    count = max(1, math.ceil(math.log2(len(candidates))))
    steps = [
        (
            min(first.max_epochs, FEWEST_EPOCHS * 2**step),
            min(first.folds, max(FEWEST_FOLDS, math.ceil(first.folds / 2 ** (count - 1 - step)))),
        )
        for step in range(count - 1)
    ]
    return [*steps, (first.max_epochs, first.folds)]


def _halving(candidates: Sequence[Training], train: Train) -> list[Ranked]:
    left, dropped = list(candidates), list[Ranked]()
    schedule = rounds(candidates)
    for epochs, folds in schedule[:-1]:
        shortened = [replace(candidate, max_epochs=epochs) for candidate in left]
        ranked = _rank(left, shortened, train, folds)
        kept = math.ceil(len(left) / 2)
        dropped = ranked[kept:] + dropped
        left = [Training(left[0].method, **entry.settings) for entry in ranked[:kept]]
    return _rank(left, left, train, schedule[-1][1]) + dropped


def _rank(
    candidates: Sequence[Training], trained: Sequence[Training], train: Train, folds: int
) -> list[Ranked]:
    """The candidates by what came out of ``trained``, their own or shorter trainings."""
    trainings = [one for template in trained for one in repeat(template, seeds=1, folds=folds)]
    seen = np.array(train(trainings)).reshape(len(candidates), folds, 2)
    # One that comes to nothing in a single fold is not one to rely on.
    accuracy = np.nan_to_num(seen[..., 0], nan=0.0).mean(1)
    loss = np.nan_to_num(seen[..., 1], nan=np.inf).mean(1)
    return [
        Ranked(settings_of(candidates[i]), float(accuracy[i]), float(loss[i]), folds)
        for i in np.lexsort((loss, -accuracy))
    ]
