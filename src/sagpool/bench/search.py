"""Searches for settings, by validation results only.

The paper does not say which trainings its grid search used. Ours uses the folds of the first seed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np

from sagpool.bench.plan import repeat, settings_of, training_of
from sagpool.bench.records import Ranked, Validation
from sagpool.fleet import Training

# Of the first round of halving: enough epochs to recognise a hopeless learning rate.
FEWEST_EPOCHS = 16
FEWEST_FOLDS = 2

# Trains all of them and returns their validation results, in order.
Train = Callable[[Sequence[Training]], Sequence[Validation]]


class Search(StrEnum):
    NONE = "none"
    GRID = "grid"
    HALVING = "halving"


def choose(search: Search, candidates: Sequence[Training], train: Train) -> list[Ranked]:
    """The candidates, best first.

    Ranked by mean validation accuracy, since the tables report accuracy; ties are broken by the
    lower loss. Candidates that halving has dropped follow, those of later rounds first.
    """
    if search is Search.HALVING:
        return _halving(candidates, train)
    return _rank(candidates, candidates, train, folds=candidates[0].folds)


def count_trainings(search: Search, candidates: Sequence[Training]) -> int:
    """How many trainings the search needs."""
    if search is Search.GRID:
        return len(candidates) * candidates[0].folds
    total, left = 0, len(candidates)
    for _, folds in rounds(candidates):
        total += left * folds
        left = math.ceil(left / 2)
    return total


def rounds(candidates: Sequence[Training]) -> list[tuple[int, int]]:
    """Epochs (at most) and folds of each round of halving; the last round is a full one.

    The epochs double from round to round; the folds double only towards the end.
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
        left = [training_of(left[0].method, entry.settings) for entry in ranked[:kept]]
    return _rank(left, left, train, schedule[-1][1]) + dropped


def _rank(
    candidates: Sequence[Training], trained: Sequence[Training], train: Train, folds: int
) -> list[Ranked]:
    """Rank the candidates by the results of ``trained``: themselves, or shorter trainings."""
    trainings = [one for template in trained for one in repeat(template, seeds=1, folds=folds)]
    seen = np.array(train(trainings)).reshape(len(candidates), folds, 2)
    # A candidate that fails in a single fold is unreliable.
    accuracy = np.nan_to_num(seen[..., 0], nan=0.0).mean(1)
    loss = np.nan_to_num(seen[..., 1], nan=np.inf).mean(1)
    return [
        Ranked(settings_of(candidates[i]), float(accuracy[i]), float(loss[i]), folds)
        for i in np.lexsort((loss, -accuracy))
    ]
