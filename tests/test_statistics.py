"""Spreads and tests, against known values and other implementations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sagpool.statistics import (
    Difference,
    Outcome,
    compare,
    compare_spreads,
    holm,
    mean_difference,
    outcome,
    paired_difference,
    spread,
    spread_ratio,
    welch,
)


@pytest.fixture(scope="module")
def table():
    """``[seeds, folds]`` accuracies."""
    return np.random.default_rng(0).normal(70, 4, (20, 10))


def flat(table):
    seeds, folds = table.shape
    return table.ravel(), np.repeat(np.arange(seeds), folds), folds


def test_spread(table):
    found = spread(*flat(table))
    assert found.mean == pytest.approx(table.mean())
    assert found.std_seeds == pytest.approx(np.std(table.mean(1), ddof=1))
    assert found.std_folds == pytest.approx(np.std(table, ddof=1))
    low, high = found.ci95
    assert (low + high) / 2 == pytest.approx(found.mean)
    # 200 runs whose training parts overlap: 1/200 + 1/9, not 1/200.
    half = 1.971957 * math.sqrt((1 / 200 + 1 / 9) * table.var(ddof=1))
    assert high - found.mean == pytest.approx(half, rel=1e-5)


def test_spread_of_few():
    one = spread(np.array([70.0]), np.array([0]), 10)
    assert one == (70.0, None, None, None)
    seed = spread(np.array([70.0, 72.0]), np.array([0, 0]), 10)
    assert seed.std_seeds is None
    assert seed.std_folds == pytest.approx(math.sqrt(2))
    # Incomplete seeds count with the folds that they have.
    uneven = spread(np.array([70.0, 72.0, 80.0]), np.array([0, 0, 1]), 2)
    assert uneven.std_seeds == pytest.approx(np.std([71, 80], ddof=1))
    assert uneven.mean == pytest.approx(74)


def test_the_corrected_test_is_the_plain_one_without_the_correction(table, monkeypatch):
    first, second = flat(table)[0], flat(table)[0] + np.random.default_rng(1).normal(1, 4, 200)
    found = compare(first, second, folds=10)
    assert found.difference == pytest.approx((first - second).mean())
    assert found.runs == 200
    plain = stats.ttest_rel(first, second)
    shrunk = abs(plain.statistic) * math.sqrt((1 / 200) / (1 / 200 + 1 / 9))
    assert found.p == pytest.approx(2 * stats.t.sf(shrunk, 199))
    assert found.p > plain.pvalue


def test_the_corrected_test_has_few_false_positives():
    """Folds of one data set have a common offset, which a plain test takes for a difference."""
    rng = np.random.default_rng(3)
    corrected = plain = 0
    for _ in range(400):
        # Two equal methods on one data set: their folds' differences are correlated by 1/folds.
        shared = rng.normal(0, math.sqrt(0.1))
        difference = shared + rng.normal(0, math.sqrt(0.9), 200)
        corrected += compare(difference, np.zeros(200), folds=10).p < 0.05
        plain += stats.ttest_1samp(difference, 0).pvalue < 0.05
    assert corrected / 400 < 0.08
    assert plain / 400 > 0.3


def test_equal_rows_and_single_rows():
    rows = np.array([70.0, 80.0, 75.0])
    assert compare(rows, rows, 10) == (0.0, 1.0, 3)
    assert compare(rows, rows - 1, 10) == (1.0, 1.0, 3)  # no error to test with
    assert compare(rows[:1], rows[:1] - 1, 10) == (1.0, 1.0, 1)


@pytest.mark.parametrize("seeds", [2, 5, 20])
def test_agreement_with_a_published_cell_is_welchs_test(seeds):
    ours = np.random.default_rng(seeds).normal(71, 0.7, seeds)
    found = welch(ours, 70.04, 1.47, 20)
    expected = stats.ttest_ind_from_stats(
        ours.mean(), ours.std(ddof=1), seeds, 70.04, 1.47, 20, equal_var=False
    )
    assert found.mean == pytest.approx(ours.mean() - 70.04)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    theirs = (np.arange(20) - 9.5) / np.arange(20).std(ddof=1) * 1.47 + 70.04
    low, high = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    assert found.interval() == pytest.approx((low, high))


def test_welch_with_equal_means_of_ours():
    """Their error is unknown, not zero."""
    found = welch(np.array([75.0, 75.0]), 70.0, 1.0, 20)
    assert (found.mean, found.p, found.interval()) == (5, 1, None)


def test_welch_without_any_spread():
    equal = np.array([70.0, 70.0])
    assert welch(equal, 70, 0, 20).p == 1
    assert welch(equal, 71, 0, 20).p == 1


def test_a_paired_difference(table):
    first, folds = flat(table)[0], 10
    second = first + np.random.default_rng(1).normal(0.3, 1, 200)
    found = paired_difference(first, second, folds)
    assert found.p == pytest.approx(compare(first, second, folds).p)
    error = np.std(first - second, ddof=1) * math.sqrt(1 / 200 + 1 / 9)
    assert (found.mean, found.error) == pytest.approx(((first - second).mean(), error))
    assert found.interval() == pytest.approx(stats.t.interval(0.95, 199, found.mean, error))
    assert found.interval(0.9) == pytest.approx(stats.t.interval(0.9, 199, found.mean, error))


@pytest.mark.parametrize("mean", [-0.4, 0.0, 0.7, 1.3])
def test_equivalence_is_two_one_sided_tests(mean):
    values = np.random.default_rng(0).normal(0, 1, 40)
    values += mean - values.mean()
    found = Difference(mean, stats.sem(values), 39)
    below = stats.ttest_1samp(values, -1, alternative="greater").pvalue
    above = stats.ttest_1samp(values, 1, alternative="less").pvalue
    assert found.p_equivalent(1) == pytest.approx(max(below, above))
    assert found.p_above(-1) == pytest.approx(below)
    # At 5 %, it is the question whether the 90 % interval lies within the margin.
    low, high = found.interval(0.9)
    assert (found.p_equivalent(1) < 0.05) == (low > -1 and high < 1)


@pytest.mark.parametrize("value", [0.0, 0.1, 250 / 3])
def test_equal_accuracies_have_no_interval(value):
    """The variance of equal floats may be a little above 0."""
    seeds = np.repeat([0, 1], 5)
    equal = spread(np.full(10, value), seeds, 5)
    assert equal == (pytest.approx(value), pytest.approx(0), pytest.approx(0), None)
    other = np.random.default_rng(0).integers(50, 90, 10) / 0.9
    found = paired_difference(other + value, other, 5)
    assert (found.error, found.p, found.interval()) == (0, 1, None)


@pytest.mark.parametrize("mean", [0.0, 0.5, -20.0])
def test_a_difference_without_error_is_not_tested(mean):
    found = Difference(mean, 0.0, 9)
    assert found.p == found.p_above(-1) == found.p_equivalent(1) == 1
    assert found.interval() is None
    assert compare(np.array([70.0, 65.0]), np.array([65.0, 60.0]), 2).p == 1
    assert outcome(found, found.p, found.p_equivalent()) is Outcome.UNDECIDED


def test_the_mean_over_data_sets_by_hand():
    found = mean_difference({"a": Difference(1.0, 0.3, 199), "b": Difference(2.0, 0.4, 49)})
    assert (found.mean, found.error) == pytest.approx((1.5, 0.25))  # 0.5 / 2
    assert found.df == pytest.approx(0.25**2 / (0.09**2 / 199 + 0.16**2 / 49))
    one = Difference(1.0, 0.3, 199)
    assert vars(mean_difference({"a": one})) == pytest.approx(vars(one))


@pytest.mark.parametrize("related", [(), [("a", "b")]])
def test_a_data_set_without_error_leaves_the_mean_without_one(related):
    unknown, known = Difference(0.0, 0.0, 9), Difference(0.9, 0.1, 9)
    assert max(known.p, known.p_above(-1)) < 0.001
    found = mean_difference({"a": known, "b": unknown, "c": known}, related)
    assert (found.mean, found.error) == (pytest.approx(0.6), 0.0)
    assert found.p == found.p_equivalent() == found.p_above(-1) == 1


def test_the_errors_of_related_data_sets_add_up():
    three = {name: Difference(1.0, error, 49) for name, error in (("a", 0.3), ("b", 0.4), ("c", 2))}
    bound = mean_difference(three, [("a", "b"), ("c", "not there")])
    assert bound.error == pytest.approx(math.hypot(0.7, 2) / 3)
    assert bound.mean == mean_difference(three).mean
    # As wide as a simulation with equal errors of a and b.
    draws = np.random.default_rng(0).normal(size=(2, 100_000))
    mean = (draws[0] * 0.3 + draws[0] * 0.4 + draws[1] * 2) / 3
    assert bound.error == pytest.approx(mean.std(), rel=0.01)
    assert bound.df == pytest.approx(
        (0.49 + 4) ** 2 / (0.49**2 / 49 + 4**2 / 49)
    )  # of two independent parts


@pytest.mark.parametrize(
    ("mean", "error", "expected"),
    [
        (2.0, 0.5, Outcome.BETTER),
        (-2.0, 0.5, Outcome.WORSE),
        (0.1, 0.2, Outcome.EQUIVALENT),
        (0.1, 1.2, Outcome.UNDECIDED),
        (0.9, 0.5, Outcome.UNDECIDED),
        (0.3, 0.1, Outcome.BETTER),  # significant, though below the margin
    ],
)
def test_outcomes(mean, error, expected):
    found = Difference(mean, error, 199)
    assert outcome(found, found.p, found.p_equivalent(1)) == expected


def test_ratio_of_spreads_by_hand():
    assert spread_ratio([(1.0, 2.0), (8.0, 2.0)]) == pytest.approx(math.sqrt(2))
    assert spread_ratio([(0.5, 1.0), (1.0, 0.0)]) == pytest.approx(0.5)
    assert spread_ratio([]) is None


def test_spreads_of_paired_seeds():
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 1, 20)
    first, second = shared + rng.normal(0, 0.1, 20), shared + rng.normal(0, 2, 20)
    expected = stats.pearsonr(first + second, first - second).pvalue
    assert compare_spreads(first, second) == pytest.approx(expected)
    assert compare_spreads(second, first) == pytest.approx(expected)
    assert compare_spreads(first, first) == 1
    assert compare_spreads(first, np.zeros(20)) == 0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_the_order_and_never_lowers_a_p_value(p):
    adjusted = holm(p)
    assert all(p[i] <= adjusted[i] <= 1 for i in range(len(p)))
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(np.array(adjusted)[order]) >= 0)
    assert adjusted[order[0]] == pytest.approx(min(1, p[order[0]] * len(p)))


def test_differences_by_rounding_are_none():
    accuracy = np.full(10, 70.3)
    mean_of_three = np.stack([accuracy] * 3).sum(0) / 3 + 1e-14
    found = paired_difference(mean_of_three, accuracy, 10)
    assert (found.mean, found.p) == (0, 1)
