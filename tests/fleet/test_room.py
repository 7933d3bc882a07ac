import sys

import pytest
import torch

from sagpool.fleet import Training, room, train
from sagpool.fleet.room import choose_members, free_memory, step_bytes
from sagpool.models import methods

CPU = torch.device("cpu")


def of(**settings) -> Training:
    return Training(**{"method": "sagpool-h", "hidden": 16, "batch_size": 32, **settings})


def test_a_step_takes_more_for_wider_layers_larger_batches_and_longer_numbers(mutag):
    small = step_bytes(mutag, of(), torch.float32)
    assert 1.5 * small < step_bytes(mutag, of(hidden=64), torch.float32) < 8 * small
    assert 1.5 * small < step_bytes(mutag, of(batch_size=128), torch.float32) < 5 * small
    assert 1.4 * small < step_bytes(mutag, of(), torch.float64) < 2.2 * small


@pytest.mark.parametrize("method", methods())
def test_every_method_can_be_measured(method, mutag):
    """At least the features of three layers have to be kept for the way back."""
    training = of(method=method)
    rows = mutag.node_counts.mean() * training.batch_size
    assert step_bytes(mutag, training, torch.float32) > rows * training.hidden * 4


def test_as_many_as_there_are_trainings(mutag, monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda device: 10**12)
    monkeypatch.setattr(room, "CPU_THREAD_BYTES", 10**12)
    assert choose_members(mutag, [of()] * 7, torch.float32) == 7
    assert choose_members(mutag, [of()] * 5000, torch.float32) == room.MOST_MEMBERS


def test_fewer_in_less_memory_but_never_none(mutag, monkeypatch):
    one = step_bytes(mutag, of(), torch.float32)

    def fitting(memory: int) -> int:
        monkeypatch.setattr(room, "free_memory", lambda device: memory)
        return choose_members(mutag, [of()] * 500, torch.float32)

    amounts = [fitting(members * one) for members in (0, 1, 20, 50, 200)]
    assert amounts[:2] == [1, 1]
    assert 1 < amounts[2] < amounts[3] < amounts[4] < 200
    # Four times the memory, four times the members.
    assert amounts[4] == pytest.approx(4 * amounts[3], abs=4)


def test_fewer_of_larger_ones(mutag, monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda device: 2 * 10**8)
    small, large = (
        choose_members(mutag, [of(hidden=hidden)] * 500, torch.float32) for hidden in (16, 128)
    )
    assert large < small < 500


def test_on_a_cpu_a_fleet_stays_small_whatever_the_memory(mutag, monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda device: 10**15)
    trainings = [of(hidden=128, batch_size=128)] * 2000
    members = choose_members(mutag, trainings, torch.float32)
    one = step_bytes(mutag, trainings[0], torch.float32)
    assert members == room.CPU_THREAD_BYTES * torch.get_num_threads() // one


def test_free_memory_is_less_than_there_is():
    assert 2**20 < free_memory(CPU) < 2**50


def test_the_choice_is_taken_unless_told_otherwise(mutag, kit, monkeypatch):
    # Not by its name: `sagpool.fleet.train` is the function.
    monkeypatch.setattr(sys.modules["sagpool.fleet.train"], "choose_members", lambda *_: 2)
    running: list[int] = []
    trainings = kit.trainings(5)
    train(mutag, trainings, on_progress=lambda progress: running.append(progress.running))
    assert max(running) == 2
    running.clear()
    train(mutag, trainings, members=4, on_progress=lambda p: running.append(p.running))
    assert max(running) == 4
