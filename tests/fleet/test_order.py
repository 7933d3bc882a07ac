"""Batches of an epoch: every graph once, in an order that depends on the member alone."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.fleet.order import cut_short, epoch_batches, epoch_orders, on_device

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


def test_padding_that_all_members_have_is_cut_off():
    batch = np.array([[3, 4, -1, -1], [5, -1, -1, -1]])
    assert cut_short(batch).tolist() == [[3, 4], [5, -1]]
    assert cut_short(batch[:, :2]).tolist() == [[3, 4], [5, -1]]
    assert cut_short(np.full((2, 3), -1)).tolist() == [[-1], [-1]], "one filler is left"


BATCHES = [np.array([[0, 1, 2], [3, 4, -1]]), np.array([[5], [-1]]), np.array([[6, 7], [8, 9]])]


def test_batches_on_the_device(mutag):
    """The host knows their sizes: those of a packed batch."""
    ready = on_device(mutag, BATCHES)
    assert ready.flat.dtype == torch.int32
    assert ready.flat.tolist() == [0, 1, 2, 3, 4, -1, 5, -1, 6, 7, 8, 9]
    assert ready.shapes == ((2, 3), (2, 1), (2, 2))
    nodes, counts = mutag.node_counts, mutag.batch_source.counts
    assert (
        ready.rows
        == (
            max(nodes[:3].sum(), nodes[3:5].sum() + 1) + 1,  # -1 is a filler, and each has one more
            nodes[5] + 1,
            max(nodes[6:8].sum(), nodes[8:10].sum()) + 1,
        )
    )
    filler = counts[-1]
    assert ready.entries == (
        counts[:5].sum() + filler,
        counts[5] + filler,
        counts[6:10].sum(),
    )


def test_batches_one_by_one_are_those_that_were_moved_together(mutag):
    together = on_device(mutag, BATCHES)
    for one, ids in zip(together.each(), BATCHES, strict=True):
        alone = on_device(mutag, [ids])
        assert one.flat.tolist() == alone.flat.tolist()
        assert one[1:] == alone[1:]
        (padded,) = one.padded()
        assert padded.ids.tolist() == ids.tolist()
    for padded, one in zip(together.padded(), together.each(), strict=True):
        assert (padded.rows,) == one.rows
        assert (padded.entries,) == one.entries


def test_padded_batches_see_what_is_copied_into_the_flat_tensor(mutag):
    """As a recording does, whose next batches are copied to where the first were."""
    ready = on_device(mutag, BATCHES)
    padded = ready.padded()
    ready.flat.copy_(torch.arange(12))
    assert [batch.ids.tolist() for batch in padded] == [
        [[0, 1, 2], [3, 4, 5]],
        [[6], [7]],
        [[8, 9], [10, 11]],
    ]
