"""Searches for settings, by validation results only; see `selection` for the one exception.

The paper does not say which trainings its grid search used. Ours uses the folds of the first seed;
only a race goes on with further seeds.
"""

import math
from collections.abc import Sequence
from enum import StrEnum

from sagpool.bench.racing import count_race, race
from sagpool.bench.records import Ranked
from sagpool.bench.rounds import Program, Round, epoch_or_end, every_fold, rank
from sagpool.fleet import Training

__all__ = ["Program", "Round", "Search", "choose", "count_trainings", "halving_rounds"]

# Epochs of the first round of halving: enough to recognise a hopeless learning rate.
FEWEST_EPOCHS = 16
FEWEST_FOLDS = 2


class Search(StrEnum):
    """How the settings of a cell are searched for; ``none``: they are fixed."""

    NONE = "none"
    GRID = "grid"
    HALVING = "halving"
    RACE = "race"


def choose(search: Search, candidates: Sequence[Training]) -> Program:
    """Search for the best of the candidates; see `Program`.

    Dropped candidates follow the others, the last dropped first, with their results up to then.
    """
    if search is Search.HALVING:
        return halving(candidates)
    if search is Search.RACE:
        return race(candidates)
    return grid(candidates)


def grid(candidates: Sequence[Training]) -> Program:
    """All candidates on all folds, to the end."""
    seen = yield Round(every_fold(candidates, candidates[0].folds), None)
    return [result for _, result in rank(candidates, seen)]


def halving(candidates: Sequence[Training]) -> Program:
    """Halve the candidates in each round, with more epochs and later on more folds."""
    left, dropped = list(candidates), list[Ranked]()
    *early, (_, folds) = halving_rounds(candidates)
    for until, few in early:
        seen = yield Round(every_fold(left, few), until)
        ranked = rank(left, seen)
        kept = math.ceil(len(left) / 2)
        dropped = [result for _, result in ranked[kept:]] + dropped
        left = [candidate for candidate, _ in ranked[:kept]]
    seen = yield Round(every_fold(left, folds), None)
    return [result for _, result in rank(left, seen)] + dropped


def halving_rounds(candidates: Sequence[Training]) -> list[tuple[int | None, int]]:
    """The epoch and the folds of each round of halving; the last round is a full one.

    The epochs double from round to round; the folds double only towards the end.
    """
    first = candidates[0]
    count = max(1, math.ceil(math.log2(len(candidates))))
    steps = [
        (
            epoch_or_end(FEWEST_EPOCHS * 2**step, first.max_epochs),
            min(first.folds, max(FEWEST_FOLDS, math.ceil(first.folds / 2 ** (count - 1 - step)))),
        )
        for step in range(count - 1)
    ]
    return [*steps, (None, first.folds)]


def count_trainings(search: Search, candidates: Sequence[Training]) -> int:
    """The most trainings that the search begins; each is counted once."""
    if search is Search.RACE:
        return count_race(candidates)
    if search is not Search.HALVING:
        return len(candidates) * candidates[0].folds
    total, left, before = 0, len(candidates), 0
    for _, now in halving_rounds(candidates):
        total += left * (now - before)
        left, before = math.ceil(left / 2), now
    return total
