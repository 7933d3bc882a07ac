"""What the size of its steps means for a fleet, and which fleets come first."""

from collections import deque

import numpy as np
import pytest
import torch

from sagpool.fleet import Training
from sagpool.fleet.pace import RECORDING, Pace
from sagpool.fleet.schedule import Slots
from sagpool.fleet.scheduler import Scheduler
from sagpool.fleet.work import Work


def test_the_pace_on_a_cpu(mutag):
    pace = Pace.of(mutag, Training("sagpool-h", hidden=16, batch_size=20))
    assert pace == Pace(False, pytest.approx(mutag.node_counts.mean() * 20 * 16), steps=10)
    assert not pace.whole_epochs(1)
    assert pace.epochs_at_once(1) == 1, "the callbacks hear of each epoch"
    assert not pace.should_compact(Slots(np.array([0, -1, 1, 2])), wasted=10**12)
    assert pace.should_compact(Slots(np.array([0, -1, -1, 2])), wasted=0)


@pytest.mark.parametrize(
    ("members", "whole", "epochs"),
    [(1, True, 8), (16, True, 8), (17, False, 8), (300, False, 1)],
)
def test_the_pace_on_a_gpu(members, whole, epochs):
    pace = Pace(True, 1e6)
    assert pace.whole_epochs(members) is whole
    assert pace.epochs_at_once(members) == epochs


def test_a_gpu_compacts_when_empty_slots_have_cost_as_much_as_a_recording():
    pace, slots = Pace(True, 1e6, steps=10), Slots(np.array([0, -1, 2]))
    enough = -(-RECORDING // 10**7)
    assert not pace.should_compact(slots, enough - 1)
    assert pace.should_compact(slots, enough)
    assert not pace.should_compact(Slots(np.array([0, 1])), enough), "no slot is empty"
    assert not pace.should_compact(Slots(np.array([-1, 1]), deque([2])), enough), "one is waiting"
    assert not pace.should_compact(Slots(np.array([-1, -1])), enough), "the fleet has ended"


def queued(graphs, settings, *, on_cpu: bool) -> list[dict]:
    """The settings in the order in which their fleets start, and their priorities."""
    trainings = [Training("sagpool-h", **own) for own in settings]
    scheduler = Scheduler(torch.device("cpu"))
    scheduler.on_cpu = on_cpu
    work = Work(graphs, trainings)
    work.prepare(1)
    for fleet in work.fleets:
        scheduler._queue(fleet)
    started = []
    while scheduler.waiting:
        fleet = scheduler.waiting[0][-1]
        started.append((fleet.trainings[0], scheduler._priority(fleet)))
        scheduler.waiting.remove(scheduler.waiting[0])
        scheduler.waiting.sort()
        scheduler.running[fleet] = None
    return [
        ({name: getattr(training, name) for name in own}, priority)
        for (training, priority), own in zip(started, settings, strict=True)
    ]


SIZES = [{"hidden": hidden} for hidden in (8, 32, 16, 64, 128)]


def test_on_a_gpu_small_models_come_first_which_take_most_epochs(mutag):
    started = queued(mutag, SIZES, on_cpu=False)
    assert [own["hidden"] for own, _ in started] == [8, 16, 32, 64, 128]
    assert [priority for _, priority in started] == [-3, -2, -1, 0, 0]


def test_on_a_cpu_those_with_most_work_come_first(mutag):
    started = queued(mutag, SIZES, on_cpu=True)
    assert [own["hidden"] for own, _ in started] == [128, 64, 32, 16, 8]


def test_a_low_rate_takes_more_epochs(mutag):
    settings = [{"lr": lr, "ratio": ratio} for lr, ratio in ((0.1, 0.5), (0.001, 0.25), (0.1, 0.8))]
    started = queued(mutag, settings, on_cpu=False)
    assert [own["lr"] for own, _ in started] == [0.001, 0.1, 0.1]
    assert [priority for _, priority in started] == [-3, -2, -2]
