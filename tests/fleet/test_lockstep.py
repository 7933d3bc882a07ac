"""On a CPU each thread trains a fleet of its own, with the same results."""

import threading
from dataclasses import replace

import pytest
import torch

import sagpool.fleet.lockstep
from sagpool.fleet import train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.lockstep import Lockstep
from sagpool.fleet.schedule import Slots
from sagpool.fleet.work import Work


@pytest.fixture
def threads(one_thread):
    yield torch.set_num_threads
    torch.set_num_threads(1)


def prepared(graphs, trainings, *, fleets: int = 1, **options) -> Work:
    work = Work(graphs, trainings, **options)
    work.prepare(fleets)
    return work


@pytest.mark.parametrize("fleets", [1, 2, 3, 9])
def test_trainings_of_one_shape_are_dealt_to_one_fleet_per_thread(fleets, mutag, kit):
    trainings = kit.trainings(7)
    work = prepared(mutag, trainings, fleets=fleets)
    assert len(work.fleets) == min(fleets, 7)
    assert sorted(n for fleet in work.fleets for n in fleet.slots.unfinished) == list(range(7))
    for fleet in work.fleets:
        assert not len(fleet.slots.running), "memory decides about the slots, later"
        rates = [training.lr for training in fleet.trainings]
        assert rates == sorted(rates)


@pytest.mark.parametrize(
    ("members", "slots"), [(1, [1]), (2, [1, 1]), (3, [1, 1, 1]), (5, [2, 2, 1])]
)
def test_a_given_number_of_members_is_that_of_all_fleets_together(members, slots, mutag, kit):
    work = prepared(mutag, kit.trainings(7), fleets=3, members=members)
    assert [fleet.share for fleet in work.fleets] == slots


def test_the_number_of_members_is_that_of_each_shape(mutag, kit):
    trainings = [one for hidden in (8, 16, 32) for one in kit.trainings(3, hidden=hidden)]
    work = prepared(mutag, trainings, fleets=2, members=2)
    assert [fleet.slots.unfinished for fleet in work.fleets] == [[1, 0, 2], [4, 3, 5], [7, 6, 8]]
    assert [fleet.share for fleet in work.fleets] == [2, 2, 2]


def test_the_same_division_whatever_else_there_is(mutag, kit):
    trainings = kit.trainings(5)
    one, other = (prepared(mutag, trainings, fleets=2) for _ in range(2))
    assert [fleet.slots.unfinished for fleet in one.fleets] == [
        fleet.slots.unfinished for fleet in other.fleets
    ]


def test_a_continued_work_keeps_its_division(mutag, kit, tmp_path, threads):
    """Also with another number of threads: the rounding depends on it."""
    threads(2)
    trainings, file = kit.trainings(6), tmp_path / "run.npz"

    def stop(progress):
        if progress.done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(mutag, trainings, members=4, checkpoint=file, on_progress=stop)
    first = prepared(mutag, trainings, fleets=2, members=4)
    work = prepared(mutag, trainings, fleets=5, members=4, checkpoint=file)
    done = set(work.saved.results)
    assert len(done) >= 2
    dealt = [set(fleet.slots.unfinished) for fleet in work.fleets]
    expected = [set(fleet.slots.unfinished) - done for fleet in first.fleets]
    assert dealt == [one for one in expected if one]
    begun = {number for fleet in work.fleets for number in fleet.members}
    assert begun == {
        number for fleet in work.fleets for number in fleet.slots.running.tolist() if number >= 0
    }


def test_the_same_results_with_any_number_of_threads(mutag, kit, threads):
    trainings = kit.trainings(7)
    expected = train(mutag, trainings, members=3, dtype=torch.float64)
    for count in (2, 3):
        threads(count)
        kit.close(train(mutag, trainings, members=3, dtype=torch.float64), expected)
        assert torch.get_num_threads() == count


def test_the_last_batch_is_no_wider_than_necessary(mutag, kit, monkeypatch):
    """In DiffPool padding takes as much time as a graph."""
    widths, original = [], Lockstep._step_in_parts

    def recorded(lockstep, ids):
        widths.append(ids.shape[1])
        original(lockstep, ids)

    monkeypatch.setattr(Lockstep, "_step_in_parts", recorded)
    trainings = [replace(one, batch_size=32) for one in kit.trainings(2, max_epochs=9)]
    fleet = Fleet(mutag, trainings, Slots.fill(range(2), 2))
    fleet.advance()
    most = max(len(split.train) for split in fleet.settings.splits)
    assert most % 32, "otherwise the last batch is full"
    assert widths == [32] * (most // 32) + [most % 32]


def test_the_model_has_views_of_the_fleets_rows(mutag, kit):
    """Also after an epoch that was undone, and without the slots that were removed."""
    fleet = Fleet(mutag, kit.trainings(4, patience=9), Slots.fill(range(4), 4))
    while len(fleet.slots.running) == 4:
        before = fleet.state.weights.clone()
        with pytest.raises(ZeroDivisionError):
            fleet.advance(lambda: 1 / 0)
        assert torch.equal(fleet.state.weights, before)
        fleet.advance()
        assert (fleet.state.weights != before).any(1)[fleet.slots.active].all()
        fleet.refill()
    assert len(fleet.slots.running) == len(fleet.state.weights) < 4
    assert fleet.lockstep.stack.weights.data_ptr() == fleet.state.weights.data_ptr()
    assert fleet.lockstep.adam.mean is fleet.state.mean
    assert fleet.lockstep.lr is fleet.settings.lr


@pytest.fixture(scope="module")
def uninterrupted(mutag, kit, one_thread):
    """Results of a run with two threads."""
    torch.set_num_threads(2)
    results = train(mutag, kit.trainings(6), members=4, keep_weights=True)
    torch.set_num_threads(1)
    return results


@pytest.mark.parametrize("point", [2, 5, 9, 14])
def test_interrupted_in_one_thread_and_continued(
    point, uninterrupted, mutag, kit, threads, monkeypatch, tmp_path
):
    threads(2)
    trainings, file = kit.trainings(6), tmp_path / "fleet.npz"
    options = {"members": 4, "keep_weights": True}
    calls, adam_step = [], sagpool.fleet.lockstep.adam_step

    def interrupted(*arguments):
        calls.append(threading.current_thread().name)
        if len(calls) == point:
            raise KeyboardInterrupt
        adam_step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sagpool.fleet.lockstep, "adam_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(mutag, trainings, **options, checkpoint=file)
    assert "MainThread" not in calls
    kit.same(train(mutag, trainings, **options, checkpoint=file), uninterrupted)
