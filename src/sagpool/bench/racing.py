"""A race: all candidates train on the same folds, and the worse ones are dropped early.

After each round only the better candidates stay, on more folds and for more epochs. A candidate
counts as good if it is good now or improving fast enough: a low learning rate is slow at first and
may still win. The finalists train to the end on all folds, and the better half of them again with
the next seed, until one is left.

Further seeds are needed because the folds of one seed cannot tell good candidates apart: over 10
folds, the difference of two candidates has a standard deviation of 1.4 points (PROTEINS, NCI1),
about as large as the true difference. ``scripts/simulate_race.py`` shows what a race would have
cost and chosen in a finished grid search.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sagpool.bench.records import Ranked, Validation
from sagpool.bench.rounds import Program, Round, epoch_or_end, every_fold, rank, ranked_values
from sagpool.fleet import Training
from sagpool.statistics import SAME, compare

# So few candidates are cheap to train; one is dropped only if it is significantly worse.
FEW = 4
SIGNIFICANT = 0.05
FEWEST_TESTED_FOLDS = 3
NEARBY = 5  # epochs on each side of the best one


class Stage(NamedTuple):
    """A round before the finals, for trainings of any length."""

    epochs: float  # as a fraction of the patience; no training is shorter than that
    folds: float  # a fraction of all folds
    stay: float  # the fraction of the candidates that continues


# Most candidates are soon seen to be bad, and are dropped early. One in 24 (8 of the paper's 192)
# is a finalist. Each round, including those of the finalists, then costs 1 to 3 % of the grid.
STAGES = (Stage(0.4, 0.2, 1 / 4), Stage(0.8, 0.4, 1 / 3), Stage(1.4, 0.8, 1 / 2))


class RaceRound(NamedTuple):
    until: int | None  # the epoch; None: the end
    folds: int
    stay: float


def race(candidates: Sequence[Training]) -> Program:
    """Drop the worse candidates in each round, then train the finalists with one or more seeds."""
    left, dropped = list(candidates), list[Ranked]()
    for until, folds, stay in race_rounds(candidates[0]):
        if len(left) == 1:
            break
        results = yield Round(every_fold(left, folds), until)
        seen = [_smoothed(one) for one in results]
        staying = _survivors(left, seen, math.ceil(len(left) * stay))
        ranked = rank(left, seen)
        dropped = [result for candidate, result in ranked if candidate not in staying] + dropped
        left = [candidate for candidate in left if candidate in staying]
    for seeds in itertools.count(1):
        results = yield Round(every_fold(left, candidates[0].folds, seeds), None)
        ranked = rank(left, results)
        again = _count_with_next_seed(len(left), len(candidates))
        if again < 2:
            break
        dropped = [result for _, result in ranked[again:]] + dropped
        left = [candidate for candidate, _ in ranked[:again]]
    return [result for _, result in ranked] + dropped


def race_rounds(training: Training) -> list[RaceRound]:
    """The rounds before the finals, for candidates with this patience and number of folds."""

    def round_of(stage: Stage) -> RaceRound:
        epoch = max(1, round(stage.epochs * training.patience))
        folds = min(training.folds, max(2, math.ceil(stage.folds * training.folds)))
        return RaceRound(epoch_or_end(epoch, training.max_epochs), folds, stage.stay)

    return [round_of(stage) for stage in STAGES]


def count_race(candidates: Sequence[Training]) -> int:
    """The most trainings that a race begins."""
    total, left, before = 0, len(candidates), 0
    for _, folds, stay in race_rounds(candidates[0]):
        total += left * (folds - before)
        left, before = _most_staying(left, stay), folds
    total += left * (candidates[0].folds - before)
    while (left := _count_with_next_seed(left, len(candidates))) > 1:
        total += left * candidates[0].folds
    return total


def most_seeds(candidates: Sequence[Training]) -> int:
    """The most seeds with which a race trains a candidate."""
    left, seeds = len(candidates), 1
    for _, _, stay in race_rounds(candidates[0]):
        left = _most_staying(left, stay)
    while (left := _count_with_next_seed(left, len(candidates))) > 1:
        seeds += 1
    return seeds


def _most_staying(left: int, stay: float) -> int:
    """Few candidates all stay unless they are significantly worse."""
    return max(math.ceil(left * stay), min(FEW, left))


def _count_with_next_seed(finalists: int, candidates: int) -> int:
    """The number of finalists that train with the next seed.

    Never more than a quarter of all candidates: if few were dropped, little time was saved.
    """
    return min(math.ceil(finalists / 2), candidates // 4)


def _survivors(candidates: list[Training], seen: Sequence[Validation], count: int) -> set[Training]:
    """The best candidates; if few would be left, also those that are not significantly worse."""
    now = [candidate for candidate, _ in rank(candidates, seen)]
    soon = _by_expected_loss(candidates, seen)
    places = {candidate: min(now.index(candidate), soon.index(candidate)) for candidate in now}
    order = sorted(now, key=lambda candidate: places[candidate])  # stable: first those good now
    staying, others = order[:count], order[count:]
    if count < FEW:
        table = ranked_values(len(candidates), seen)
        accuracy = dict(zip(candidates, table, strict=True))
        best = accuracy[now[0]]
        as_good = [one for one in others if not _is_worse(accuracy[one], best, one.folds)]
        staying += as_good[: FEW - count]
    return set(staying)


def _smoothed(seen: Validation) -> Validation:
    """The result with the mean accuracy of epochs near the best one; single epochs are noisy."""
    if not math.isfinite(seen.accuracy) or seen.value is not None:
        return seen
    best = seen.best_epoch - 1
    near = seen.curve[1, max(0, best - NEARBY) : best + NEARBY + 1]
    return seen._replace(accuracy=float(np.nanmean(near)))


def _by_expected_loss(candidates: list[Training], seen: Sequence[Validation]) -> list[Training]:
    expected = np.array([_expected_loss(one) for one in seen]).reshape(len(candidates), -1)
    return [candidates[index] for index in np.argsort(expected.mean(1), kind="stable")]


def _expected_loss(seen: Validation) -> float:
    """The loss if the second half of the epochs so far were repeated."""
    if not math.isfinite(seen.loss):
        return math.inf
    if seen.ended or seen.epochs < 2:
        return seen.loss
    losses = seen.curve[0, : seen.epochs // 2]
    before = np.min(losses[np.isfinite(losses)], initial=np.inf)
    return seen.loss - (before - seen.loss) if math.isfinite(before) else seen.loss


def _is_worse(accuracy: np.ndarray, best: np.ndarray, folds: int) -> bool:
    """Whether ``[folds]`` accuracies are significantly lower than the best candidate's.

    If they are lower by the same amount on every fold, there is no error to test with.
    """
    if not np.isfinite(accuracy).all():
        return True  # failed
    if len(accuracy) < FEWEST_TESTED_FOLDS:
        return False
    difference, p, _ = compare(best, accuracy, folds)
    same = float(np.ptp(best - accuracy)) < SAME
    return difference > 0 and (same or p < SIGNIFICANT)
