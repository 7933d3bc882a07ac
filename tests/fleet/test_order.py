"""Batches of an epoch: every graph once, in an order that depends on the member alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.fleet.order import DeviceBatches, Members, Orders, on_device
from sagpool.randomness import bits

keys = st.integers(0, 2**64 - 1)
members = st.lists(
    st.tuples(st.lists(st.integers(0, 187), min_size=1, max_size=40, unique=True), keys),
    min_size=1,
    max_size=4,
)


def members_of(train, keys, epochs) -> Members:
    train = [np.array(graphs, np.int64) for graphs in train]
    return Members(train, np.array(keys, np.uint64), np.array(epochs))


@pytest.fixture(scope="module")
def batches_of(mutag):
    """``[batches, members, batch size]``, padded with -1"""

    def make(train, keys, epochs, batch_size):
        batches = (
            Orders(mutag, batch_size, len(train)).batches(members_of(train, keys, epochs)).on_host()
        )
        return np.stack(
            [np.pad(b, ((0, 0), (0, batch_size - b.shape[1])), constant_values=-1) for b in batches]
        )

    return make


@settings(max_examples=100, derandomize=True)
@given(members=members, batch_size=st.integers(1, 50), epoch=st.integers(0, 10**6))
def test_each_member_sees_each_of_its_graphs_once_in_as_few_batches_as_possible(
    batches_of, members, batch_size, epoch
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
def test_the_order_of_a_member_does_not_depend_on_the_others(
    batches_of, members, batch_size, epoch
):
    train, keys = zip(*members, strict=True)
    epochs = [epoch + member for member in range(len(train))]
    together = batches_of(train, keys, epochs, batch_size)
    for member, graphs in enumerate(train):
        alone = batches_of([graphs], [keys[member]], [epochs[member]], batch_size)[:, 0]
        assert np.array_equal(together[: len(alone), member], alone)
        assert (together[len(alone) :, member] == -1).all()


@pytest.mark.parametrize("key", [0, 1, 2**63, 2**64 - 1])
def test_the_order_is_that_of_random_bits(key, batches_of):
    """Sorted as numbers without a sign. Published rows depend on it."""
    graphs, epoch = np.arange(50, 150), 7
    stream = (key + epoch * 0x9E3779B97F4A7C15) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        stream = ((stream ^ (stream >> shift)) * factor) % 2**64
    expected = graphs[np.argsort(bits(np.uint64(stream), 100))]
    assert batches_of([graphs], [key], [epoch], 100).ravel().tolist() == expected.tolist()


def test_the_order_changes_with_the_epoch_and_the_key(batches_of):
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


def test_a_slot_without_graphs_has_empty_batches(batches_of):
    batches = batches_of([[], [4, 5, 6]], [1, 2], [0, 0], 2)
    assert (batches[:, 0] == -1).all()
    assert sorted(batches[:, 1].ravel()) == [-1, 4, 5, 6]


def test_padding_that_all_members_have_is_cut_off(mutag):
    batches = Orders(mutag, 4, 2).batches(members_of([range(6), range(5)], [1, 2], [0, 0]))
    assert batches.shapes == ((2, 4), (2, 2))


def test_the_sizes_of_batches_are_those_of_their_graphs(mutag):
    members = members_of([range(90), range(50, 130), []], [1, 2, 3], [4, 4, 4])
    batches = Orders(mutag, 32, 3).batches(members)
    moved = on_device(mutag, batches.on_host())
    assert torch.equal(batches.flat, moved.flat)
    assert batches[1:] == moved[1:]


def same(one: DeviceBatches, other: DeviceBatches) -> bool:
    return torch.equal(one.flat, other.flat) and one[1:] == other[1:]


@pytest.mark.parametrize("start", [0, 5])
def test_orders_computed_ahead_are_those_of_each_epoch(start, mutag, monkeypatch):
    made = []
    make = Orders._make
    monkeypatch.setattr(Orders, "_make", lambda *args: made.append(args[-1]) or make(*args))
    members = members_of([range(9), range(5), []], [1, 2, 3], [start, start + 3, 0])
    orders = Orders(mutag, 4, 3)
    for epoch in range(40):
        # The epoch of an empty slot means nothing.
        epochs = members.epochs + np.array([epoch, epoch, epoch % 3])
        now = members._replace(epochs=epochs)
        assert same(orders.batches(now), Orders(mutag, 4, 3).batches(now))
    assert [count for count in made if count > 1] == [2, 4, 8, 16, 16]


@pytest.mark.parametrize("change", ["key", "longer", "train", "epoch", "back"])
def test_orders_computed_ahead_are_forgotten_if_the_members_change(change, mutag):
    members = members_of([range(9), range(5)], [1, 2], [3, 3])
    orders = Orders(mutag, 4, 2)
    orders.prepare(members, 16)
    changed = members.after(1)
    if change == "key":  # another training has the slot now
        changed = changed._replace(keys=np.array([1, 77], np.uint64))
    elif change == "longer":
        changed = Members([np.arange(50), changed.train[1]], *changed[1:])
    elif change == "train":  # a slot that is empty now
        changed = changed._replace(train=[changed.train[0], np.zeros(0, np.int64)])
    elif change == "epoch":
        changed = changed._replace(epochs=np.array([4, 9]))
    else:  # after an error, epochs are undone
        changed = members.after(-1)
    assert same(orders.batches(changed), Orders(mutag, 4, 2).batches(changed))


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
