"""Ranks over data sets, and their tests."""

import numpy as np
import pytest
from scipy import stats

from sagpool.bench.ranks import Ranks, rank_methods
from sagpool.bench.records import CellRecord
from sagpool.bench.summary import Summary
from sagpool.statistics import Spread, friedman, mean_ranks, wilcoxon


@pytest.mark.parametrize("count", [1, 5, 12, 30])
def test_wilcoxons_p_is_exact(count):
    random = np.random.default_rng(count)
    values = random.normal(0.4, 1, count)
    expected = stats.wilcoxon(values, method="exact").pvalue
    assert wilcoxon(values) == pytest.approx(expected)
    assert wilcoxon(np.append(values, 0.0)) == pytest.approx(expected)
    assert wilcoxon(np.zeros(3)) == 1


def test_friedmans_p_with_and_without_ties():
    random = np.random.default_rng(0)
    for values in (random.normal(size=(8, 4)), random.integers(0, 3, (8, 4))):
        ranks = np.stack([mean_ranks(row) for row in values])
        expected = stats.friedmanchisquare(*values.T).pvalue
        assert friedman(ranks) == pytest.approx(expected)
    assert friedman(np.full((3, 3), 2.0)) == 1


def summary(dataset, method, mean):
    cell = CellRecord(
        dataset, dataset, "f", method, {"folds": 5}, "float32", 2, 1, 1, "none", (), 0, None, None,
        "",
    )  # fmt: skip
    return Summary(cell, [], Spread(mean, None, None, None))


def test_methods_are_ranked_on_the_data_sets_that_all_have():
    means = {"worst": 50, "best": 90, "middle": 70}
    cells = [summary(f"d{i}", m, v + i) for i in range(8) for m, v in means.items()]
    found = rank_methods([*cells, summary("d0", "once", 99)])
    assert found.methods == ("best", "middle", "worst")
    assert found.means.tolist() == [1, 2, 3]
    assert found.p[0, 1] == pytest.approx(3 * 2 / 2**8)
    assert found.alike == []
    assert rank_methods(cells[:6]) is None, "two data sets"


def test_a_data_set_with_few_methods_is_left_out():
    cells = [summary(f"d{i}", m, 50 + n) for i in range(3) for n, m in enumerate("abc")]
    found = rank_methods([summary("alone", "a", 90), *cells, summary("d0", "once", 99)])
    assert (found.datasets, found.methods) == (("d0", "d1", "d2"), ("c", "b", "a"))
    others = [summary("others", m, 70) for m in "vwxyz"]
    assert rank_methods([*cells, *others]).datasets == ("d0", "d1", "d2")
    assert rank_methods([*cells[:6], *others]) is None, "no three share three"


def test_bars_join_what_does_not_differ():
    p = np.ones((4, 4))
    p[0, 3] = p[3, 0] = p[1, 3] = p[3, 1] = 0.01
    found = Ranks(tuple("abcd"), ("x",), np.arange(4)[None], 0.5, p)
    assert found.alike == [(0, 2), (2, 3)]


def test_equal_means_have_equal_ranks():
    """Means of the same accuracies in another order differ by rounding."""
    cells = [
        summary(f"d{i}", method, mean)
        for i in range(8)
        for method, mean in (("a", 70.0), ("b", 70.0 + (i % 2) * 1e-13), ("c", 60.0))
    ]
    found = rank_methods(cells)
    assert found.means.tolist() == [1.5, 1.5, 3]
    assert found.p[0, 1] == 1
