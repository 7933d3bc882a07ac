"""Races: cheap, fair to slow learners, and careful with few candidates."""

from dataclasses import replace

import numpy as np
import pytest

from sagpool.bench.plan import settings_of
from sagpool.bench.racing import race_rounds
from sagpool.bench.records import Validation
from sagpool.bench.search import Search, choose, count_trainings
from sagpool.fleet import Training

ONE = Training("gpool-h", folds=10, patience=50, max_epochs=1000)
LENGTH = 120  # of every training that is not stopped before


def candidates(count, **changes):
    return [replace(ONE, lr=(1 + i) * 1e-3, **changes) for i in range(count)]


def learning(final, speed=10.0, noise=0.0):
    """``[2, epochs]`` validation loss and accuracy of a training that ends at ``final``."""
    done = 1 - np.exp(-np.arange(1, LENGTH + 1) / speed)
    accuracy = 0.5 + (final - 0.5) * done + noise
    return np.stack([0.7 - 0.5 * (accuracy - noise - 0.5), accuracy])


def drive(program, curve_of):
    """The ranking, and all trainings with the epoch that they reached."""
    reached, sizes = {}, []
    try:
        asked = next(program)
        while True:
            seen = []
            for training in asked.trainings:
                curve = curve_of(training)[:, : training.max_epochs]
                ended = asked.until is None or curve.shape[1] <= asked.until
                curve = curve[:, : asked.until]
                reached[training] = curve.shape[1]
                best = curve[0].argmin() if np.isfinite(curve[0]).all() else None
                scores = (np.nan, np.nan) if best is None else curve[::-1, best]
                seen.append(Validation(*map(float, scores), curve.shape[1], ended, curve))
            sizes.append(len({t.lr for t in asked.trainings}))
            asked = program.send(seen)
    except StopIteration as stop:
        return stop.value, reached, sizes


def noise_of(training, scale=0.01):
    return scale * np.random.default_rng([training.fold, round(1e3 * training.lr)]).normal()


def test_the_rounds_of_a_race():
    assert race_rounds(ONE) == [(20, 2, 1 / 4), (40, 4, 1 / 3), (70, 8, 1 / 2)]
    short = race_rounds(replace(ONE, folds=2, max_epochs=30))
    assert [one[:2] for one in short] == [(20, 2), (None, 2), (None, 2)]
    assert race_rounds(replace(ONE, patience=1, max_epochs=1))[0][:2] == (None, 2)


def test_a_race_of_many_finds_a_good_one_cheaply():
    many = candidates(192)

    def curve_of(training):
        return learning(0.6 + training.lr, noise=noise_of(training))

    ranked, reached, sizes = drive(choose(Search.RACE, many), curve_of)
    assert ranked[0].settings["lr"] > 0.18
    assert sizes == [192, 48, 16, 8, 4, 2]
    assert sum(reached.values()) < 0.15 * 192 * 10 * LENGTH
    assert len(reached) <= count_trainings(Search.RACE, many)


def test_the_ranking_has_everyone_and_those_that_were_dropped_later_come_first():
    ranked, _, _ = drive(choose(Search.RACE, candidates(40)), lambda t: learning(0.6 + t.lr))
    assert [entry.settings["lr"] for entry in ranked] == [c.lr for c in candidates(40)[::-1]]
    assert [entry.runs for entry in ranked[:4]] == [10, 10, 8, 8]
    assert [entry.runs for entry in ranked[-30:]] == [2] * 30


def test_further_seeds_decide_between_finalists():
    """One of them is lucky with the first seed, and would win a grid search."""
    many = candidates(192)

    def curve_of(training):
        lucky = training.lr == many[-8].lr and training.seed == 0
        return learning(0.5 + 2 * training.lr, noise=0.03 if lucky else 0.0)

    ranked, reached, _ = drive(choose(Search.RACE, many), curve_of)
    assert ranked[0].settings == settings_of(many[-1])
    assert ranked[1].settings == settings_of(many[-8])
    assert [entry.runs for entry in ranked[:8]] == [30, 30, 20, 20, 10, 10, 10, 10]
    assert {t.fold for t in reached if t.seed == 2} == set(range(10))


def test_a_single_lucky_epoch_does_not_help():
    many = candidates(64)
    pauses = [until - 1 for until, *_ in race_rounds(ONE)]

    def curve_of(training):
        if training.lr > many[31].lr:
            return learning(0.75)
        curve = learning(0.7)
        curve[1, pauses] += 0.2
        return curve

    ranked, _, _ = drive(choose(Search.RACE, many), curve_of)
    assert all(entry.settings["lr"] > many[31].lr for entry in ranked[:16])


def test_a_slow_learner_wins_if_its_loss_falls():
    """After 20 epochs it is far behind; in the end it is the best."""
    many = candidates(64)

    def curve_of(training):
        if training.lr == many[0].lr:
            return learning(0.9, speed=25.0)
        return learning(0.75, speed=3.0, noise=noise_of(training))

    early = sorted(curve_of(candidate)[1, 19] for candidate in many)
    assert curve_of(many[0])[1, 19] == early[0]
    ranked, _, _ = drive(choose(Search.RACE, many), curve_of)
    assert ranked[0].settings == settings_of(many[0])


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("folds", [2, 10])
def test_few_candidates_that_are_alike_are_trained_to_the_end(count, folds):
    few = candidates(count, folds=folds)
    ranked, reached, _ = drive(choose(Search.RACE, few), lambda t: learning(0.7, noise=noise_of(t)))
    last = [training for training, epochs in reached.items() if epochs == LENGTH]
    first_seed = [training for training in last if training.seed == 0]
    assert len({t.lr for t in first_seed}) == min(count, 4)
    assert len(first_seed) == folds * min(count, 4)
    # A second seed only if it costs less than what the others have saved.
    assert len(last) - len(first_seed) == (2 * folds if count == 8 else 0)
    assert len(ranked) == count


def test_of_two_candidates_a_hopeless_one_leaves():
    ranked, reached, sizes = drive(
        choose(Search.RACE, candidates(2)),
        lambda t: learning(0.8 if t.lr > 1.5e-3 else 0.5, noise=noise_of(t)),
    )
    assert sizes[0] == 2
    assert sizes[-1] == 1
    assert ranked[0].settings == settings_of(candidates(2)[1])
    assert sum(reached.values()) < 0.7 * 2 * 10 * LENGTH


@pytest.mark.parametrize("count", [2, 12])
def test_a_candidate_that_fails_does_not_win(count):
    some = candidates(count)

    def curve_of(training):
        failing = training.lr == some[-1].lr and training.fold == 1
        return np.full((2, 3), np.nan) if failing else learning(0.6 + training.lr)

    ranked, _, _ = drive(choose(Search.RACE, some), curve_of)
    assert ranked[0].settings == settings_of(some[-2])


def test_all_fail():
    ranked, _, _ = drive(choose(Search.RACE, candidates(12)), lambda t: np.full((2, 1), np.nan))
    assert [entry.accuracy for entry in ranked] == [0.0] * 12


def test_a_race_with_very_short_trainings():
    few = candidates(12, max_epochs=1, folds=3)
    ranked, reached, _ = drive(choose(Search.RACE, few), lambda t: learning(0.6 + t.lr))
    assert ranked[0].settings == settings_of(few[-1])
    assert set(reached.values()) == {1}
