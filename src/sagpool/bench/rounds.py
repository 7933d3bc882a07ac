"""Common to all searches: rounds of trainings, and a ranking by their results."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from sagpool.bench.plan import repeat, settings_of
from sagpool.bench.records import Ranked, Validation
from sagpool.fleet import Training


class Round(NamedTuple):
    """Trainings to compare. Trainings of an earlier round continue where they paused."""

    trainings: tuple[Training, ...]
    until: int | None  # the epoch at which to compare them; None: train to the end


# A search yields rounds, gets the validation results of each (in the order of its trainings) and
# returns the candidates, best first.
Program = Generator[Round, Sequence[Validation], list[Ranked]]


def every_fold(candidates: Sequence[Training], folds: int, seeds: int = 1) -> tuple[Training, ...]:
    """The candidates on the first folds of the first seeds, one candidate after the other."""
    return tuple(one for template in candidates for one in repeat(template, seeds, folds))


def epoch_or_end(epoch: int, max_epochs: int) -> int | None:
    """``epoch`` as a `Round` has it: None if trainings end by then."""
    return epoch if epoch < max_epochs else None


def ranked_values(candidates: int, seen: Sequence[Validation]) -> np.ndarray:
    """``[candidates, splits]`` values to compare; higher is better.

    Splits for which the value is undefined are left out. A training that failed has 0 in place of
    an accuracy; in place of another value, its candidate has -inf.
    """
    table = np.array([one.rank for one in seen], np.float64).reshape(candidates, -1)
    if all(one.value is None for one in seen):
        return np.nan_to_num(table, nan=0.0)
    table[np.isneginf(table).any(1)] = -np.inf
    defined = ~np.isnan(table).any(0)
    return table[:, defined]


DECIMALS = 12  # of the means that are compared


def rank(
    candidates: Sequence[Training], seen: Sequence[Validation]
) -> list[tuple[Training, Ranked]]:
    """The candidates with their results, best first.

    Ranked by mean validation accuracy, since the tables report accuracy, or by `Validation.value`
    if given; ties are broken by the lower loss.

    Args:
        candidates: the candidates, each with one result per seed and fold
        seen: results in the order of `every_fold`
    """
    table = np.array([(one.accuracy, one.loss) for one in seen]).reshape(len(candidates), -1, 2)
    # A candidate that fails in a single fold is unreliable.
    accuracy = np.nan_to_num(table[..., 0], nan=0.0).mean(1)
    loss = np.nan_to_num(table[..., 1], nan=np.inf).mean(1)
    value = ranked_values(len(candidates), seen).mean(1)
    value = value.round(DECIMALS)  # in another order of folds, equal values differ by rounding
    runs = table.shape[1]
    return [
        (
            candidates[i],
            Ranked(settings_of(candidates[i]), float(accuracy[i]), float(loss[i]), runs),
        )
        for i in np.lexsort((loss, -value))
    ]
