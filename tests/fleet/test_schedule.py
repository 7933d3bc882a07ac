"""Slots, queue and groups, without training."""

import itertools
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.fleet.schedule import Slots, deal, group_by_shape, shape_of, split_of
from sagpool.graphs import split
from sagpool.models import build, method_settings, sort_k


def test_the_first_in_the_queue_get_the_slots():
    slots = Slots.fill([7, 3, 5, 4], 3)
    assert slots.running.tolist() == [7, 3, 5]
    assert list(slots.waiting) == [4]
    assert Slots.fill([7, 3], 9).running.tolist() == [7, 3]


def test_a_slot_goes_to_the_next_in_the_queue():
    slots = Slots.fill(range(6), 3)
    assert slots.release(np.array([True, False, True])) == [0, 2]
    assert slots.running.tolist() == [3, 1, 4]
    assert slots.release(np.array([False, True, True])) == [1]
    assert slots.running.tolist() == [3, 5, -1]
    assert slots.active.tolist() == [True, True, False]
    assert not slots.waiting


def test_slots_are_compacted_when_more_than_the_given_fraction_is_empty():
    slots = Slots(np.array([0, -1, 2, 3]))
    assert not slots.too_empty(0.25)
    slots.release(np.array([True, False, False, False]))
    assert slots.too_empty(0.25)
    assert not slots.too_empty(0.5)
    slots.compact()
    assert slots.running.tolist() == [2, 3]
    assert not slots.too_empty(0.25)
    assert not Slots(np.array([0, -1, -1, -1])).too_empty(1.0)


def test_slots_are_not_compacted_while_trainings_wait_or_when_none_runs():
    assert not Slots(np.array([-1, -1, 2]), deque([5])).too_empty(0.25)
    assert not Slots(np.array([-1, -1])).too_empty(0.25)


def test_halving_sends_the_second_half_to_the_head_of_the_queue():
    slots = Slots.fill(range(7), 5)
    slots.halve()
    assert slots.running.tolist() == [0, 1]
    assert list(slots.waiting) == [2, 3, 4, 5, 6]
    slots.halve()
    assert slots.running.tolist() == [0]


def test_halving_never_leaves_only_empty_slots():
    slots = Slots(np.array([-1, 1, 2, 3]))
    slots.halve()
    assert slots.running.tolist() == [1, 2]
    slots = Slots(np.array([-1, 1]))
    slots.halve()
    assert slots.running.tolist() == [1]


@settings(max_examples=200, derandomize=True)
@given(
    trainings=st.lists(st.integers(0, 99), min_size=1, max_size=20, unique=True),
    members=st.integers(1, 9),
    draws=st.randoms(use_true_random=False),
)
def test_every_training_runs_once_and_in_the_order_of_the_queue(trainings, members, draws):
    slots = Slots.fill(trainings, members)
    begun, done = slots.running.tolist(), []
    while slots.active.any():
        assert len(slots.running) <= members
        assert not (slots.waiting and (~slots.active).any())
        if draws.random() < 0.15 and len(slots.running) > 1:
            slots.halve()
            continue
        finished = np.array([draws.random() < 0.4 for _ in slots.running], bool) & slots.active
        done += slots.running[finished].tolist()
        for slot in slots.release(finished):
            if (number := int(slots.running[slot])) not in begun:
                begun.append(number)
        if slots.too_empty(0.25):
            slots.compact()
    assert begun == trainings
    assert sorted(done) == sorted(trainings)
    assert not slots.waiting


def test_a_copy_without_those_that_have_ended():
    slots = Slots.fill([4, 5, 6, 7], 2)
    left = slots.without({5, 6, 9})
    assert left.running.tolist() == [4, -1]
    assert list(left.waiting) == [7]
    assert left.unfinished == [4, 7]
    left.release(~left.active)
    assert slots.unfinished == [4, 5, 6, 7], "the original has changed"


def test_a_copy_is_independent():
    slots = Slots.fill([4, 5, 6], 2)
    copy = slots.copy()
    slots.release(np.array([True, False]))
    assert copy.running.tolist() == [4, 5]
    assert list(copy.waiting) == [6]


rates = st.sampled_from([1e-4, 1e-3, 1e-2])


@settings(max_examples=100, derandomize=True)
@given(
    groups=st.lists(st.lists(rates, min_size=1, max_size=9), min_size=1, max_size=4),
    fleets=st.integers(1, 6),
)
def test_every_training_is_dealt_to_one_fleet_of_its_shape_slow_ones_first(groups, fleets):
    trainings = [Training("sagpool-h", lr=lr) for group in groups for lr in group]
    ends = np.cumsum([0, *map(len, groups)])
    numbers = [list(range(*span)) for span in itertools.pairwise(ends.tolist())]
    shares = deal(trainings, numbers, fleets)
    dealt = [number for share in shares for number in share]
    assert sorted(dealt) == list(range(len(trainings)))
    for share in shares:
        assert any(set(share) <= set(group) for group in numbers)
        lrs = [trainings[number].lr for number in share]
        assert lrs == sorted(lrs)
    assert len(shares) >= min(fleets, len(trainings) if len(groups) == 1 else len(groups))
    for group in numbers:
        sizes = [len(share) for share in shares if share[0] in group]
        assert max(sizes) - min(sizes) <= 1


def test_each_thread_has_a_fleet_if_there_are_as_many_trainings():
    trainings = [Training("sagpool-h", lr=lr) for lr in (0.1, 0.2, 0.3, 0.4, 0.5)]
    assert deal(trainings, [[4, 3, 2, 1, 0]], 2) == [[0, 2, 4], [1, 3]]
    assert deal(trainings, [[0, 1], [2, 3, 4]], 3) == [[0], [1], [2, 4], [3]]
    assert len(deal(trainings, [[0, 1, 2, 3, 4]], 9)) == 5


def test_trainings_that_can_be_stacked_are_grouped_in_order_of_appearance(mutag):
    base = Training("sagpool-h", hidden=8)
    together = [
        base,
        *(Training("sagpool-h", hidden=8, **own) for own in (
            {"seed": 3}, {"fold": 2}, {"lr": 0.1}, {"weight_decay": 0.0}, {"patience": 7},
            {"max_epochs": 9}, {"folds": 5}, {"validation": 0.2},
        )),
    ]  # fmt: skip
    apart = [
        Training("gpool-h", hidden=8),
        *(Training("sagpool-h", **{"hidden": 8, **own}) for own in (
            {"hidden": 16}, {"ratio": 0.25}, {"dropout": 0.1}, {"batch_size": 32},
        )),
    ]  # fmt: skip
    queue = [apart[0], *together[:4], *apart[1:], *together[4:]]
    groups = group_by_shape(mutag, queue)
    first = [1, 2, 3, 4, *range(9, 14)]
    assert groups == [[0], first, [5], [6], [7], [8]]


def test_members_may_differ_in_k_unless_it_shapes_the_weights(mutag):
    trainings = [Training("sagpool-g", hidden=8, seed=1, fold=fold) for fold in range(4)]
    assert [shape_of(mutag, training).k for training in trainings] == [16, 15, 15, 16]
    assert group_by_shape(mutag, trainings) == [[0, 1, 2, 3]]
    convs = [Training("sortpool-g-conv1d", hidden=8, seed=1, fold=fold) for fold in range(4)]
    assert group_by_shape(mutag, convs) == [[0, 3], [1, 2]]


def test_the_shape_is_that_of_the_data_and_k_of_the_training_part(mutag):
    training = Training("sagpool-g", seed=2, fold=1, hidden=12, ratio=0.25, dropout=0.3)
    shape = shape_of(mutag, training)
    train = split(mutag.y, 2, 1).train
    assert (shape.in_channels, shape.classes, shape.max_nodes) == (7, 2, 28)
    assert (shape.hidden, shape.ratio, shape.dropout, shape.members) == (12, 0.25, 0.3, 1)
    assert (mutag.node_counts[train] > shape.k).mean() >= 0.6
    assert (mutag.node_counts[train] > shape.k + 1).mean() < 0.6


def test_the_split_is_that_of_the_settings(mutag):
    training = Training("sagpool-h", seed=4, fold=2, folds=5, validation=0.3)
    parts, expected = split_of(mutag, training), split(mutag.y, 4, 2, folds=5, validation=0.3)
    for name in ("train", "validation", "test"):
        assert np.array_equal(getattr(parts, name), getattr(expected, name))


@pytest.mark.parametrize("fraction", [0.01, 0.99])
def test_too_few_graphs_to_train_and_validate_is_an_error(mutag, fraction):
    few = mutag[list(range(10))]
    message = r"^MUTAG has too few graphs .* with 2 folds and a validation fraction of 0\.\d+\.$"
    with pytest.raises(SagpoolError, match=message):
        split_of(few, Training("sagpool-h", folds=2, validation=fraction))


@pytest.mark.parametrize("method", ["sortpool-g", "sortpool-g-conv1d", "sagpool-g"])
def test_k_leaves_the_wanted_fraction_of_training_graphs_larger(mutag, method):
    usual, fewer = Training(method), Training(method, method_settings={"larger_than_k": 0.4})
    counts = mutag.node_counts[split_of(mutag, fewer).train]
    assert shape_of(mutag, usual).k == sort_k(counts, 0.6)
    assert shape_of(mutag, fewer).k == sort_k(counts, 0.4) > sort_k(counts, 0.6)
    build(method, shape_of(mutag, fewer))  # refuses settings that it does not use


def test_a_method_of_ones_own_has_its_own_default_of_k(mutag, monkeypatch):
    settings = {**method_settings("sortpool-g"), "larger_than_k": 0.9}
    monkeypatch.setattr("sagpool.fleet.schedule.method_settings", lambda name: settings)
    counts = mutag.node_counts[split_of(mutag, Training("sortpool-g")).train]
    assert shape_of(mutag, Training("sortpool-g")).k == sort_k(counts, 0.9) < sort_k(counts)


@pytest.mark.parametrize("fraction", [60, 0, -0.1])
def test_a_fraction_outside_0_to_1_is_refused(mutag, fraction):
    training = Training("sortpool-g", method_settings={"larger_than_k": fraction})
    with pytest.raises(SagpoolError, match=r"^larger_than_k is a fraction .* at most 1, not "):
        shape_of(mutag, training)


def test_a_setting_of_this_name_may_not_be_a_word(mutag, monkeypatch):
    monkeypatch.setattr(
        "sagpool.fleet.schedule.method_settings", lambda name: {"larger_than_k": "all"}
    )
    with pytest.raises(SagpoolError, match=r"^larger_than_k is a fraction .*, not all\.$"):
        shape_of(mutag, Training("sagpool-h"))
