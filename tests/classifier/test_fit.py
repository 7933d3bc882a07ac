"""`fit`: candidates are chosen on validation graphs and estimated on held-out graphs."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

from sagpool import load
from sagpool.classifier import Estimate, fit
from sagpool.classifier.estimate import wilson_interval
from sagpool.classifier.fit import candidates_for
from sagpool.errors import SagpoolError
from sagpool.fleet import Training, train
from sagpool.fleet.schedule import split_of
from sagpool.graphs import NO_TEST

SHORT = {"hidden": 8, "lr": 0.01, "max_epochs": 4}


@pytest.fixture(scope="module")
def mutag():
    return load("MUTAG")


@pytest.fixture(scope="module")
def quick(mutag):
    return fit(mutag, search=False, method="sagpool-h", settings=SHORT, folds=3)


def test_the_estimate_is_that_of_a_plain_cross_validation(mutag, quick):
    trainings = [Training("sagpool-h", fold=fold, folds=3, **SHORT) for fold in range(3)]
    accuracy = [result.test.accuracy for result in train(mutag, trainings)]
    assert quick.estimate.accuracy == pytest.approx(np.mean(accuracy))
    low, _ = quick.estimate.ci95
    half = 4.302653 * np.sqrt((1 / 3 + 1 / 2) * np.var(accuracy, ddof=1))
    assert low == pytest.approx(max(0, np.mean(accuracy) - half), abs=1e-6)
    assert quick.estimate.majority == pytest.approx(125 / 188)
    assert quick.estimate.folds == 3


def test_the_model_is_trained_on_all_graphs(mutag, quick):
    about = quick.model.about
    assert about["epochs"] >= 1
    final = Training(
        "sagpool-h",
        fold=NO_TEST,
        folds=3,
        validation=0,
        **{**SHORT, "max_epochs": about["epochs"]},
        patience=about["epochs"],
    )
    parts = split_of(mutag, final)
    assert len(parts.train) == len(parts.validation) == len(mutag)
    assert len(parts.test) == 0
    starts = [replace(final, seed=seed) for seed in range(5)]
    results = train(mutag, starts, keep_weights=True)
    result = min(results, key=lambda one: one.train.loss)
    for name, weights in result.weights.items():
        assert torch.equal(weights, quick.model.weights[name])
    assert np.isnan(result.test.accuracy)


def test_the_validation_part_without_a_test_part(mutag):
    parts = split_of(mutag, Training("gpool-h", fold=NO_TEST, validation=0.25))
    assert len(parts.test) == 0
    assert len(parts.validation) == 47
    assert sorted([*parts.train, *parts.validation]) == list(range(188))
    positive = mutag.y[torch.from_numpy(parts.validation)].float().mean()
    assert positive == pytest.approx(125 / 188, abs=0.02)
    with pytest.raises(SagpoolError, match="validation must be in"):
        Training("gpool-h", fold=0, validation=0)


def test_the_choice_is_nested(mutag, monkeypatch):
    """In each fold, the candidate with the best validation result is tested."""
    asked = []

    def pretend(graphs, trainings, **options):
        asked.append(trainings)
        return [made_up(graphs, training) for training in trainings]

    def made_up(graphs, training):
        # One candidate has the best validation accuracy in even folds, the other in odd ones. The
        # test accuracies are the opposite, so choosing by them would give another result.
        even = training.fold % 2 == 0
        good = (training.lr == 5e-3) == even
        result = quick_result(graphs, training)
        return replace(
            result,
            validation=replace(result.validation, accuracy=0.9 if good else 0.5),
            test=replace(result.test, accuracy=0.1 if good else 1.0),
        )

    (template,) = train(mutag, [Training("gpool-h", hidden=4, max_epochs=1)], keep_weights=True)

    def quick_result(graphs, training):
        return replace(template, training=training)

    judged = []

    def estimate(graphs, picked):
        judged.extend(picked)
        return Estimate(0.5, (0.4, 0.6), 0.5, None, 0.6, 4)

    module = import_module("sagpool.classifier.fit")
    monkeypatch.setattr(module, "train", pretend)
    monkeypatch.setattr(module, "estimate", estimate)
    found = fit(mutag, method="gpool-h", settings={"hidden": 4}, folds=4)
    assert [(r.training.fold, r.training.lr) for r in judged] == [
        (0, 5e-3), (1, 1e-3), (2, 5e-3), (3, 1e-3),
    ]  # fmt: skip
    assert len(asked[0]) == 2 * 4
    assert not found.estimate.better_than_majority
    assert {final.fold for final in asked[1]} == {NO_TEST}
    assert len({final.seed for final in asked[1]}) == 5


def test_candidates(mutag):
    grid = candidates_for(mutag, method=None, settings={}, search=True)
    assert {c.method for c in grid} == {"sagpool-h", "sagpool-g"}
    assert len(grid) == 8
    assert len(candidates_for(mutag, method="gpool-h", settings={"lr": 0.1}, search=True)) == 2
    (one,) = candidates_for(mutag, method=None, settings={"hidden": 16}, search=False)
    assert (one.method, one.hidden, one.lr) == ("sagpool-g", 16, 1e-3)
    large = replace(mutag, node_counts=mutag.node_counts * 10)
    (one,) = candidates_for(large, method=None, settings={}, search=False)
    assert one.method == "sagpool-h"


def test_three_classes_and_few_graphs():
    graphs = load("MUTAG")[:30]
    y = torch.arange(30) % 3
    graphs = replace(graphs, y=y, class_names=("a", "b", "c"))
    found = fit(graphs, search=False, settings=SHORT, folds=20)
    assert found.estimate.folds == 10, "at most the number of graphs of the rarest class"
    assert found.estimate.majority == pytest.approx(1 / 3)
    assert 0 <= found.estimate.auroc <= 1
    assert found.model.predict_proba(graphs).probabilities.shape == (30, 3)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (None, "MUTAG needs at least two classes"),
        ([0] * 9 + [1], "MUTAG has a class with a single graph; each class needs at least 2"),
    ],
)
def test_graphs_without_enough_classes(mutag, y, sentence):
    graphs = replace(mutag[:10], y=None if y is None else torch.tensor(y))
    with pytest.raises(SagpoolError, match=sentence):
        fit(graphs, search=False)


def test_better_than_majority_needs_the_whole_interval(quick):
    estimate = quick.estimate
    assert not replace(estimate, ci95=(0.6, 0.8), majority=0.65).better_than_majority
    assert replace(estimate, ci95=(0.66, 0.8), majority=0.65).better_than_majority


def test_wilson_interval():
    low, high = wilson_interval(30 / 63, 63)
    assert (low, high) == pytest.approx((0.357, 0.598), abs=1e-3)
    assert wilson_interval(1.0, 10) == pytest.approx((0.722, 1.0), abs=1e-3)
