import sys

import pytest
import torch

from sagpool.fleet import MemoryShortageError, Training, train
from sagpool.fleet import memory as fleet_memory
from sagpool.fleet.memory import Room, choose_fleet_size, free_memory, step_bytes
from sagpool.fleet.schedule import split_of
from sagpool.models import Output, methods

CPU = torch.device("cpu")


def of(**settings) -> Training:
    return Training(**{"method": "sagpool-h", "hidden": 16, "batch_size": 32, **settings})


@pytest.fixture
def free(monkeypatch):
    """Sets what is free, and lets a CPU take it."""
    monkeypatch.setattr(fleet_memory, "CPU_THREAD_BYTES", 10**12)

    def set_free(count: float) -> None:
        monkeypatch.setattr(fleet_memory, "free_memory", lambda device: int(count))

    return set_free


def test_a_step_takes_more_for_wider_layers_larger_batches_and_longer_numbers(mutag):
    small = step_bytes(mutag, of(), torch.float32)
    assert 1.5 * small < step_bytes(mutag, of(hidden=64), torch.float32) < 8 * small
    assert 1.5 * small < step_bytes(mutag, of(batch_size=128), torch.float32) < 5 * small
    assert 1.4 * small < step_bytes(mutag, of(), torch.float64) < 2.2 * small


@pytest.mark.parametrize("method", methods())
def test_the_guess_is_what_a_real_batch_keeps(method, mutag, monkeypatch):
    """With all graphs as the sample, and a batch of all of them, nothing is left to guess."""
    train = split_of(mutag, of()).train
    training = of(method=method, batch_size=len(train))
    guess = step_bytes(mutag, training, torch.float32)
    monkeypatch.setattr(fleet_memory, "TRIED_GRAPHS", len(train))
    assert guess == pytest.approx(step_bytes(mutag, training, torch.float32), rel=0.05)


def test_what_does_not_depend_on_the_graphs_is_counted_once(mutag):
    """Set2Set keeps a sum of weights that is larger than all that it keeps of a graph."""
    weights, batch = fleet_memory._step(mutag, of(method="set2set-g", batch_size=64), torch.float32)
    more_weights, more_batch = fleet_memory._step(
        mutag, of(method="set2set-g", batch_size=128), torch.float32
    )
    assert more_weights == weights
    assert 1.5 * batch < more_batch < 2 * batch
    assert batch < 64 * 200e3


def test_few_graphs_are_tried_and_fewer_large_ones(mutag, monkeypatch):
    tried: list[int] = []
    pack = fleet_memory.pack

    def noted(graphs, ids):
        tried.append(ids.size)
        return pack(graphs, ids)

    monkeypatch.setattr(fleet_memory, "pack", noted)
    guess = step_bytes(mutag, of(method="diffpool-h", batch_size=128), torch.float32)
    assert tried[-1] == fleet_memory.TRIED_GRAPHS
    tried.clear()
    monkeypatch.setattr(fleet_memory, "TRIED_BYTES", 1)
    rough = step_bytes(mutag, of(method="diffpool-h", batch_size=128), torch.float32)
    assert tried[-1] == 1
    assert max(tried) <= 2
    assert rough == pytest.approx(guess, rel=0.2)


def test_as_many_as_there_are_trainings(mutag, free, monkeypatch):
    free(10**12)
    monkeypatch.setattr(fleet_memory, "CPU_MOST_BYTES", 10**12)
    assert choose_fleet_size(mutag, [of()] * 7, torch.float32) == Room(7, 1)
    assert choose_fleet_size(mutag, [of()] * 5000, torch.float32) == Room(
        fleet_memory.MOST_MEMBERS, 1
    )


def test_fewer_members_in_less_memory_and_then_more_parts(mutag, free):
    one = step_bytes(mutag, of(), torch.float32)

    def fitting(members: float) -> Room:
        free((members + 1e-3) * one * fleet_memory.OVERHEAD / fleet_memory.FILL)
        return choose_fleet_size(mutag, [of()] * 500, torch.float32)

    assert [fitting(n) for n in (1, 20, 50, 200)] == [Room(n, 1) for n in (1, 20, 50, 200)]
    rooms = [fitting(share) for share in (0.99, 0.5, 0.3, 0.0)]
    assert [r.members for r in rooms] == [1] * 4
    parts = [r.parts for r in rooms]
    assert 1 < parts[0] < parts[1] < parts[2] < parts[3] == of().batch_size


@pytest.mark.parametrize("share", [0.9, 0.6, 0.4, 0.25])
def test_a_part_and_its_filler_fit(share, mutag, free):
    training = of(method="diffpool-h")
    weights, batch = fleet_memory._step(mutag, training, torch.float32)
    free((weights + (share + 1e-3) * batch) * fleet_memory.OVERHEAD / fleet_memory.FILL)
    parts = choose_fleet_size(mutag, [training], torch.float32).parts
    graphs = -(-training.batch_size // parts)
    assert (graphs + 1) / training.batch_size <= share
    fewer = -(-training.batch_size // (parts - 1))
    assert (fewer + 1) / training.batch_size > share, "fewer parts would do"


def test_every_thread_has_a_member_if_in_parts(mutag, free):
    free(1.2 * step_bytes(mutag, of(), torch.float32) * fleet_memory.OVERHEAD / fleet_memory.FILL)
    torch.set_num_threads(3)
    try:
        members, parts = choose_fleet_size(mutag, [of()] * 9, torch.float32)
        fewer = choose_fleet_size(mutag, [of()] * 2, torch.float32)
    finally:
        torch.set_num_threads(1)
    assert members == 3
    assert parts >= 3
    assert fewer.members == 2
    assert 2 <= fewer.parts < parts


def test_given_members_stay_and_parts_follow(mutag, free):
    free(4.5 * step_bytes(mutag, of(), torch.float32) * fleet_memory.OVERHEAD / fleet_memory.FILL)
    rooms = [choose_fleet_size(mutag, [of()] * 50, torch.float32, n) for n in (2, 4, 8, 16)]
    assert [r.members for r in rooms] == [2, 4, 8, 16]
    assert [r.parts for r in rooms[:2]] == [1, 1]
    assert 1 < rooms[2].parts < rooms[3].parts


def test_fewer_of_larger_ones(mutag, monkeypatch):
    monkeypatch.setattr(fleet_memory, "free_memory", lambda device: 2 * 10**8)
    small, large = (
        choose_fleet_size(mutag, [of(hidden=hidden)] * 500, torch.float32).members
        for hidden in (16, 128)
    )
    assert large < small < 500


def test_on_a_cpu_a_fleet_stays_small_whatever_the_memory(mutag, monkeypatch):
    monkeypatch.setattr(fleet_memory, "free_memory", lambda device: 10**15)
    trainings = [of(hidden=128, batch_size=128)] * 2000
    members, parts = choose_fleet_size(mutag, trainings, torch.float32)
    one = step_bytes(mutag, trainings[0], torch.float32)
    assert members == fleet_memory.CPU_THREAD_BYTES * torch.get_num_threads() // one
    assert parts == 1


def test_on_a_cpu_there_is_a_limit_to_what_is_taken(mutag, free, monkeypatch):
    free(10**15)
    one = step_bytes(mutag, of(), torch.float32)
    monkeypatch.setattr(fleet_memory, "CPU_MOST_BYTES", 7.5 * one * fleet_memory.OVERHEAD)
    assert choose_fleet_size(mutag, [of()] * 500, torch.float32) == Room(7, 1)
    monkeypatch.setattr(fleet_memory, "CPU_MOST_BYTES", 0.5 * one * fleet_memory.OVERHEAD)
    members, parts = choose_fleet_size(mutag, [of()] * 500, torch.float32)
    assert members == 1
    assert parts > 1


def test_when_not_even_the_try_fits(mutag, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(Output, "loss_sums", fail)
    with pytest.raises(MemoryShortageError, match="fits into the memory of cpu"):
        step_bytes(mutag, of(), torch.float32)
    assert choose_fleet_size(mutag, [of()] * 9, torch.float32) == Room(1, of().batch_size)
    assert choose_fleet_size(mutag, [of()] * 9, torch.float32, 4) == Room(4, of().batch_size)


def test_free_memory_is_less_than_there_is():
    assert 2**20 < free_memory(CPU) < 2**50


def test_the_choice_is_taken_unless_told_otherwise(mutag, kit, monkeypatch):
    # Not by its name: `sagpool.fleet.train` is the function.
    module = sys.modules["sagpool.fleet.train"]
    monkeypatch.setattr(module, "choose_fleet_size", lambda *given: Room(given[3] or 2, 1))
    running: list[int] = []
    trainings = kit.trainings(5)
    train(mutag, trainings, on_progress=lambda progress: running.append(progress.running))
    assert max(running) == 2
    running.clear()
    train(mutag, trainings, members=4, on_progress=lambda p: running.append(p.running))
    assert max(running) == 4
