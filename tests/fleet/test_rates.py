"""Schedules of the learning rate."""

import numpy as np
import pytest
import torch

from sagpool.fleet import Training, train
from sagpool.fleet.rates import SCHEDULES
from sagpool.graphs import load


def test_factors():
    cosine, step = SCHEDULES["cosine"], SCHEDULES["step"]
    assert [cosine(epoch, 10) for epoch in (0, 5, 10)] == pytest.approx([1, 0.5, 0])
    assert [step(epoch, 10**5) for epoch in (0, 49, 50, 149)] == [1, 1, 0.5, 0.25]


def test_members_with_schedules_of_their_own_train_as_if_alone():
    graphs = load("MUTAG")
    trainings = [
        Training("gpool-h", hidden=4, folds=2, lr=0.02, max_epochs=epochs, schedule=schedule)
        for epochs, schedule in ((3, "cosine"), (4, "constant"), (5, "cosine"))
    ]
    # Two slots: the last one is given to another member than the first.
    together = train(graphs, trainings, members=2, dtype=torch.float64)
    for training, one in zip(trainings, together, strict=True):
        (alone,) = train(graphs, [training], dtype=torch.float64)
        np.testing.assert_allclose(alone.curve.train_loss, one.curve.train_loss, rtol=1e-12)
    first = np.array([one.curve.train_loss[0] for one in together])
    assert len(np.unique(first)) == 3, "another training, so other random numbers"


def test_the_rate_of_the_first_epoch_is_the_given_one_and_later_ones_are_lower(monkeypatch):
    from sagpool.fleet import lockstep

    seen, step = [], lockstep.adam_step
    monkeypatch.setattr(
        lockstep, "adam_step", lambda *given: (seen.append(given[2].tolist()), step(*given))
    )
    train(
        load("MUTAG"),
        [Training("gpool-h", hidden=4, folds=2, lr=0.02, max_epochs=2, schedule="cosine")],
    )
    assert [rate for (rate,) in seen] == pytest.approx([0.02, 0.01])


def test_the_default_is_no_part_of_an_identity():
    assert "schedule" not in Training("gpool-h").to_dict()
    assert Training("gpool-h", schedule="step").to_dict()["schedule"] == "step"
