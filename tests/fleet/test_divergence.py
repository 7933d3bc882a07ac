"""A member whose loss becomes NaN is reported, and does not affect the others."""

import math
from dataclasses import replace

import pytest
import torch

from sagpool.fleet import train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots
from sagpool.models import methods


def test_a_learning_rate_of_a_million_is_reported_as_diverged(mutag, kit):
    trainings = kit.trainings(5, max_epochs=5)
    trainings[2] = replace(trainings[2], lr=1e6)
    results = train(mutag, trainings, keep_weights=True)
    assert [result.diverged for result in results] == [False, False, True, False, False]
    lost = results[2]
    assert (lost.epochs, lost.best_epoch) == (1, 0)
    assert not math.isfinite(lost.curve.validation_loss[-1] + lost.curve.train_loss[-1])
    for part in (lost.train, lost.validation, lost.test):
        assert math.isnan(part.loss)
        assert math.isnan(part.accuracy)
    assert lost.confusion.sum() == 0


# tests/models/test_members.py looks at a step of each variant.
@pytest.mark.parametrize("method", [one for one in methods() if one.count("-") < 2])
def test_a_diverged_member_does_not_change_the_others_by_a_bit(method, mutag, kit):
    """They get the same results beside the same member that ends without diverging."""
    trainings = kit.trainings(4, method, seed=1, fold=1, patience=9, max_epochs=5)
    trainings[2] = replace(trainings[2], lr=1e6)

    def run(healthy_epochs: int | None = None) -> dict:
        fleet = Fleet(mutag, trainings, Slots.fill(range(4), 4), keep_weights=lambda training: True)
        if healthy_epochs:
            fleet.settings.lr[2] = 1e-3
            fleet.state.stopping.max_epochs[2] = healthy_epochs
        results = {}
        while fleet.slots.active.any():
            results |= fleet.advance()
            fleet.refill()
        return results

    beside = run()
    healthy = run(healthy_epochs=beside[2].epochs)
    assert beside[2].diverged
    assert not healthy[2].diverged
    assert beside[2].epochs == healthy[2].epochs < 5
    others = [0, 1, 3]
    kit.same([beside[n] for n in others], [healthy[n] for n in others])


def test_a_member_that_diverges_later_has_the_scores_of_its_best_epoch(mutag, kit):
    (training,) = kit.trainings(1, max_epochs=9, patience=9)
    fleet = Fleet(mutag, [training], Slots.fill([0], 1), keep_weights=lambda training: True)
    fleet.advance()
    (best,), test = fleet.lockstep.stack.state_dicts([True]), fleet.settings.splits[0].test
    fleet.settings.lr[0] = 1e6
    results = fleet.advance()
    while not results:
        results = fleet.advance()
    result = results[0]
    assert result.diverged
    assert result.best_epoch == 1
    assert result.validation.loss == pytest.approx(result.curve.validation_loss[0], abs=1e-5)
    assert result.confusion.sum() == len(test)
    torch.testing.assert_close(result.weights, best, rtol=0, atol=0)


def test_the_slot_of_a_diverged_member_is_refilled(mutag, kit):
    trainings = kit.trainings(4)
    trainings[0] = replace(trainings[0], lr=1e6)
    results = train(mutag, trainings, members=1, dtype=torch.float32)
    kit.same(results[1:], train(mutag, trainings[1:], members=1))
