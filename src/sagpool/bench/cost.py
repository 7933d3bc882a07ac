"""The cost of a search, compared with the full grid."""

from collections.abc import Mapping, Sequence

import numpy as np

from sagpool.bench.plan import repeat
from sagpool.bench.records import SearchCost, Validation
from sagpool.fleet import Training


def search_cost(
    candidates: Sequence[Training],
    seeds: int,
    seen: Mapping[Training, Validation],
    ended: Mapping[Training, int],
) -> SearchCost:
    """The models × epochs that the search has trained, and those of the full grid.

    An unfinished training of the full grid counts with a lower bound: the epoch at which its
    patience would run out. Folds that a candidate never began count like its other folds.

    Args:
        candidates: candidates of the search, for seed 0 and fold 0
        seeds: number of seeds that the search uses
        seen: the latest result of each training that the search has begun
        ended: epochs of all trainings that have ended, even if the search did not need that
    """
    grid, exact = 0.0, True
    for candidate in candidates:
        trainings = repeat(candidate, seeds)
        known = [ended[one] for one in trainings if one in ended]
        exact = exact and len(known) == len(trainings)
        known += [
            _fewest_epochs(one, seen[one]) for one in trainings if one in seen and one not in ended
        ]
        shortest = min(candidate.patience + 1, candidate.max_epochs)
        grid += float(np.mean(known or [shortest])) * len(trainings)
    return SearchCost(sum(one.epochs for one in seen.values()), round(grid), exact)


def _fewest_epochs(training: Training, seen: Validation) -> int:
    """A lower bound of the epochs of a training."""
    if seen.ended:
        return seen.epochs
    return max(seen.epochs, min(seen.best_epoch + training.patience, training.max_epochs))
