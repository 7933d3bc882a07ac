"""Batches in parts, and validation in chunks, give the same results."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sagpool.fleet.fleet
import sagpool.fleet.lockstep
from sagpool.fleet import Result, Training, train
from sagpool.fleet import memory as fleet_memory
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.lockstep import Sizes
from sagpool.fleet.schedule import Slots
from sagpool.graphs import pack
from sagpool.nn import Context, RandomPool, Streams

METHODS = ("sagpool-h", "sagpool-g", "set2set-g", "diffpool-h", "random-h")


def unequal(kit, method: str = "sagpool-h") -> list[Training]:
    """Some have no graphs in the last batch, the others a few, in different numbers."""
    fractions = (0.1, 0.3, 0.2, 0.45, 0.12)
    return [
        replace(training, validation=fraction)
        for training, fraction in zip(
            kit.trainings(5, method, batch_size=40), fractions, strict=True
        )
    ]


def run(graphs, trainings, members: int, parts: int = 1) -> list[Result]:
    slots = Slots.fill(range(len(trainings)), members)
    fleet = Fleet(graphs, trainings, slots, torch.float64, parts=parts)
    results: dict[int, Result] = {}
    while fleet.slots.active.any():
        results |= fleet.advance()
        fleet.refill()
    return [results[number] for number in range(len(trainings))]


def test_these_trainings_have_unequal_last_batches_and_dropout(mutag, kit):
    trainings = unequal(kit)
    fleet = Fleet(mutag, trainings, Slots.fill(range(5), 5))
    last = [len(split.train) - 3 * 40 for split in fleet.settings.splits]
    assert len({number for number in last if number > 0}) > 2
    assert min(last) < 0
    assert all(training.dropout == 0.5 for training in trainings)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_in_any_number_of_parts(method, mutag, kit):
    """Members end at different epochs, and one slot is refilled."""
    trainings = [replace(t, max_epochs=t.max_epochs // 2) for t in unequal(kit, method)]
    expected = run(mutag, trainings, 4)
    assert len({result.epochs for result in expected}) > 1
    for parts in (3, 5):  # of unequal size, and of equal size
        kit.close(run(mutag, trainings, 4, parts), expected)


def test_one_graph_at_a_time(mutag, kit):
    graphs = mutag[::3]
    trainings = [replace(one, max_epochs=1, batch_size=10) for one in unequal(kit)[:3]]
    kit.close(run(graphs, trainings, 2, parts=10), run(graphs, trainings, 2))


def test_parts_draw_different_random_numbers(mutag):
    batch = pack(mutag, [range(8)])
    pool, keys = RandomPool(0.5), torch.tensor([5])
    contexts = [Context(Streams(keys, first)) for first in (0, 0, 8)]
    kept = [pool(batch.x, batch.structure, context).perm for context in contexts]
    assert torch.equal(kept[0], kept[1])
    assert not torch.equal(kept[0], kept[2])


@pytest.mark.parametrize("method", METHODS)
def test_validation_in_chunks(method, mutag, kit, monkeypatch):
    trainings = [replace(training, max_epochs=1) for training in unequal(kit, method)]
    expected = run(mutag, trainings, 5)
    for chunk in (1, 7, 30):
        monkeypatch.setattr(Sizes, "of", lambda size, parts, chunk=chunk: Sizes(size, chunk))
        kit.close(run(mutag, trainings, 5), expected)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_no_more_graphs_at_a_time_than_the_parts_allow(parts, mutag, kit, monkeypatch):
    pack, seen = sagpool.fleet.lockstep.pack, []

    def recorded(graphs, ids):
        seen.append(max(map(len, ids)))
        return pack(graphs, ids)

    monkeypatch.setattr(sagpool.fleet.lockstep, "pack", recorded)
    trainings = kit.trainings(2, batch_size=20, validation=0.6, max_epochs=1)
    run(mutag, trainings, 2, parts)
    graphs = {1: 20, 2: 10, 3: 7, 7: 3}[parts]
    assert seen[0] == graphs
    assert max(seen) == (4 * graphs if parts == 1 else graphs)


@given(st.integers(1, 300), st.integers(1, 300))
def test_parts_are_even_and_doubling_makes_them_smaller(batch_size, parts):
    parts = min(parts, batch_size)
    size = Sizes.of(batch_size, parts).train
    assert (size - 1) * parts < batch_size <= size * parts
    if parts < batch_size:
        assert Sizes.of(batch_size, min(2 * parts, batch_size)).train < size


@pytest.mark.parametrize("members", [None, 3])
def test_with_little_memory_batches_are_cut_into_parts(members, mutag, kit, monkeypatch):
    trainings = [replace(training, max_epochs=1) for training in unequal(kit)]
    expected = run(mutag, trainings, 5)
    fleets: list[Fleet] = []
    init = Fleet.__init__

    def recorded(fleet, *arguments):
        init(fleet, *arguments)
        fleets.append(fleet)

    monkeypatch.setattr(Fleet, "__init__", recorded)
    free = 1.5 * fleet_memory.step_bytes(mutag, trainings[0], torch.float64)
    monkeypatch.setattr(fleet_memory, "usable_memory", lambda device: free)
    kit.close(train(mutag, trainings, members=members, dtype=torch.float64), expected)
    (fleet,) = fleets
    assert fleet.parts > (3 if members is None else 9)


def test_a_fleet_may_have_empty_slots(mutag, kit):
    """One of four members is done, which is not yet too empty to go on."""
    trainings = kit.trainings(4, max_epochs=3, patience=9)
    expected = run(mutag, trainings, 1)
    trainings[1] = replace(trainings[1], max_epochs=1)
    expected[1:2] = run(mutag, trainings[1:2], 1)
    for parts in (1, 2):
        kit.close(run(mutag, trainings, 4, parts), expected)
