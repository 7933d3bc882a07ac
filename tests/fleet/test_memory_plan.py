"""How many members fit into memory, and in how many parts."""

import pytest
import torch

from sagpool.errors import MethodError
from sagpool.fleet import MemoryShortageError, Training, lane, train
from sagpool.fleet import memory as fleet_memory
from sagpool.fleet.memory import (
    FleetSize,
    KnownShape,
    choose_fleet_size,
    step_bytes,
    usable_memory,
)
from sagpool.fleet.schedule import split_of
from sagpool.models import Output, hierarchical, methods, register, registry
from sagpool.nn import Context, GPool

CPU = torch.device("cpu")


class Failing(GPool):
    def forward(self, x, structure, context=Context()):
        raise ValueError("mine")


def of(**settings) -> Training:
    return Training(**{"method": "sagpool-h", "hidden": 16, "batch_size": 32, **settings})


@pytest.fixture
def free(monkeypatch):
    """Sets the free memory, and lets a CPU use all of it."""
    monkeypatch.setattr(fleet_memory, "CPU_THREAD_BYTES", 10**12)

    def set_free(count: float) -> None:
        monkeypatch.setattr(fleet_memory, "usable_memory", lambda device: int(count))

    return set_free


def test_wider_layers_larger_batches_and_double_precision_need_more_bytes(mutag):
    small = step_bytes(mutag, of(), torch.float32)
    assert 1.5 * small < step_bytes(mutag, of(hidden=64), torch.float32) < 8 * small
    assert 1.5 * small < step_bytes(mutag, of(batch_size=128), torch.float32) < 5 * small
    assert 1.4 * small < step_bytes(mutag, of(), torch.float64) < 2.2 * small


@pytest.mark.parametrize("method", methods())
def test_the_estimate_equals_what_a_real_batch_saves(method, mutag, monkeypatch):
    """If all graphs are tried, and are one batch, nothing is left to estimate."""
    train = split_of(mutag, of()).train
    training = of(method=method, batch_size=len(train))
    estimate = step_bytes(mutag, training, torch.float32)
    monkeypatch.setattr(fleet_memory, "TRIAL_GRAPHS", len(train))
    assert estimate == pytest.approx(step_bytes(mutag, training, torch.float32), rel=0.05)


def test_bytes_that_do_not_depend_on_the_graphs_are_counted_once(mutag):
    """Set2Set saves a sum of weights that is larger than everything it saves for a graph."""
    weights, batch = fleet_memory.trial_step(
        mutag, of(method="set2set-g", batch_size=64), torch.float32
    )
    more_weights, more_batch = fleet_memory.trial_step(
        mutag, of(method="set2set-g", batch_size=128), torch.float32
    )
    assert more_weights == weights
    assert 1.5 * batch < more_batch < 2 * batch
    assert batch < 64 * 200e3


def test_few_graphs_are_tried_and_fewer_if_they_are_large(mutag, monkeypatch):
    tried: list[int] = []
    pack = fleet_memory.pack

    def recorded(graphs, ids):
        tried.append(ids.size)
        return pack(graphs, ids)

    monkeypatch.setattr(fleet_memory, "pack", recorded)
    estimate = step_bytes(mutag, of(method="diffpool-h", batch_size=128), torch.float32)
    assert tried[-1] == fleet_memory.TRIAL_GRAPHS
    tried.clear()
    monkeypatch.setattr(fleet_memory, "TRIAL_BYTES", 1)
    rough = step_bytes(mutag, of(method="diffpool-h", batch_size=128), torch.float32)
    assert tried[-1] == 1
    assert max(tried) <= 2
    assert rough == pytest.approx(estimate, rel=0.2)


def test_at_most_one_member_for_each_training(mutag, free, monkeypatch):
    free(10**12)
    monkeypatch.setattr(fleet_memory, "MAX_CPU_BYTES", 10**12)
    assert choose_fleet_size(mutag, [of()] * 7, torch.float32)[:2] == (7, 1)
    most = fleet_memory.MAX_MEMBERS
    assert choose_fleet_size(mutag, [of()] * 5000, torch.float32)[:2] == (most, 1)


def test_fewer_members_in_less_memory_and_then_more_parts(mutag, free):
    one = step_bytes(mutag, of(), torch.float32)

    def fitting(members: float) -> FleetSize:
        free((members + 1e-3) * one * fleet_memory.OVERHEAD / fleet_memory.CPU_FRACTION)
        return choose_fleet_size(mutag, [of()] * 500, torch.float32)

    for members in (1, 20, 50, 200):
        assert fitting(members) == FleetSize(members, 1, int(fleet_memory.OVERHEAD * members * one))
    sizes = [fitting(fraction) for fraction in (0.99, 0.5, 0.3, 0.0)]
    assert [size.members for size in sizes] == [1] * 4
    parts = [size.parts for size in sizes]
    assert 1 < parts[0] < parts[1] < parts[2] < parts[3] == of().batch_size


@pytest.mark.parametrize("fraction", [0.9, 0.6, 0.4, 0.25])
def test_a_part_and_its_filler_graph_fit(fraction, mutag, free):
    training = of(method="diffpool-h")
    weights, batch = fleet_memory.trial_step(mutag, training, torch.float32)
    free((weights + (fraction + 1e-3) * batch) * fleet_memory.OVERHEAD / fleet_memory.CPU_FRACTION)
    parts = choose_fleet_size(mutag, [training], torch.float32).parts
    graphs = -(-training.batch_size // parts)
    assert (graphs + 1) / training.batch_size <= fraction
    fewer = -(-training.batch_size // (parts - 1))
    assert (fewer + 1) / training.batch_size > fraction, "fewer parts would do"


def test_fleets_beside_each_other_share_the_memory(mutag, free):
    one = step_bytes(mutag, of(), torch.float32)
    free(6.1 * one * fleet_memory.OVERHEAD / fleet_memory.CPU_FRACTION)
    sizes = [
        choose_fleet_size(mutag, [of()] * 9, torch.float32, beside=beside)
        for beside in (1, 2, 3, 6)
    ]
    assert [size.members for size in sizes] == [6, 3, 2, 1]
    assert [size.parts for size in sizes] == [1] * 4
    one_in_parts = choose_fleet_size(mutag, [of()] * 9, torch.float32, beside=12)
    assert one_in_parts.members == 1
    assert one_in_parts.parts >= 2
    assert one_in_parts.bytes <= 6.1 / 12 * one * fleet_memory.OVERHEAD


def test_on_a_gpu_a_fleet_takes_more_than_its_share_rather_than_parts(mutag, free, monkeypatch):
    monkeypatch.setattr(fleet_memory, "trial_step", lambda *_: fleet_memory.StepBytes(100, 900))
    monkeypatch.setattr(type(mutag), "device", torch.device("cuda"))
    free(8200 * fleet_memory.OVERHEAD / fleet_memory.GPU_FRACTION)
    trainings = [of()] * 50
    small, large = (choose_fleet_size(mutag, trainings, torch.float32, n, beside=4) for n in (2, 7))
    assert small == FleetSize(2, 1, int(2000 * fleet_memory.OVERHEAD))
    assert large == FleetSize(7, 1, int(7000 * fleet_memory.OVERHEAD))
    too_large = choose_fleet_size(mutag, trainings, torch.float32, 9, beside=4)
    assert too_large.members == 9
    assert too_large.parts > 1


def test_a_given_number_of_members_is_kept_and_parts_follow(mutag, free):
    free(
        4.5
        * step_bytes(mutag, of(), torch.float32)
        * fleet_memory.OVERHEAD
        / fleet_memory.CPU_FRACTION
    )
    sizes = [choose_fleet_size(mutag, [of()] * 50, torch.float32, n) for n in (2, 4, 8, 16)]
    assert [size.members for size in sizes] == [2, 4, 8, 16]
    assert [size.parts for size in sizes[:2]] == [1, 1]
    assert 1 < sizes[2].parts < sizes[3].parts


def test_fewer_members_with_larger_models(mutag, monkeypatch):
    monkeypatch.setattr(fleet_memory, "usable_memory", lambda device: 2 * 10**8)
    small, large = (
        choose_fleet_size(mutag, [of(hidden=hidden)] * 500, torch.float32).members
        for hidden in (16, 128)
    )
    assert large < small < 500


def test_on_a_cpu_a_fleet_stays_small_with_any_amount_of_memory(mutag, monkeypatch):
    monkeypatch.setattr(fleet_memory, "usable_memory", lambda device: 10**15)
    trainings = [of(hidden=128, batch_size=128)] * 2000
    size = choose_fleet_size(mutag, trainings, torch.float32)
    one = step_bytes(mutag, trainings[0], torch.float32)
    assert size.members == fleet_memory.CPU_THREAD_BYTES // one
    assert size.parts == 1


def test_on_a_cpu_all_threads_together_have_a_limit(mutag, free, monkeypatch):
    free(10**15)
    one = step_bytes(mutag, of(), torch.float32)
    monkeypatch.setattr(fleet_memory, "MAX_CPU_BYTES", 7.5 * one * fleet_memory.OVERHEAD)
    assert choose_fleet_size(mutag, [of()] * 500, torch.float32)[:2] == (7, 1)
    assert choose_fleet_size(mutag, [of()] * 500, torch.float32, beside=3)[:2] == (2, 1)
    monkeypatch.setattr(fleet_memory, "MAX_CPU_BYTES", 0.5 * one * fleet_memory.OVERHEAD)
    size = choose_fleet_size(mutag, [of()] * 500, torch.float32)
    assert size.members == 1
    assert size.parts > 1


def test_when_not_even_the_trial_step_fits(mutag, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(Output, "loss_sums", fail)
    with pytest.raises(MemoryShortageError, match="fits into the memory of cpu"):
        step_bytes(mutag, of(), torch.float32)
    for members, least in ((None, 1), (4, 4), (12, 9)):
        size = choose_fleet_size(mutag, [of()] * 9, torch.float32, members)
        assert size == FleetSize(least, of().batch_size, 0)


def test_usable_memory_is_plausible():
    assert 2**20 < usable_memory(CPU) < 2**50


def test_train_uses_the_choice_unless_members_are_given(mutag, kit, monkeypatch):
    monkeypatch.setattr(lane, "choose_fleet_size", lambda *given: FleetSize(given[3] or 2, 1, 0))
    running: list[int] = []
    trainings = kit.trainings(5)
    train(mutag, trainings, on_progress=lambda progress: running.append(progress.running))
    assert max(running) == 2
    running.clear()
    train(mutag, trainings, members=4, on_progress=lambda p: running.append(p.running))
    assert max(running) == 4


def test_later_fleets_of_a_shape_need_no_trial(mutag, monkeypatch):
    """The first one's is the same, whichever fold or learning rate it begins with."""
    known = KnownShape()
    first = choose_fleet_size(mutag, [of(fold=1, lr=0.1)] * 7, torch.float32, known=known)
    assert known.bytes == KnownShape(fleet_memory.trial_step(mutag, of(), torch.float32)).bytes
    monkeypatch.setattr(fleet_memory, "trial_step", lambda *_: pytest.fail("tried again"))
    assert choose_fleet_size(mutag, [of(fold=2)] * 7, torch.float32, known=known) == first


def test_a_bug_of_a_trial_step_is_not_blamed_on_the_method(mutag, monkeypatch):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    register("mine-h")(registry.find_method("gpool-h").build)
    monkeypatch.setattr(fleet_memory, "pack", lambda graphs, ids: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        fleet_memory.trial_step(mutag, of(method="mine-h"), torch.float32)


def test_a_mistake_of_a_method_in_a_trial_step_is_its_own(mutag, monkeypatch):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    register("mine-h")(lambda shape: hierarchical(shape, lambda _: Failing(shape.hidden)))
    sentence = r"'mine-h' failed \(ValueError: mine\) in test_memory_plan\.py, line \d+\.$"
    with pytest.raises(MethodError, match=sentence):
        fleet_memory.trial_step(mutag, of(method="mine-h"), torch.float32)
