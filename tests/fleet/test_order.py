"""Batches of an epoch: every graph once, in an order that depends on the member alone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.fleet.order import epoch_batches, epoch_orders

keys = st.integers(0, 2**64 - 1)
members = st.lists(
    st.tuples(st.lists(st.integers(0, 500), min_size=1, max_size=40, unique=True), keys),
    min_size=1,
    max_size=4,
)


def batches_of(train, keys, epochs, batch_size):
    train = [np.array(graphs) for graphs in train]
    orders = epoch_orders(train, np.array(keys, np.uint64), np.array(epochs))
    return epoch_batches(orders, batch_size)


@settings(max_examples=100, derandomize=True)
@given(members=members, batch_size=st.integers(1, 50), epoch=st.integers(0, 10**6))
def test_each_member_sees_each_of_its_graphs_once_in_as_few_batches_as_possible(
    members, batch_size, epoch
):
    train, keys = zip(*members, strict=True)
    batches = batches_of(train, keys, [epoch] * len(train), batch_size)
    most = max(len(graphs) for graphs in train)
    assert batches.shape == (-(-most // batch_size), len(train), batch_size)
    for member, graphs in enumerate(train):
        own = batches[:, member].ravel()
        assert sorted(own[: len(graphs)]) == sorted(graphs)
        assert (own[len(graphs) :] == -1).all()


@settings(max_examples=50, derandomize=True)
@given(members=members, batch_size=st.integers(1, 50), epoch=st.integers(0, 10**6))
def test_the_order_of_a_member_does_not_depend_on_the_others(members, batch_size, epoch):
    train, keys = zip(*members, strict=True)
    epochs = [epoch + member for member in range(len(train))]
    together = batches_of(train, keys, epochs, batch_size)
    for member, graphs in enumerate(train):
        alone = batches_of([graphs], [keys[member]], [epochs[member]], batch_size)[:, 0]
        assert np.array_equal(together[: len(alone), member], alone)
        assert (together[len(alone) :, member] == -1).all()


def test_the_order_changes_with_the_epoch_and_the_key():
    graphs = range(100)
    orders = [
        tuple(batches_of([graphs], [key], [epoch], 100).ravel())
        for key in (1, 2)
        for epoch in (0, 1, 2)
    ]
    assert len(set(orders)) == 6
    # If shuffled, neighbours differ by a third of the length on average.
    for order in orders:
        assert 20 < np.abs(np.diff(order)).mean() < 46


def test_a_slot_without_graphs_has_empty_batches():
    batches = batches_of([[], [4, 5, 6]], [1, 2], [0, 0], 2)
    assert (batches[:, 0] == -1).all()
    assert sorted(batches[:, 1].ravel()) == [-1, 4, 5, 6]


def test_orders_computed_ahead_are_used_if_they_are_the_same():
    train = [np.arange(9), np.arange(5), np.arange(7)]
    keys, epochs = np.array([1, 2, 3], np.uint64), np.array([4, 4, 4])
    ahead = epoch_orders(train, keys, epochs + 1)
    keys[1] = 77  # another training has the slot now
    orders = epoch_orders(train, keys, epochs + 1, ahead)
    expected = epoch_orders(train, keys, epochs + 1)
    assert orders[0] is ahead[0]
    assert orders[2] is ahead[2]
    assert all((a.graphs == b.graphs).all() for a, b in zip(orders, expected, strict=True))
    train[2] = np.arange(0)  # a slot that is empty now
    assert len(epoch_orders(train, keys, epochs + 1, ahead)[2].graphs) == 0
