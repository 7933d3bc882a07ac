"""Trainings with targets in place of classes, weights of classes, groups and given folds."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool import SagpoolError
from sagpool.fleet import Training, train
from sagpool.fleet.evaluate import predict
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots, shape_of, split_of
from sagpool.models import build

SMALL = {"hidden": 8, "lr": 0.02, "batch_size": 32, "patience": 9, "max_epochs": 9, "folds": 4}


@pytest.fixture(scope="module")
def sizes(mutag):
    """A regression: how many nodes a graph has, far from 0, and a second target with gaps."""
    targets = torch.tensor(np.stack([1e4 + 100 * mutag.node_counts, mutag.edge_counts], 1))
    targets = targets.float()
    targets[::3, 1] = torch.nan
    return replace(mutag, y=None, class_names=(), targets=targets, task="regression")


@pytest.fixture(scope="module")
def tasks(mutag):
    targets = torch.stack([mutag.y.float(), torch.from_numpy(mutag.node_counts > 17).float()], 1)
    targets[::3, 1] = torch.nan
    targets[5] = torch.nan
    return replace(mutag, y=None, class_names=(), targets=targets, task="multitask")


def test_a_regression_learns_standardised_targets_and_gives_their_units(sizes):
    settings = {**SMALL, "dropout": 0.0, "max_epochs": 20, "patience": 20}
    trainings = [Training("sagnet", fold=fold, **settings) for fold in (0, 1)]
    # In float32, rounding decides between equal nodes, so other batches may keep others.
    kept = {"keep_predictions": True, "keep_weights": True, "dtype": torch.float64}
    results = train(sizes, trainings, **kept)
    for result in results:
        test = split_of(sizes, result.training).test
        assert result.predictions.shape == (len(test), 2)
        error = result.predictions[:, 0] - sizes.targets[test, 0].numpy()
        assert np.abs(error).mean() < 0.3 * sizes.targets[:, 0].std()
        assert result.test.loss < 0.3  # of the variance
        assert np.isnan(result.test.accuracy)
        assert result.validation.loss == pytest.approx(result.curve.validation_loss.min(), rel=1e-3)
        assert result.confusion.size == 0
        model = build("sagnet", shape_of(sizes, result.training)).double()
        model.load_state_dict(result.weights)
        again = predict(model.eval(), sizes, 1, torch.zeros(1, dtype=torch.int64), 50, "regression")
        np.testing.assert_allclose(again[0, test], result.predictions, rtol=1e-9)


def test_several_tasks_with_gaps(tasks, tmp_path):
    training = Training("sagnet", **SMALL)
    (result,) = train(tasks, [training], keep_predictions=True, checkpoint=tmp_path / "c.npz")
    test = split_of(tasks, training).test
    known, logits = tasks.targets[test].numpy(), result.predictions
    measured = ~np.isnan(known)
    right = ((logits > 0) == (known > 0.5))[measured]
    assert result.test.accuracy == pytest.approx(right.mean())
    assert result.curve.validation_accuracy[-1] > 0.5
    assert result.validation.loss == pytest.approx(result.curve.validation_loss.min(), rel=1e-3)
    (again,) = train(tasks, [training], keep_predictions=True, checkpoint=tmp_path / "c.npz")
    assert np.array_equal(again.predictions, logits)
    assert again.confusion.shape == (0, 0)


def test_numbers_of_the_training_graphs_are_those_of_each_member_and_stay(sizes, tmp_path):
    trainings = [Training("sagnet", fold=fold, **SMALL, weight_decay=0.1) for fold in range(3)]
    fleet = Fleet(sizes, trainings, Slots.fill(range(3), 2))
    for _ in range(2 * SMALL["max_epochs"]):
        for slot, number in enumerate(fleet.slots.running.tolist()):
            if number >= 0:
                train_ids = split_of(sizes, trainings[number]).train
                expected = sizes.targets[train_ids, 0].mean()
                found = fleet.lockstep.stack.model.mean[slot, 0, 0]
                assert found.item() == pytest.approx(expected.item(), rel=1e-6)
        fleet.advance()
        fleet.refill()
        if not fleet.slots.active.any():
            break
    assert not fleet.slots.active.any()


def test_weights_of_classes(mutag):
    """A class counts as much as the other, however rare it is."""
    few = np.concatenate([np.flatnonzero(mutag.y == 1), np.flatnonzero(mutag.y == 0)[:16]])
    rare = mutag[np.sort(few)]
    settings = {**SMALL, "max_epochs": 8, "patience": 8}
    plain, balanced = (
        train(rare, [Training("sagnet", fold=f, class_weight=w, **settings) for f in range(4)])
        for w in ("none", "balanced")
    )
    recall = [sum(r.confusion[0, 0] / r.confusion[0].sum() for r in rs) for rs in (plain, balanced)]
    assert recall[1] > recall[0]
    for result in balanced:
        assert result.validation.loss == pytest.approx(result.curve.validation_loss.min(), rel=1e-3)
    assert "class_weight" not in plain[0].training.to_dict()
    assert balanced[0].row()["class_weight"] == "balanced"


def test_given_folds_are_tested(mutag):
    fold = torch.arange(len(mutag)) % 3
    given = replace(mutag, fold=fold)
    assert given.fingerprint() != mutag.fingerprint()
    for number in range(3):
        parts = split_of(given, Training("sagnet", fold=number, folds=3, split="given"))
        assert np.array_equal(parts.test, np.flatnonzero(fold == number))
        everything = np.sort(np.concatenate([parts.train, parts.validation, parts.test]))
        assert np.array_equal(everything, np.arange(len(mutag)))
        assert len(parts.validation) == round(0.1 * (len(mutag) - len(parts.test)))
    with pytest.raises(SagpoolError, match="MUTAG has no folds of its own"):
        split_of(mutag, Training("sagnet", split="given"))
    with pytest.raises(SagpoolError, match="Fold 3 of MUTAG"):
        split_of(given, Training("sagnet", fold=3, split="given"))


def test_groups_stay_together(mutag):
    group = torch.from_numpy(np.random.default_rng(0).integers(0, 40, len(mutag)))
    grouped = replace(mutag, group=group)
    tested = []
    for fold in range(4):
        parts = split_of(grouped, Training("sagnet", fold=fold, folds=4))
        held = [set(group[ids].tolist()) for ids in (parts.train, parts.validation, parts.test)]
        assert not (held[0] & held[1] | held[0] & held[2] | held[1] & held[2])
        assert all(held)
        assert abs(len(parts.test) - len(mutag) / 4) < 5
        tested.extend(parts.test.tolist())
    assert sorted(tested) == list(range(len(mutag)))


def test_splits_of_a_regression_have_high_and_low_values_alike(sizes):
    means = [
        sizes.targets[split_of(sizes, Training("sagnet", fold=fold)).test, 0].mean().item()
        for fold in range(10)
    ]
    assert np.std(means) < 0.1 * sizes.targets[:, 0].std()


def test_a_data_set_without_targets_for_its_task(sizes):
    with pytest.raises(SagpoolError, match="MUTAG has no targets for its task, regression"):
        train(replace(sizes, targets=None), [Training("sagnet", **SMALL)])
