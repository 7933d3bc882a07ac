"""Searches: by validation results only, and halving with a fraction of the epochs."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest

from sagpool.bench.plan import settings_of
from sagpool.bench.records import Validation
from sagpool.bench.search import Round, Search, choose, count_trainings, halving_rounds
from sagpool.fleet import Training
from sagpool.fleet.training import PROTOCOL

ONE = Training("gpool-h", folds=10, max_epochs=1000)


def candidates(count):
    return [replace(ONE, lr=(1 + i) * 1e-3) for i in range(count)]


def drive(program, accuracy, loss=lambda training: 0.5):
    """The ranking, and the rounds that led to it; results are the same in every epoch."""
    rounds = []
    try:
        asked = next(program)
        while True:
            rounds.append(asked)
            asked = program.send([_validation(accuracy(t), loss(t), t, asked) for t in asked[0]])
    except StopIteration as stop:
        return stop.value, rounds


def _validation(accuracy, loss, training, asked):
    epochs = training.max_epochs if asked.until is None else asked.until
    curve = np.tile([[loss], [accuracy]], epochs)
    return Validation(accuracy, loss, epochs, asked.until is None, curve)


def test_a_search_gets_only_validation_results():
    assert Validation._fields == ("accuracy", "loss", "epochs", "ended", "curve", "value")


def test_a_grid_search_uses_every_fold_of_the_first_seed():
    ranked, rounds = drive(choose(Search.GRID, candidates(3)), lambda t: t.lr)
    assert [round.until for round in rounds] == [None]
    asked = rounds[0].trainings
    assert [(t.seed, t.fold, t.max_epochs) for t in asked] == [(0, f, 1000) for f in range(10)] * 3
    assert [entry.settings["lr"] for entry in ranked] == pytest.approx([3e-3, 2e-3, 1e-3])
    assert ranked[0].settings == settings_of(candidates(3)[2])
    assert [entry.runs for entry in ranked] == [10, 10, 10]
    assert Training("gpool-h", **ranked[0].settings) == candidates(3)[2]


def test_ties_are_broken_by_the_loss():
    ranked, _ = drive(
        choose(Search.GRID, candidates(3)), lambda t: 0.7, loss=lambda t: abs(t.lr - 2e-3)
    )
    assert ranked[0].settings["lr"] == pytest.approx(2e-3)


def test_the_order_of_folds_does_not_decide():
    """Summed up in another order, the same accuracies have a mean that differs by rounding."""
    known = [12 / 17, 14 / 17, 13 / 17, 11 / 17, 15 / 17, 12 / 17, 13 / 17, 10 / 17, 9 / 17, 1.0]
    random = np.random.default_rng(0)
    for _ in range(100):
        folds = {1e-3: random.permutation(known), 2e-3: random.permutation(known)}
        ranked, _ = drive(
            choose(Search.GRID, candidates(2)),
            lambda t, folds=folds: folds[round(t.lr, 6)][t.fold],
            loss=lambda t: -t.lr,
        )
        assert [entry.settings["lr"] for entry in ranked] == pytest.approx([2e-3, 1e-3])


def test_a_candidate_that_diverges_comes_last():
    nan = float("nan")
    ranked, _ = drive(
        choose(Search.GRID, candidates(2)),
        lambda t: nan if t.lr > 1.5e-3 and t.fold == 3 else (0.1 if t.lr < 1.5e-3 else 0.105),
        lambda t: nan if t.lr > 1.5e-3 and t.fold == 3 else 0.5,
    )
    assert [entry.settings["lr"] for entry in ranked] == pytest.approx([1e-3, 2e-3])


def test_the_rounds_of_halving_grow_to_the_full_budget():
    schedule = halving_rounds(candidates(192))
    epochs, folds = zip(*schedule, strict=True)
    assert len(schedule) == 8
    assert epochs == (16, 32, 64, 128, 256, 512, None, None)
    assert folds == (2, 2, 2, 2, 2, 3, 5, 10)
    assert halving_rounds(candidates(1)) == [(None, 10)]
    assert halving_rounds([replace(ONE, max_epochs=5, folds=2)] * 4) == [(None, 2), (None, 2)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 192])
def test_halving_finds_the_best_with_fewer_epochs(count):
    ranked, rounds = drive(choose(Search.HALVING, candidates(count)), lambda t: t.lr)
    assert ranked[0].settings == settings_of(candidates(count)[-1])
    if count > 1:
        assert ranked[1].settings == settings_of(candidates(count)[-2]), "the runner-up"
    assert sorted(entry.settings["lr"] for entry in ranked) == [c.lr for c in candidates(count)]
    sizes = [len({t.lr for t in round.trainings}) for round in rounds]
    assert sizes[0] == count
    assert all(later == -(-earlier // 2) for earlier, later in pairwise(sizes))
    assert sizes[-1] <= 2
    # The cell needs the trainings of the last round anyway.
    last = rounds[-1]
    assert last.until is None
    assert {(t.seed, t.fold, t.max_epochs) for t in last.trainings} == {
        (0, fold, 1000) for fold in range(10)
    }
    if count == 192:
        assert _work(rounds) < 0.05 * 192 * 10 * 1000


def _work(rounds: list[Round]) -> int:
    """Epochs in all; a training goes on from where the last round left it."""
    reached = {t: round.until or t.max_epochs for round in rounds for t in round.trainings}
    return sum(reached.values())


@pytest.mark.parametrize("search", [Search.GRID, Search.HALVING, Search.RACE])
@pytest.mark.parametrize("count", [1, 5, 192])
def test_the_number_of_trainings_is_known_in_advance(search, count):
    _, rounds = drive(choose(search, candidates(count)), lambda t: t.lr)
    trained = {training for round in rounds for training in round.trainings}
    most = count_trainings(search, candidates(count))
    assert len(trained) == most if search is not Search.RACE else len(trained) <= most


def test_settings_are_all_fields_but_method_seed_and_fold():
    """Options of the protocol are among them if they are not the defaults."""
    other = replace(ONE, **{name: values[-1] for name, values in PROTOCOL.items()})
    assert set(settings_of(other)) == {item.name for item in fields(Training)} - {
        "method",
        "method_settings",
        "seed",
        "fold",
        "class_weight",  # no options of the protocol
        "schedule",
    }
    assert set(settings_of(ONE)) == set(settings_of(other)) - set(PROTOCOL)
