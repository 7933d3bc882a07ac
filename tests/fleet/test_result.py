"""Results, checked against the model rebuilt from their weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from sagpool.fleet import train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots, shape_of
from sagpool.graphs import pack, split
from sagpool.models import build, count_parameters

METHODS = ["sagpool-h", "sagpool-g-gat", "diffpool-h", "sortpool-g-conv1d", "nopool-g"]


@pytest.fixture(scope="module")
def results(mutag, kit):
    """Several of each method, with different numbers of folds and validation fractions."""
    trainings = []
    for method in METHODS:
        trainings += kit.trainings(3, method, max_epochs=8)
        trainings += kit.trainings(1, method, folds=5, validation=0.25, fold=4, seed=7)
    return train(mutag, trainings, members=2, dtype=torch.float64, keep_weights=True)


def parts_of(result, graphs):
    training = result.training
    return split(
        graphs.y,
        training.seed,
        training.fold,
        folds=training.folds,
        validation=training.validation,
    )


def logits_of(result, graphs, part):
    """From the model, rebuilt from its name, shape and weights."""
    model = build(result.training.method, shape_of(graphs, result.training)).double().eval()
    model.load_state_dict(result.weights)
    with torch.no_grad():
        return model(pack(graphs, [part])).logits[0, : len(part)]


def test_the_scores_are_those_of_the_weights_on_each_part(results, mutag):
    for result in results:
        parts = parts_of(result, mutag)
        for name in ("train", "validation", "test"):
            part, reported = getattr(parts, name), getattr(result, name)
            logits, y = logits_of(result, mutag, part), mutag.y[part]
            assert reported.loss == pytest.approx(float(cross_entropy(logits, y)), abs=1e-9)
            assert reported.accuracy == float((logits.argmax(1) == y).double().mean())
        predicted = logits_of(result, mutag, parts.test).argmax(1)
        expected = np.zeros((2, 2), np.int64)
        for truth, prediction in zip(mutag.y[parts.test], predicted, strict=True):
            expected[truth, prediction] += 1
        assert np.array_equal(result.confusion, expected)


def test_the_confusion_counts_the_test_part_by_class(results, mutag):
    for result in results:
        test = parts_of(result, mutag).test
        assert np.array_equal(result.confusion.sum(1), np.bincount(mutag.y[test]))
        assert result.test.accuracy == np.trace(result.confusion) / len(test)
    wrong = sum(r.confusion[0, 1] for r in results), sum(r.confusion[1, 0] for r in results)
    assert wrong[0] != wrong[1], "rows and columns could be swapped"


def test_the_best_epoch_is_that_of_the_lowest_validation_loss(results):
    for result in results:
        losses = result.curve.validation_loss
        assert result.best_epoch == 1 + losses.argmin()
        best = result.best_epoch - 1
        assert result.validation.loss == pytest.approx(losses[best], abs=1e-9)
        assert result.validation.accuracy == result.curve.validation_accuracy[best]


def test_a_curve_has_a_point_for_each_epoch(results):
    for result in results:
        training = result.training
        for values in vars(result.curve).values():
            assert values.shape == (result.epochs,)
            assert np.isfinite(values).all()
        waited = result.epochs - result.best_epoch
        assert waited <= training.patience
        assert result.epochs <= training.max_epochs
        assert waited == training.patience or result.epochs == training.max_epochs
    assert len({result.epochs for result in results}) > 2


def test_the_training_loss_is_the_mean_over_graphs_not_over_batches(mutag, kit):
    """With a negligible step and no dropout, it is the loss of the initial weights."""
    settings = {"lr": 1e-300, "weight_decay": 0.0, "dropout": 0.0, "max_epochs": 1}
    (training,) = kit.trainings(1, batch_size=100, **settings)
    (result,) = train(mutag, [training], dtype=torch.float64)
    assert result.curve.train_loss[0] == pytest.approx(result.train.loss, abs=1e-9)


def test_the_number_of_parameters(results, mutag):
    for result in results:
        training = result.training
        shape = shape_of(mutag, training)
        assert result.parameters == count_parameters(training.method, shape)
        assert result.parameters == sum(weights.numel() for weights in result.weights.values())
        assert not result.diverged


def test_seconds_are_divided_among_members_and_fleets(mutag, kit, monkeypatch):
    """With a clock that ticks once whenever it is read, and four fleets side by side."""
    trainings = kit.trainings(7)
    fleet = Fleet(mutag, trainings, Slots.fill(range(7), 3), share=lambda: 0.25)
    ticks = iter(range(10**6))
    monkeypatch.setattr("sagpool.fleet.fleet.time.perf_counter", lambda: float(next(ticks)))
    results = {}
    while fleet.slots.active.any():
        results |= fleet.advance()
        fleet.refill()
    total = next(ticks)
    assert len(results) == 7
    assert all(result.seconds > 0 for result in results.values())
    # Each epoch and each evaluation reads it twice: half of the ticks lie between two readings.
    assert sum(r.seconds for r in results.values()) == pytest.approx(0.25 * total / 2)


def test_results_contain_weights_only_on_request(mutag, kit):
    assert all(result.weights is None for result in train(mutag, kit.trainings(2)))


def test_a_row_has_plain_python_values(results):
    row = results[0].row()
    assert {type(value) for value in row.values()} <= {str, int, float, bool, list}
    assert row["method"] == "sagpool-h"
    assert row["test_accuracy"] == results[0].test.accuracy
    assert row["validation_loss"] == results[0].validation.loss
    assert row["confusion"] == results[0].confusion.tolist()


def test_the_test_graphs_do_not_influence_training(mutag, kit):
    """With other classes of the test graphs, only the test scores change."""
    (training,) = kit.trainings(1, max_epochs=6)
    parts = split(mutag.y, training.seed, training.fold)
    y = mutag.y.clone()
    zeros, ones = (parts.test[mutag.y[parts.test] == c] for c in (0, 1))
    y[zeros[0]], y[ones[0]] = 1, 0  # the same number in each class
    other = replace(mutag, y=y)
    (before,), (after,) = (run_on_fixed_parts(graphs, training, parts) for graphs in (mutag, other))
    for name in vars(before.curve):
        assert np.array_equal(getattr(before.curve, name), getattr(after.curve, name))
    assert before.best_epoch == after.best_epoch
    assert all(torch.equal(after.weights[name], w) for name, w in before.weights.items())
    assert before.validation.loss == after.validation.loss
    assert before.test.loss != after.test.loss


def run_on_fixed_parts(graphs, training, parts):
    """Splits are stratified by class; here they stay the same although classes change."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("schedule", "slot_settings", "memory"):
            patch.setattr(f"sagpool.fleet.{module}.split_of", lambda *_: parts)
        return train(graphs, [training], keep_weights=True)
