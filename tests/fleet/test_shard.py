"""On a CPU each thread trains some of the slots, with the same results."""

import threading
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sagpool.fleet.shard
from sagpool.fleet import train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots
from sagpool.fleet.shard import Shard, shards_of, side_by_side

CPU = torch.device("cpu")


@pytest.fixture
def threads(one_thread):
    yield torch.set_num_threads
    torch.set_num_threads(1)


@given(st.integers(1, 50), st.integers(1, 9))
def test_every_slot_is_in_one_shard(members, count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        shards = shards_of(members, CPU)
    finally:
        torch.set_num_threads(before)
    assert [slot for shard in shards for slot in range(members)[shard]] == list(range(members))
    sizes = [shard.stop - shard.start for shard in shards]
    assert len(shards) == min(members, count)
    assert max(sizes) - min(sizes) <= 1


def test_a_gpu_has_one_shard():
    assert shards_of(200, torch.device("cuda")) == [slice(0, 200)]


def test_the_same_results_with_any_number_of_threads(mutag, kit, threads):
    trainings = kit.trainings(7)
    expected = train(mutag, trainings, members=3, dtype=torch.float64)
    for count in (2, 3):
        threads(count)
        kit.close(train(mutag, trainings, members=3, dtype=torch.float64), expected)
        assert torch.get_num_threads() == count


def test_the_last_batch_is_no_wider_than_necessary(mutag, kit, monkeypatch):
    """In DiffPool padding takes as much time as a graph."""
    widths, original = [], Shard._step

    def recorded(shard, graphs):
        step = original(shard, graphs)

        def take(ids):
            widths.append(ids.shape[1])
            step(ids)

        return take

    monkeypatch.setattr(Shard, "_step", recorded)
    trainings = [replace(one, batch_size=32) for one in kit.trainings(2, max_epochs=9)]
    fleet = Fleet(mutag, trainings, Slots.fill(range(2), 2))
    fleet.epoch()
    most = max(len(split.train) for split in fleet.splits)
    assert most % 32, "otherwise the last batch is full"
    assert widths == [32] * (most // 32) + [most % 32]


def test_shards_work_on_views_of_the_fleets_rows(mutag, kit, threads):
    threads(2)
    fleet = Fleet(mutag, kit.trainings(3, max_epochs=9), Slots.fill(range(3), 3))
    before = fleet.state.weights.clone()
    fleet.epoch()
    assert len(fleet.shards) == 2
    assert (fleet.state.weights != before).any(1).all()
    for rows, shard in fleet.shards:
        assert shard.stack.weights.data_ptr() == fleet.state.weights[rows].data_ptr()


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
    calls, adam_step = [], sagpool.fleet.shard.adam_step

    def interrupted(*arguments):
        calls.append(threading.current_thread().name)
        if len(calls) == point:
            raise KeyboardInterrupt
        adam_step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sagpool.fleet.shard, "adam_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(mutag, trainings, **options, checkpoint=file)
    assert "MainThread" not in calls
    kit.same(train(mutag, trainings, **options, checkpoint=file), uninterrupted)


def test_no_thread_is_left_running_after_an_error():
    failed, ended = threading.Event(), threading.Event()

    def fail():
        failed.set()
        raise ZeroDivisionError

    def take_longer():
        failed.wait()
        ended.set()
        return torch.zeros(1)

    with pytest.raises(ZeroDivisionError):
        side_by_side([fail, take_longer])
    assert ended.is_set()
