"""Spreads and tests, against known values and other implementations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sagpool.statistics import compare, holm, spread


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
    assert compare(rows, rows - 1, 10) == (1.0, 0.0, 3)
    assert compare(rows[:1], rows[:1] - 1, 10) == (1.0, 1.0, 1)


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
