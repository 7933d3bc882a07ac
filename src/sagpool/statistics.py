"""Means, spreads and comparisons of accuracies from repeated cross-validation."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

SAME = 1e-9  # accuracies that differ by less differ by rounding
SIGNIFICANT = 0.05
MARGIN = 1.0  # percentage points within which two methods count as equivalent


class Spread(NamedTuple):
    """Mean and spread of the accuracies of one cell; None where there are too few.

    There is no interval either if all accuracies are equal.
    """

    mean: float
    # Standard deviation of the per-seed means, our reading of the paper's ±.
    std_seeds: float | None
    std_folds: float | None  # standard deviation of the single trainings
    ci95: tuple[float, float] | None  # 95 % interval of the mean


class Comparison(NamedTuple):
    """Two methods on the same splits."""

    difference: float  # first minus second, mean over the splits
    p: float
    runs: int


class Outcome(StrEnum):
    """The verdict of a comparison on the first of two methods."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Difference:
    """A difference of two means, with its standard error and the error's degrees of freedom.

    An error of zero says that all splits have the same difference, such as that of two networks
    that always predict one class. It says nothing about other graphs, so no test is significant and
    there is no interval.
    """

    mean: float
    error: float
    df: float

    @property
    def p(self) -> float:
        """The p-value of the two-sided t-test of no difference."""
        return min(1.0, 2 * self._tail(abs(self.mean)))

    def p_above(self, bound: float) -> float:
        """The p-value of the one-sided t-test that the difference is at most ``bound``."""
        return self._tail(self.mean - bound)

    def p_equivalent(self, margin: float = MARGIN) -> float:
        """The p-value of two one-sided t-tests that the difference is ``margin`` or more."""
        return self._tail(margin - abs(self.mean))

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        if self.error == 0:
            return None
        half = _student_quantile((1 + level) / 2, self.df) * self.error
        return self.mean - half, self.mean + half

    def _tail(self, distance: float) -> float:
        if self.error == 0:
            return 1.0
        return _student_tail(distance / self.error, self.df)


def evenly_spaced(count: int, most: int) -> np.ndarray:
    """Numbers below ``count``: all of them, or ``most`` evenly spaced ones."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def spread(accuracy: np.ndarray, seed: np.ndarray, folds: int) -> Spread:
    """The spread of the ``[runs]`` accuracies of a cell with their ``[runs]`` seeds."""
    mean = float(accuracy.mean())
    per_seed = np.array([accuracy[seed == s].mean() for s in np.unique(seed)])
    std_seeds = float(per_seed.std(ddof=1)) if len(per_seed) > 1 else None
    if len(accuracy) < 2:
        return Spread(mean, std_seeds, None, None)
    of_mean = Difference(mean, _corrected_error(accuracy, folds), len(accuracy) - 1)
    return Spread(mean, std_seeds, float(accuracy.std(ddof=1)), of_mean.interval())


def paired_difference(first: np.ndarray, second: np.ndarray, folds: int) -> Difference:
    """The difference of two methods with the corrected error of Nadeau and Bengio (2003).

    ``first`` and ``second`` are ``[runs]`` accuracies on the same splits in the same order; there
    must be at least two.
    """
    values = first - second
    values[np.abs(values) < SAME] = 0.0
    return Difference(float(values.mean()), _corrected_error(values, folds), len(values) - 1)


def compare(first: np.ndarray, second: np.ndarray, folds: int) -> Comparison:
    """The corrected resampled t-test of two methods; see `paired_difference`."""
    runs = len(first)
    if runs < 2:
        return Comparison(float((first - second).mean()), 1.0, runs)
    difference = paired_difference(first, second, folds)
    return Comparison(difference.mean, difference.p, runs)


def mean_difference(
    differences: Mapping[str, Difference], related: Iterable[Sequence[str]] = ()
) -> Difference:
    """The mean over data sets, all with the same weight.

    The variances of independent data sets add up; the degrees of freedom are Satterthwaite's. The
    result is about these data sets, not about data sets in general.

    If the error of one data set is zero, so is that of the mean: its true error is unknown, see
    `Difference`, and to count it as zero would make the mean look more precise.

    Args:
        differences: by data set
        related: groups of data sets that share graphs. Their errors are taken as fully correlated,
            which is an upper bound: the errors add up, not the variances
    """
    count = len(differences)
    mean = sum(difference.mean for difference in differences.values()) / count
    if any(difference.error == 0 for difference in differences.values()):
        return Difference(mean, 0.0, min(difference.df for difference in differences.values()))
    together = [[name for name in group if name in differences] for group in related]
    grouped = {name for group in together for name in group}
    alone = [[name] for name in differences if name not in grouped]
    groups = [[differences[name] for name in group] for group in (*together, *alone) if group]
    variances = [sum(one.error for one in group) ** 2 / count**2 for group in groups]
    return Difference(
        mean,
        math.sqrt(sum(variances)),
        _satterthwaite(variances, [min(one.df for one in group) for group in groups]),
    )


def outcome(difference: Difference, p: float, p_equivalent: float) -> Outcome:
    """The verdict from both p-values, which may be corrected for multiple comparisons.

    A significant difference is reported even if it is certain to be below the margin.
    """
    if p < SIGNIFICANT:
        return Outcome.BETTER if difference.mean > 0 else Outcome.WORSE
    return Outcome.EQUIVALENT if p_equivalent < SIGNIFICANT else Outcome.UNDECIDED


def welch(ours: np.ndarray, mean: float, std: float, seeds: int) -> Difference:
    """Our ``[seeds]`` means, at least two, minus a published mean ± std over its seeds.

    Its p-value is that of Welch's t-test. If our means are all equal, their error is unknown, as in
    `mean_difference`.
    """
    if np.ptp(ours) == 0:
        return Difference(float(ours.mean()) - mean, 0.0, len(ours) - 1)
    variances = [float(ours.var(ddof=1)) / len(ours), std**2 / seeds]
    return Difference(
        float(ours.mean()) - mean,
        math.sqrt(sum(variances)),
        _satterthwaite(variances, [len(ours) - 1, seeds - 1]),
    )


def spread_ratio(pairs: Iterable[tuple[float, float]]) -> float | None:
    """The geometric mean of ours / theirs over pairs of spreads; None if there is no ratio."""
    logs = [math.log(ours / theirs) for ours, theirs in pairs if ours > 0 and theirs > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def compare_spreads(first: np.ndarray, second: np.ndarray) -> float:
    """The p-value of the Pitman-Morgan test of equal variances.

    ``first`` and ``second`` are ``[seeds]`` means for the same seeds, at least three. If the
    variances are equal, sums and differences are uncorrelated.
    """
    total, difference = first + second, first - second
    if not (total.std() and difference.std()):
        return 1.0
    r, df = float(np.corrcoef(total, difference)[0, 1]), len(first) - 2
    if abs(r) >= 1:
        return 0.0
    return 2 * _student_tail(abs(r) * math.sqrt(df / (1 - r * r)), df)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction of p-values for multiple comparisons."""
    adjusted = [0.0] * len(p)
    highest = 0.0
    for rank, position in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        highest = max(highest, min(1.0, p[position] * (len(p) - rank)))
        adjusted[position] = highest
    return adjusted


def wilcoxon(differences: np.ndarray) -> float:
    """The exact two-sided p-value of Wilcoxon's signed-rank test; differences of 0 are dropped."""
    differences = differences[differences != 0]
    doubled = (2 * mean_ranks(np.abs(differences))).round().astype(np.int64)
    counts = np.zeros(int(doubled.sum()) + 1)  # number of sign patterns, by twice their rank sum
    counts[0] = 1
    for rank in doubled:
        counts[rank:] = counts[rank:] + counts[: len(counts) - rank]
    positive = int(doubled[differences > 0].sum())
    least = min(positive, len(counts) - 1 - positive)
    return min(1.0, 2 * float(counts[: least + 1].sum() / counts.sum()))


def friedman(ranks: np.ndarray) -> float:
    """The p-value of Friedman's test that ``[data sets, methods]`` ranks differ only by chance."""
    from scipy.special import chdtrc

    count, methods = ranks.shape
    deviations = ranks.mean(0) - (methods + 1) / 2
    tied = (ranks**2).sum() / count - methods * (methods + 1) ** 2 / 4  # lower if there are ties
    if not tied:
        return 1.0
    statistic = count * (methods - 1) * float((deviations**2).sum()) / tied
    return float(chdtrc(methods - 1, statistic))


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values get the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(mean[inverse])


def _student_tail(t: float, df: float) -> float:
    """The probability of a value above ``t`` in Student's distribution."""
    from scipy.special import stdtr  # slow to import

    return float(stdtr(df, -t))


def _student_quantile(p: float, df: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def _satterthwaite(variances: Sequence[float], df: Sequence[float]) -> float:
    """The degrees of freedom of a sum of independent variances."""
    parts = sum(variance**2 / d for variance, d in zip(variances, df, strict=True))
    return sum(variances) ** 2 / parts if parts else sum(df)


def _corrected_error(values: np.ndarray, folds: int) -> float:
    """The standard error of the mean, for trainings whose training sets overlap.

    The usual error, s / √n, shrinks towards zero with the number of seeds, although all seeds use
    the same data set. Nadeau and Bengio add the ratio of the sizes of test and training set. In a
    cross-validation that is 1 / (folds - 1), since validation counts as part of the training set.
    For a fixed split, which has a single fold, the usual error is returned; it covers only the
    seeds.
    """
    if float(np.ptp(values)) <= SAME * float(np.abs(values).max()):
        return 0.0  # the variance of equal values is not exactly 0
    variance = float(values.var(ddof=1))
    overlap = 1 / (folds - 1) if folds > 1 else 0.0
    return math.sqrt(variance * (1 / len(values) + overlap))
