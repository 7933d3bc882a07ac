"""Several epochs of a small fleet before the host looks at its losses."""

import numpy as np
import pytest
import torch

from sagpool.fleet import Paused, train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.pace import Pace
from sagpool.fleet.schedule import Slots
from sagpool.fleet.stopping import RULES, DeviceStopping, EarlyStopping
from sagpool.fleet.train import train_until


@pytest.fixture
def at_once(monkeypatch):
    """Makes every fleet train so many epochs at once."""

    def make(epochs: int) -> None:
        monkeypatch.setattr(Pace, "epochs_at_once", lambda pace, members: epochs)

    return make


@pytest.mark.parametrize("epochs", [2, 3, 8])
def test_the_results_are_those_of_single_epochs(epochs, mutag, kit, at_once):
    trainings = kit.trainings(7, patience=2, max_epochs=11)
    trainings += kit.trainings(1, lr=1e6)  # diverges
    expected = train(mutag, trainings, dtype=torch.float64, keep_weights=True)
    at_once(epochs)
    found = train(mutag, trainings, dtype=torch.float64, keep_weights=True)
    kit.close(found, expected)
    assert len({result.epochs for result in found}) > 2


def test_epochs_after_the_end_of_a_training_do_not_count(mutag, kit, at_once):
    at_once(5)
    log: list = []
    results = train(mutag, kit.trainings(4), on_progress=log.append)
    assert log[-1].epochs == sum(result.epochs for result in results)
    assert len(log) < max(result.epochs for result in results)


def test_slots_are_refilled_after_each_epoch_while_trainings_wait(mutag, kit, at_once):
    at_once(5)
    trainings = kit.trainings(5)
    fleet = Fleet(mutag, trainings, Slots.fill(range(5), 2))
    while fleet.slots.waiting:
        before = fleet.state.stopping.epoch.copy()
        fleet.advance()
        assert (fleet.state.stopping.epoch - before == 1).all()
        fleet.refill()
    before = fleet.state.stopping.epoch.copy()
    fleet.advance()
    assert (fleet.state.stopping.epoch - before).max() > 1


def test_they_end_where_trainings_pause(mutag, kit, at_once):
    trainings = kit.trainings(3, patience=50, max_epochs=50)
    at_once(4)
    for outcome in train_until(mutag, trainings, until=6):
        assert isinstance(outcome, Paused)
        assert len(outcome.curve.train_loss) == 6


def test_an_interrupted_fleet_returns_to_the_epoch_before_all_of_them(mutag, kit, at_once):
    at_once(4)
    fleet = Fleet(mutag, kit.trainings(3, patience=50, max_epochs=50), Slots.fill(range(3), 3))
    fleet.advance()
    before, steps = fleet.members(), 0

    def interrupt() -> None:
        nonlocal steps
        steps += 1
        if steps == 5:  # in the third epoch
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fleet.advance(interrupt)
    for number, member in fleet.members().items():
        assert member.epoch == before[number].epoch == 4
        assert member.curve == before[number].curve
        assert torch.equal(member.weights, before[number].weights)
        assert torch.equal(member.best, before[number].best)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_device_decides_as_the_host(rule):
    draws = np.random.default_rng(1)
    patience, longest = draws.integers(1, 5, 200), draws.integers(1, 20, 200)
    host = EarlyStopping.start(patience, longest)
    device = DeviceStopping.start(200, torch.device("cpu"))
    device.patience.copy_(torch.from_numpy(patience))
    device.left.copy_(torch.from_numpy(longest))
    device.waited.zero_()
    best, ended = torch.zeros(200, 1), np.zeros(200, bool)
    for epoch in range(1, 25):
        losses = draws.normal(size=(3, 200)).round(1)
        losses[:2][draws.random((2, 200)) < 0.02] = np.nan
        verdict = host.update(losses[0], losses[1], ended, rule)
        ended = ended | verdict.finished
        device.update(torch.from_numpy(losses), torch.full((200, 1), float(epoch)), best, rule)
        assert (device.stopped.numpy() == ended).all()
        assert (best[:, 0].numpy() == host.best_epoch).all()
        assert (device.best_loss.numpy() == host.best_loss).all()
    assert ended.all()
