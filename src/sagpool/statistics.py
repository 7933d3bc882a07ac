"""Means, spreads and comparisons of accuracies from repeated cross-validation."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student


class Spread(NamedTuple):
    """Of the accuracies of one cell; None where there are too few."""

    mean: float
    std_seeds: float | None  # of the per-seed means: how the paper's ± is read
    std_folds: float | None  # of the single trainings
    ci95: tuple[float, float] | None  # of the mean


class Comparison(NamedTuple):
    """Two methods on the same splits."""

    difference: float  # first minus second, the mean over the splits
    p: float
    runs: int


def spread(accuracy: np.ndarray, seed: np.ndarray, folds: int) -> Spread:
    """Of the ``[runs]`` accuracies of a cell with their ``[runs]`` seeds."""
    mean = float(accuracy.mean())
    per_seed = np.array([accuracy[seed == s].mean() for s in np.unique(seed)])
    std_seeds = float(per_seed.std(ddof=1)) if len(per_seed) > 1 else None
    if len(accuracy) < 2:
        return Spread(mean, std_seeds, None, None)
    half = float(student.ppf(0.975, len(accuracy) - 1)) * _corrected_error(accuracy, folds)
    return Spread(mean, std_seeds, float(accuracy.std(ddof=1)), (mean - half, mean + half))


def compare(first: np.ndarray, second: np.ndarray, folds: int) -> Comparison:
    """The corrected resampled t-test (Nadeau and Bengio, 2003) of two methods.

    ``first`` and ``second`` are ``[runs]`` accuracies on the same splits in the same order.
    """
    difference = first - second
    runs, mean = len(difference), float(difference.mean())
    if runs < 2:
        return Comparison(mean, 1.0, runs)
    error = _corrected_error(difference, folds)
    if error == 0:
        return Comparison(mean, 1.0 if mean == 0 else 0.0, runs)
    return Comparison(mean, float(2 * student.sf(abs(mean) / error, runs - 1)), runs)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction of p-values for multiple comparisons."""
    adjusted = [0.0] * len(p)
    highest = 0.0
    for rank, position in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        highest = max(highest, min(1.0, p[position] * (len(p) - rank)))
        adjusted[position] = highest
    return adjusted


def _corrected_error(values: np.ndarray, folds: int) -> float:
    """The standard error of the mean, for trainings whose training sets overlap.

    The usual one, s / √n, shrinks towards zero with the number of seeds, although all seeds use the
    same data set. Nadeau and Bengio add the ratio of the sizes of test and training set. In a
    cross-validation that is 1 / (folds - 1), since validation counts as part of the training set.
    """
    variance = float(values.var(ddof=1))
    return math.sqrt(variance * (1 / len(values) + 1 / (folds - 1)))
