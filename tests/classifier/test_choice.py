"""Mixture, temperature, thresholds and conformal sets, on arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sagpool.classifier.calibration import fit_temperature, with_temperature
from sagpool.classifier.choice import Rules, choose, decision_for
from sagpool.classifier.conformal import Conformal, bound
from sagpool.classifier.estimate import cross_fit, estimate, mcnemar, wilson_interval
from sagpool.classifier.mixture import greedy_mixture, loss_per_graph
from sagpool.classifier.model import decide
from sagpool.fleet.metrics import losses

RANDOM = np.random.default_rng(1)


def binary(logit: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-logit))
    return np.stack([1 - p, p], -1)


def problem(graphs: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds, and classes that follow them."""
    logit = 2 * RANDOM.normal(size=graphs)
    return logit, (RANDOM.random(graphs) < 1 / (1 + np.exp(-logit))).astype(np.int64)


@settings(max_examples=60, deadline=None)
@given(
    outputs=arrays(np.float64, (4, 15, 3), elements=st.floats(0, 1)),
    y=arrays(np.int64, 15, elements=st.integers(0, 2)),
)
def test_a_mixture_is_never_worse_than_its_best_candidate(outputs, y):
    outputs = (outputs + 1e-9) / (outputs + 1e-9).sum(2, keepdims=True)
    weights = greedy_mixture("classification", outputs, y)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    mixed = loss_per_graph("classification", np.tensordot(weights, outputs, 1), y).mean()
    alone = [loss_per_graph("classification", one, y).mean() for one in outputs]
    assert mixed <= min(alone) + 1e-12


def test_two_halves_of_the_truth_are_mixed():
    one, other = RANDOM.normal(size=(2, 400))
    y = (RANDOM.random(400) < 1 / (1 + np.exp(-3 * (one + other)))).astype(np.int64)
    noise = RANDOM.normal(size=400)
    outputs = np.stack([binary(3 * one), binary(3 * other), binary(noise)])
    weights = greedy_mixture("classification", outputs, y)
    assert weights[:2] == pytest.approx([0.5, 0.5], abs=0.1)
    assert weights[2] < 0.1


@pytest.mark.parametrize("task", ["classification", "multitask"])
def test_the_temperature_undoes_overconfidence(task):
    logit, y = problem(4000)
    sure = binary(3 * logit)
    truth = y if task == "classification" else y[:, None].astype(float)
    p = sure if task == "classification" else sure[:, 1:]
    temperature = fit_temperature(task, p, truth)
    assert temperature == pytest.approx(3, rel=0.15)
    better = with_temperature(task, p, temperature)
    assert losses(task, better, truth).mean() < losses(task, p, truth).mean()
    assert ((better > 0.5) == (p > 0.5)).all(), "the decision is the same"


def test_a_few_right_answers_do_not_make_the_model_certain():
    p = binary(np.array([1.0, -1.0, 1.0]))
    assert fit_temperature("classification", p, np.array([1, 0, 1])) > 0.3


@settings(max_examples=100, deadline=None)
@given(
    # The bound is rounded up in its ninth digit: scores that are closer count as equal.
    scores=st.lists(
        st.integers(0, 10**7).map(lambda n: n / 10**7), min_size=1, max_size=60, unique=True
    ),
    coverage=st.floats(0.05, 0.95),
)
def test_the_bound_covers_exchangeable_scores(scores, coverage):
    """Each of n + 1 exchangeable scores is the new one with the same probability."""
    covered = []
    for new in range(len(scores)):
        high = bound(np.delete(scores, new), coverage)
        covered.append(high is None or scores[new] <= high)
    assert np.mean(covered) >= coverage - 1e-9
    assert np.mean(covered) <= coverage + 1 / len(scores) + 1e-9


def test_prediction_sets_cover_and_are_never_empty():
    logit, y = problem(6000)
    p = binary(logit)
    conformal = Conformal.of("classification", p[:3000], y[:3000], 0.9)
    sets = conformal.sets("classification", p[3000:])
    assert conformal.contains("classification", p[3000:], y[3000:]).mean() == pytest.approx(
        0.9, abs=0.02
    )
    assert sets.any(1).all()
    assert 0 < sets.all(1).mean() < 1
    low = Conformal(0.5, (0.0,))
    assert (low.sets("classification", p).sum(1) == 1).all(), "the most probable class is in it"


def test_intervals_of_a_regression_with_gaps():
    truth = RANDOM.normal(size=(4000, 2)) * [1, 10]
    truth[::3, 1] = np.nan
    values = np.zeros_like(truth)
    conformal = Conformal.of("regression", values[:2000], truth[:2000], 0.8)
    inside = conformal.contains("regression", values[2000:], truth[2000:])
    assert np.nanmean(inside, axis=0) == pytest.approx([0.8, 0.8], abs=0.03)
    assert np.isnan(inside).sum() == np.isnan(truth[2000:]).sum()
    width = np.diff(conformal.interval(values[:1]), axis=2)[0, :, 0]
    assert width[1] / width[0] == pytest.approx(10, rel=0.2)


def test_too_few_graphs_for_the_promise_give_everything():
    p, y = binary(np.zeros(5)), np.zeros(5, int)
    conformal = Conformal.of("classification", p, y, 0.9)
    assert conformal.thresholds == (None,)
    assert conformal.sets("classification", p).all()


def rules(*simple: bool, **options) -> Rules:
    return Rules("classification", np.array(simple), **options)


def test_a_simple_model_is_kept_if_the_mixture_is_not_better():
    logit, y = problem(300)
    same = binary(logit)
    nearly = binary(logit + 0.01 * RANDOM.normal(size=300))
    for order in ([same, nearly], [nearly, same]):
        choice = choose(rules(True, False), np.stack(order), y)
        assert choice.mixture.tolist() == [1, 0]
    good = np.stack([binary(0.2 * logit + RANDOM.normal(size=300)), same])
    assert choose(rules(True, False), good, y).mixture[1] > 0.5


def test_the_decision_for_rare_classes():
    y = (RANDOM.random(5000) < 0.05).astype(np.int64)
    logit = np.where(y, 1.0, -1.0) + RANDOM.normal(size=5000) - 3
    p = binary(logit)
    decision = decision_for("classification", p, y)
    plain, balanced = (decide("classification", p, one) for one in (None, decision))
    assert balanced[y == 1].mean() > 0.75 > 0.3 > plain[y == 1].mean()
    (threshold,) = decision_for("multitask", p[:, 1:], y[:, None].astype(float))
    assert np.array_equal(decide("multitask", p[:, 1:], (threshold,))[:, 0], balanced)
    three = decision_for("classification", np.full((4, 3), 1 / 3), np.array([0, 0, 1, 2]))
    assert three == (2, 4, 4)


def test_the_estimate_does_not_use_the_held_out_class():
    """A candidate that is right in one fold alone is of no use in it."""
    fold = np.arange(200) % 2
    y = RANDOM.integers(0, 2, 200)
    right = binary(np.where(y, 4.0, -4.0))
    unknown = binary(np.zeros(200))
    first = np.where(fold[:, None] == 0, right, binary(-4.0 * np.sign(y - 0.5)))
    made = cross_fit(rules(False, False), np.stack([first, unknown]), y, fold)
    assert (made.predicted == y)[fold == 0].mean() < 0.7
    found = estimate("classification", made, y, folds=2, coverage=0.9)
    assert found.graphs == 200
    assert found.to_json()["accuracy"] == (made.predicted == y).mean()


def test_the_estimate_of_a_regression_and_of_tasks():
    truth = RANDOM.normal(size=(60, 2))
    truth[:10, 0] = np.nan
    outputs = np.stack([truth + 0.3 * RANDOM.normal(size=(60, 2)), 0 * truth])
    outputs = np.nan_to_num(outputs)
    fold = np.arange(60) % 3
    options = {"folds": 3, "coverage": 0.8, "target_names": ("a", "b")}
    made = cross_fit(Rules("regression", np.array([True, False]), 0.8), outputs, truth, fold)
    found = estimate("regression", made, truth, **options)
    score = found.scores["rmse"]
    assert 0.2 < score.low < score.value < score.high < 0.5
    assert found.coverage.measured == pytest.approx(0.8, abs=0.1)
    assert set(found.per_task) == {"a", "b"}
    tasks = np.where(np.isnan(truth), np.nan, truth > 0)
    made = cross_fit(
        Rules("multitask", np.array([True, False]), 0.8),
        1 / (1 + np.exp(-3 * outputs)),
        tasks,
        fold,
    )
    found = estimate("multitask", made, tasks, **options)
    assert found.scores["roc_auc"].value > 0.9
    assert found.to_json()["per_task"]["b"]["roc_auc"] > 0.9


def test_better_than_the_majority_graph_by_graph():
    majority = np.arange(100) < 60
    better = majority.copy()
    better[60:70] = True
    assert mcnemar(better, majority)
    assert not mcnemar(majority, majority)
    better[:6] = False
    assert not mcnemar(better, majority), "10 won, 6 lost"


def test_wilson_interval():
    low, high = wilson_interval(30 / 63, 63)
    assert (low, high) == pytest.approx((0.357, 0.598), abs=1e-3)
    assert wilson_interval(1.0, 10) == pytest.approx((0.722, 1.0), abs=1e-3)
    wide = wilson_interval(30 / 63, 63, 1.2)
    assert wide[0] < low < high < wide[1]
