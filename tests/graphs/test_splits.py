import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.graphs import (
    NO_TEST,
    Split,
    folds_of_groups,
    split,
    stratified_folds,
    time_split,
)
from sagpool.randomness import key_of, permutation


@st.composite
def problems(draw):
    """Classes that each have enough graphs for the folds, a seed, and how many folds."""
    folds = draw(st.integers(2, 10))
    counts = draw(st.lists(st.integers(folds, 25), min_size=1, max_size=4))
    y = np.repeat(np.arange(len(counts)), counts)
    order = draw(st.randoms(use_true_random=False)).sample(range(len(y)), len(y))
    return y[order], draw(st.integers(0, 10**9)), folds


def parts(s: Split) -> list[np.ndarray]:
    return [s.train, s.validation, s.test]


@given(problems())
def test_fold_sizes_differ_by_at_most_one_overall_and_in_each_class(problem):
    y, seed, folds = problem
    fold = stratified_folds(y, seed, folds)
    for of in [fold, *(fold[y == label] for label in np.unique(y))]:
        sizes = np.bincount(of, minlength=folds)
        assert len(sizes) == folds
        assert sizes.max() - sizes.min() <= 1


@given(problem=problems(), fraction=st.floats(0, 0.9))
def test_parts_are_disjoint_and_cover_all(problem, fraction):
    y, seed, folds = problem
    tested = []
    for fold in range(folds):
        s = split(y, seed, fold, folds=folds, validation=fraction)
        assert sorted(np.concatenate(parts(s))) == list(range(len(y)))
        assert all((np.diff(part) > 0).all() for part in parts(s))
        assert np.array_equal(s.test, np.flatnonzero(stratified_folds(y, seed, folds) == fold))
        rest = len(y) - len(s.test)
        assert len(s.validation) == round(fraction * rest)
        for label in np.unique(y):
            held_out = (y[s.validation] == label).sum()
            fair = len(s.validation) * (y[np.concatenate(parts(s)[:2])] == label).sum() / rest
            assert abs(held_out - fair) < 1
        tested += s.test.tolist()
    assert sorted(tested) == list(range(len(y)))


def test_the_papers_fractions():
    s = split(np.arange(1000) % 2, seed=0, fold=0)
    assert [len(part) for part in parts(s)] == [810, 90, 100]


def test_the_folds_do_not_change():
    """Pinned: the same on every platform and with every version of NumPy."""
    y = (np.arange(24) % 3 == 0).astype(np.int64)
    fold = [2, 2, 2, 3, 1, 3, 3, 0, 3, 1, 1, 3, 2, 0, 2, 0, 1, 0, 1, 0, 3, 0, 1, 2]
    assert stratified_folds(y, 7, 4).tolist() == fold
    s = split(y, seed=7, fold=2, folds=4, validation=0.2)
    assert s.train.tolist() == [4, 5, 6, 8, 9, 10, 11, 13, 16, 17, 18, 20, 21, 22]
    assert s.validation.tolist() == [3, 7, 15, 19]
    assert s.test.tolist() == [0, 1, 2, 12, 14, 23]


def test_splits_depend_on_seed_and_fold_only():
    y = np.arange(100) % 2
    before = split(y, 1, 3)
    np.random.seed(5)
    torch.manual_seed(5)
    split(y, 1, 4)
    again = split(torch.from_numpy(y), 1, 3)
    for one, other in zip(parts(before), parts(again), strict=True):
        assert np.array_equal(one, other)
    assert not np.array_equal(before.test, split(y, 2, 3).test)


def test_folds_have_different_validation_parts():
    y = np.zeros(100, int)
    common = set(split(y, 0, 0).validation)
    for fold in range(1, 10):
        common &= set(split(y, 0, fold).validation)
    assert not common


def sliced(order: list[int], fold: int, folds: int, fraction: float) -> list[list[int]]:
    """The three parts of a contiguous split, from the order of the shuffled graphs."""
    length = math.ceil(len(order) / folds)
    slices = [order[first : first + length] for first in range(0, len(order), length)]
    test = slices.pop(fold)
    rest = [graph for part in slices for graph in part]
    held_out = round(fraction * len(rest))
    return [sorted(rest[held_out:]), sorted(rest[:held_out]), sorted(test)]


@given(
    count=st.integers(20, 150),
    folds=st.integers(2, 5),
    fraction=st.floats(0, 0.9),
    seed=st.integers(0, 10**9),
)
def test_contiguous_splits_are_slices_of_one_shuffle(count, folds, fraction, seed):
    order = permutation(key_of("slices", seed), count).tolist()
    for fold in range(folds):
        s = split(np.zeros(count), seed, fold, folds=folds, validation=fraction, kind="contiguous")
        assert [part.tolist() for part in parts(s)] == sliced(order, fold, folds, fraction)


def test_contiguous_folds_share_their_validation_part_and_ignore_the_classes():
    """As in the authors' first released code."""
    y = np.arange(1000) // 500
    splits = [split(y, 3, fold, kind="contiguous") for fold in range(10)]
    assert [len(part) for part in parts(splits[0])] == [810, 90, 100]
    validation = [s.validation.tolist() for s in splits]
    assert all(part == validation[1] for part in validation[2:])
    assert not set(validation[0]) & set(validation[1])
    assert set(validation[1]) <= set(splits[0].test)
    ones = [int(y[s.test].sum()) for s in splits]
    assert max(ones) - min(ones) > 1, "a stratified split has 50 in each"
    other = split(1 - y, 3, 4, kind="contiguous")
    assert np.array_equal(other.test, splits[4].test)
    assert not np.array_equal(split(y, 4, 4, kind="contiguous").test, splits[4].test)


def test_contiguous_folds_do_not_change():
    s = split(np.zeros(11), seed=7, fold=1, folds=4, validation=0.25, kind="contiguous")
    assert (s.train.tolist(), s.validation.tolist(), s.test.tolist()) == (
        [0, 1, 2, 3, 5, 10],
        [4, 9],
        [6, 7, 8],
    )


def test_a_contiguous_split_without_a_test_part():
    s = split(np.zeros(40), seed=1, fold=NO_TEST, kind="contiguous")
    assert [len(part) for part in parts(s)] == [36, 4, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 7}, "Class 4 has 6 graphs, too few for 7 folds."),
        ({"folds": 1}, "Cross-validation needs at least 2 folds, not 1."),
        ({"fold": 3, "folds": 3}, "Fold 3 is not one of the folds 0 to 2."),
        ({"fold": -2}, "Fold -2 is not one of the folds 0 to 9."),
        ({"folds": 3, "validation": 1.0}, r"must be in \[0, 1\), not 1.0."),
        ({"kind": "sorted"}, "must be one of stratified, contiguous, not 'sorted'."),
        ({"kind": "contiguous", "folds": 12}, "26 graphs are too few for 12 slices of equal"),
    ],
)
def test_invalid_options_are_refused(options, message):
    y = np.array([2] * 20 + [4] * 6)
    with pytest.raises(SagpoolError, match=message):
        split(y, **{"seed": 0, "fold": 0, **options})


@given(st.lists(st.integers(0, 12), min_size=1, max_size=80), st.integers(2, 5), st.integers(0, 9))
def test_groups_stay_together_and_folds_are_balanced(group, folds, seed):
    group = np.array(group)
    sizes = np.unique(group, return_counts=True)[1]
    if len(sizes) < folds:
        with pytest.raises(SagpoolError, match=f"{len(sizes)} groups of graphs, too few for"):
            folds_of_groups(group, folds, seed)
        return
    fold = folds_of_groups(group, folds, seed)
    assert all(len(set(fold[group == one])) == 1 for one in group)
    filled = np.bincount(fold, minlength=folds)
    assert filled.min() > 0
    assert filled.max() - filled.min() <= sizes.max()  # greedy: no fold is ahead by more
    assert (fold == folds_of_groups(group, folds, seed)).all()


def test_the_latest_graphs_are_the_test():
    s = time_split([2020, 2017, 2019, 2018, 2021], validation=0.2, test=0.4)
    assert [part.tolist() for part in (s.train, s.validation, s.test)] == [[1, 3], [2], [0, 4]]
    with pytest.raises(SagpoolError, match="leave no graphs for training"):
        time_split([1, 2], validation=0.5, test=0.5)
