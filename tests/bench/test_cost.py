"""What a search cost beside the full grid: exact if that is known, else an upper bound."""

from dataclasses import replace

import numpy as np
import pytest

from sagpool.bench.cost import search_cost
from sagpool.bench.plan import repeat
from sagpool.bench.records import SearchCost, Validation
from sagpool.fleet import Training

FIRST = Training("gpool-h", folds=2, patience=10, max_epochs=100)
SECOND = replace(FIRST, lr=0.1)


def seen(losses, *, ended):
    curve = np.array([losses, [0.5] * len(losses)])
    return Validation(0.5, min(losses), len(losses), ended, curve)


def test_a_full_grid_is_exact():
    trainings = repeat(FIRST, 1) + repeat(SECOND, 1)
    results = {one: seen([1.0] * 5, ended=True) for one in trainings}
    cost = search_cost([FIRST, SECOND], 1, results, dict.fromkeys(trainings, 5))
    assert cost == SearchCost(20, 20, exact=True)
    assert str(cost) == "20 models·epochs, 100 % of the full grid"


def test_trainings_that_did_not_end_count_with_what_they_have_left_at_least():
    ended, paused, other = *repeat(FIRST, 1), repeat(SECOND, 1)[0]
    results = {
        ended: seen([3.0, 2.0, 1.0, 2.0], ended=True),
        paused: seen([3.0, 1.0, 2.0], ended=False),  # best in epoch 2: at least 12 epochs
        other: seen([1.0, 2.0, 3.0], ended=False),  # at least 11, and as many in its other fold
    }
    cost = search_cost([FIRST, SECOND], 1, results, {ended: 4})
    assert cost == SearchCost(4 + 3 + 3, 4 + 12 + 2 * 11, exact=False)
    assert cost.fraction == pytest.approx(10 / 38)
    assert str(cost) == "10 models·epochs, at most 27 % of the full grid"


def test_the_bound_is_between_the_epochs_so_far_and_the_limit():
    short = replace(FIRST, patience=50, max_epochs=5)
    cost = search_cost([short], 1, {short: seen([2.0, 1.0], ended=False)}, {})
    assert cost == SearchCost(2, 2 * 5, exact=False)
    impatient = replace(FIRST, patience=1)  # cannot happen, but must not count less than it did
    cost = search_cost([impatient], 1, {impatient: seen([1.0, 2.0, 3.0], ended=False)}, {})
    assert cost.grid == 6


def test_the_grid_is_known_if_its_trainings_ended_elsewhere():
    trainings = repeat(FIRST, 2)
    results = {trainings[0]: seen([2.0, 1.0], ended=False)}
    cost = search_cost([FIRST], 2, results, dict.fromkeys(trainings, 25))
    assert cost == SearchCost(2, 100, exact=True)
    assert str(cost) == "2 models·epochs, 2 % of the full grid"


def test_a_failed_training():
    nothing = Validation(np.nan, np.nan, 0, True, np.zeros((2, 0)))
    cost = search_cost([FIRST], 1, dict.fromkeys(repeat(FIRST, 1), nothing), {})
    assert (cost.epochs, cost.grid, cost.fraction) == (0, 0, 1.0)
