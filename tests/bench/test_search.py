"""Searches: by validation results only, and halving with a fraction of the epochs."""

from dataclasses import fields, replace
from itertools import pairwise

import pytest

from sagpool.bench.plan import settings_of
from sagpool.bench.records import Validation
from sagpool.bench.search import Search, choose, rounds
from sagpool.fleet import Training

ONE = Training("gpool-h", folds=10, max_epochs=1000)


def candidates(count):
    return [replace(ONE, lr=(1 + i) * 1e-3) for i in range(count)]


def trainer(accuracy, loss=lambda training: 0.5, seen=None):
    def train(trainings):
        if seen is not None:
            seen.append(list(trainings))
        return [Validation(accuracy(t), loss(t)) for t in trainings]

    return train


def test_a_search_gets_only_validation_results():
    assert Validation._fields == ("accuracy", "loss")


def test_a_grid_search_uses_every_fold_of_the_first_seed():
    seen = []
    ranked = choose(Search.GRID, candidates(3), trainer(lambda t: t.lr, seen=seen))
    (asked,) = seen
    assert [(t.seed, t.fold, t.max_epochs) for t in asked] == [(0, f, 1000) for f in range(10)] * 3
    assert [entry.settings["lr"] for entry in ranked] == pytest.approx([3e-3, 2e-3, 1e-3])
    assert ranked[0].settings == settings_of(candidates(3)[2])
    assert [entry.runs for entry in ranked] == [10, 10, 10]
    assert Training("gpool-h", **ranked[0].settings) == candidates(3)[2]


def test_ties_are_broken_by_the_loss():
    ranked = choose(
        Search.GRID, candidates(3), trainer(lambda t: 0.7, loss=lambda t: abs(t.lr - 2e-3))
    )
    assert ranked[0].settings["lr"] == pytest.approx(2e-3)


def test_a_candidate_that_diverges_comes_last():
    nan = float("nan")
    ranked = choose(
        Search.GRID,
        candidates(2),
        trainer(
            lambda t: nan if t.lr > 1.5e-3 and t.fold == 3 else (0.1 if t.lr < 1.5e-3 else 0.105),
            lambda t: nan if t.lr > 1.5e-3 and t.fold == 3 else 0.5,
        ),
    )
    assert [entry.settings["lr"] for entry in ranked] == pytest.approx([1e-3, 2e-3])


def test_the_rounds_of_halving_grow_to_the_full_budget():
    schedule = rounds(candidates(192))
    epochs, folds = zip(*schedule, strict=True)
    assert len(schedule) == 8
    assert epochs == (16, 32, 64, 128, 256, 512, 1000, 1000)
    assert folds == (2, 2, 2, 2, 2, 3, 5, 10)
    assert rounds(candidates(1)) == [(1000, 10)]
    assert rounds([replace(ONE, max_epochs=5, folds=2)] * 4) == [(5, 2), (5, 2)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 192])
def test_halving_finds_the_best_with_fewer_trainings(count):
    seen = []
    ranked = choose(Search.HALVING, candidates(count), trainer(lambda t: t.lr, seen=seen))
    assert ranked[0].settings == settings_of(candidates(count)[-1])
    assert ranked[0].settings["max_epochs"] == 1000, "the candidate itself, not its short form"
    if count > 1:
        assert ranked[1].settings == settings_of(candidates(count)[-2]), "the runner-up"
    assert sorted(entry.settings["lr"] for entry in ranked) == [c.lr for c in candidates(count)]
    sizes = [len({t.lr for t in asked}) for asked in seen]
    assert sizes[0] == count
    assert all(later == -(-earlier // 2) for earlier, later in pairwise(sizes))
    assert sizes[-1] <= 2
    # The cell needs the trainings of the last round anyway.
    assert {(t.seed, t.fold, t.max_epochs) for t in seen[-1]} == {(0, f, 1000) for f in range(10)}
    if count == 192:
        work = sum(t.max_epochs for asked in seen for t in asked)
        assert work < 0.05 * 192 * 10 * 1000


def test_settings_are_all_fields_but_method_seed_and_fold():
    assert set(settings_of(ONE)) == {item.name for item in fields(Training)} - {
        "method",
        "method_settings",
        "seed",
        "fold",
    }
