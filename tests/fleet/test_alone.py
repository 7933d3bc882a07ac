"""A training gives the same result alone, in a fleet, and in a refilled slot."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.fleet import train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots, shape_of
from sagpool.graphs import Batch, Graphs, pack
from sagpool.models import methods
from sagpool.nn import Streams

# Variants of SAGPool_g have the layers of those of SAGPool_h, and four scores are more of two.
METHODS = [one for one in methods() if not one.startswith("sagpool-g-") and one[-1] != "4"]


@pytest.mark.parametrize("method", METHODS)
def test_the_same_alone_and_in_fleets(method, mutag, kit):
    trainings = [replace(t, max_epochs=t.max_epochs // 2) for t in kit.trainings(5, method)]
    fleet = train(mutag, trainings, members=5, dtype=torch.float64)
    assert [result.training for result in fleet] == trainings
    kit.close(train(mutag, trainings, members=2, dtype=torch.float64), fleet)
    kit.close(train(mutag, trainings[4:], dtype=torch.float64), fleet[4:])


# What is the same up to rounding in double precision needs no second look at each variant.
@pytest.mark.parametrize("method", [one for one in methods() if one.count("-") == 1])
def test_single_precision_follows_the_same_curve_for_six_epochs(method, mutag, kit):
    """Three of them together; the fourth follows them, by itself."""
    mild = {"lr": 0.005, "patience": 6, "max_epochs": 6}
    trainings = kit.trainings(4, method, **mild)
    fleet = train(mutag, trainings, members=4)
    refilled = train(mutag, trainings, members=3)
    for one, other in zip(refilled, fleet, strict=True):
        assert one.epochs == other.epochs == 6
        kit.close_curves(one, other, 1e-3)


def test_these_trainings_cover_refills_and_different_k(mutag, kit):
    """Slots are refilled at different epochs, with members of other settings."""
    trainings = kit.trainings(7, "sagpool-g")
    assert len({shape_of(mutag, training).k for training in trainings}) > 1
    epochs = [result.epochs for result in train(mutag, trainings, members=7)]
    assert len(set(epochs)) > 2
    assert any(epoch < t.max_epochs for epoch, t in zip(epochs, trainings, strict=True))


def test_an_empty_slot_sees_no_graphs(mutag, kit, monkeypatch):
    """Otherwise its graphs would change the shapes of the other members' batches."""
    trainings = kit.trainings(5, max_epochs=3, patience=9)
    trainings[2] = replace(trainings[2], max_epochs=1)
    fleet = Fleet(mutag, trainings, Slots.fill(range(5), 5))
    fleet.advance()
    fleet.refill()
    assert fleet.slots.running.tolist() == [0, 1, -1, 3, 4]
    seen: list = []

    def recorded(graphs: Graphs, ids) -> Batch:
        batch = pack(graphs, ids)
        seen.append(batch.real.any(1).tolist())
        return batch

    monkeypatch.setattr("sagpool.fleet.lockstep.pack", recorded)
    fleet.advance()
    assert seen == [[True, True, False, True, True]] * 3  # two steps and the validation


def test_a_different_key_gives_a_different_curve(mutag, kit):
    base = {"fold": 0, "seed": 1, "lr": 0.01, "weight_decay": 1e-4, "max_epochs": 3}
    (alone,) = train(mutag, kit.trainings(1, **base))
    for own in ({"seed": 2}, {"fold": 1}, {"lr": 0.02}, {"weight_decay": 0.5}, {"dropout": 0.1}):
        (other,) = train(mutag, kit.trainings(1, **{**base, **own}))
        assert not np.allclose(alone.curve.train_loss, other.curve.train_loss, rtol=0, atol=1e-3)


def test_each_member_and_each_step_has_its_own_random_numbers(mutag, kit, monkeypatch):
    """The keys are the same in a refilled slot."""
    trainings = kit.trainings(4, max_epochs=3, patience=9, batch_size=16)
    seen: list[list[int]] = []

    def recorded(keys: torch.Tensor, first_graph: int = 0) -> Streams:
        seen.append(keys.tolist())
        return Streams(keys, first_graph)

    monkeypatch.setattr("sagpool.fleet.lockstep.Streams", recorded)
    monkeypatch.setattr("sagpool.fleet.evaluate.Streams", recorded)
    train(mutag, trainings, members=4)
    fleet = np.array(seen)  # [steps, validations and three chunks of the evaluation, members]
    epochs = fleet[:-3].reshape(3, -1, 4)  # the last of each is the validation
    steps = epochs[:, :-1]
    assert len(np.unique(steps)) == steps.size
    validations = np.concatenate([epochs[:, -1], fleet[-3:]])
    assert (validations == validations[0]).all()
    assert len(np.unique(validations[0])) == 4
    seen.clear()
    train(mutag, trainings, members=1)
    assert np.array_equal(np.reshape(seen, (4, -1)), fleet.T)


def test_the_state_of_torchs_generator_changes_nothing(mutag, kit):
    trainings = kit.trainings(3)
    torch.manual_seed(1)
    first = train(mutag, trainings, members=2, keep_weights=True)
    torch.manual_seed(2)
    torch.rand(5)
    kit.same(train(mutag, trainings, members=2, keep_weights=True), first)
