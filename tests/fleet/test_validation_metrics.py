"""Metrics by which trainings stop."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool import SagpoolError
from sagpool.bench.predictions import Predicted
from sagpool.fleet import Training, train
from sagpool.fleet.defined_metrics import check_stopping
from sagpool.fleet.metrics import scores
from sagpool.fleet.validation_metrics import (
    METRICS,
    REGRESSION_METRICS,
    class_metric,
    regression_metric,
    task_metric,
)
from sagpool.graphs import load


@pytest.mark.parametrize("classes", [2, 4])
def test_they_are_those_of_a_single_member(classes):
    random = np.random.default_rng(classes)
    logits = random.normal(size=(3, 40, classes)).round(1)  # with ties
    y, real = random.integers(0, classes, (3, 40)), random.random((3, 40)) < 0.8
    y[2] = 1  # no other class: the area is not defined
    tensors = [torch.from_numpy(one) for one in (logits, y, real)]
    for metric in METRICS:
        found = class_metric(metric, *tensors).tolist()
        for member, value in enumerate(found):
            some = real[member]
            p = torch.from_numpy(logits[member][some]).softmax(1).numpy()
            expected = scores("classification", y[member][some], p, p.argmax(1))[metric]
            assert value == pytest.approx(0.5 if np.isnan(expected) else expected), metric


def test_of_tasks_with_gaps():
    random = np.random.default_rng(0)
    logits = random.normal(size=(2, 30, 3))
    targets = random.integers(0, 2, (2, 30, 3)).astype(float)
    targets[random.random(targets.shape) < 0.3] = np.nan
    targets[1, :, 2] = np.nan
    real = random.random((2, 30)) < 0.8
    tensors = [torch.from_numpy(one) for one in (logits, targets, real)]
    for metric in METRICS:
        for member, value in enumerate(task_metric(metric, *tensors).tolist()):
            known, found = targets[member][real[member]], logits[member][real[member]]
            p = 1 / (1 + np.exp(-found))
            expected = scores("multitask", known, p, (p > 0.5).astype(int))[metric]
            assert value == pytest.approx(expected), metric


def test_of_regressions_with_gaps():
    random = np.random.default_rng(0)
    targets = 1000 + random.normal(size=(3, 30, 3))
    values = targets + random.normal(size=targets.shape)
    targets[random.random(targets.shape) < 0.3] = np.nan
    targets[1, :, 2] = np.nan
    targets[2, :, 0] = 1000  # R² is not defined
    real = random.random((3, 30)) < 0.8
    values[~real] = np.nan  # padding is unspecified
    tensors = [torch.from_numpy(one) for one in (values, targets, real)]
    for metric in REGRESSION_METRICS:
        for member, value in enumerate(regression_metric(metric, *tensors).tolist()):
            known, found = targets[member][real[member]], values[member][real[member]]
            expected = scores("regression", known, found, found)[metric]
            assert value == pytest.approx(expected), metric


def test_r2_is_finite_if_all_targets_are_equal():
    one = torch.ones(2, 5, 1, dtype=torch.float64)
    assert regression_metric("r2", 2 * one, one, one[..., 0] > 0).tolist() == [0, 0]


@pytest.fixture(scope="module")
def sizes():
    """A regression: how many nodes a graph has, and a second target in another unit."""
    mutag = load("MUTAG")
    targets = np.stack([1000 * mutag.node_counts, mutag.edge_counts], 1)
    targets = torch.from_numpy(targets).float()
    return replace(mutag, y=None, class_names=(), targets=targets, task="regression")


@pytest.mark.parametrize("metric", REGRESSION_METRICS)
def test_a_regression_stops_by_it_in_the_units_of_the_targets(sizes, metric):
    settings = {"hidden": 8, "lr": 0.02, "folds": 3, "patience": 3, "max_epochs": 12}
    trainings = [Training("gpool-h", stopping=metric, fold=fold, **settings) for fold in (0, 1)]
    for result in train(sizes, trainings, keep_predictions=True, dtype=torch.float64):
        curve = result.curve.validation_loss * (-1 if metric == "r2" else 1)
        best = curve.argmax() if metric == "r2" else curve.argmin()
        assert result.best_epoch == best + 1
        assert result.epochs == min(result.best_epoch + 3, 12)
        found = Predicted.of(sizes, result).scores("validation")[metric]
        assert found == pytest.approx(curve[best], rel=1e-5, abs=1e-6)


OF_CLASSES = "loss, loss+norm, accuracy, balanced_accuracy, roc_auc, f1, mcc"


@pytest.mark.parametrize(
    ("task", "stopping", "possible"),
    [
        ("regression", "f1", "loss, loss+norm, rmse, mae, r2"),
        ("classification", "mae", OF_CLASSES),
        ("multitask", "rmse", OF_CLASSES),
    ],
)
def test_a_metric_of_another_task_is_refused(sizes, task, stopping, possible):
    graphs = load("MUTAG") if task == "classification" else replace(sizes, task=task)
    sentence = f"MUTAG is a {task}, which cannot stop by {stopping}; choose from {possible}."
    with pytest.raises(SagpoolError, match=re.escape(sentence)):
        train(graphs, [Training("gpool-h", stopping=stopping)])


def one_valued(graphs, task):
    """A fixed split in whose validation part all graphs are alike."""
    part = torch.arange(len(graphs)) % 3
    graphs = replace(graphs, part=part, part_names=("train", "validation", "test"), task=task)
    if task == "classification":
        return replace(graphs, y=graphs.y * (part != 1))
    targets = torch.where(part == 1, 0.0, (part + torch.arange(len(graphs))) % 2)[:, None]
    return replace(graphs, y=None, class_names=(), targets=targets + 0.1 * (task == "regression"))


@pytest.mark.parametrize(
    ("task", "metric", "needs"),
    [
        ("classification", "roc_auc", "graphs of two classes"),
        ("classification", "mcc", "graphs of two classes"),
        ("classification", "f1", "graphs of the second class"),
        ("multitask", "roc_auc", "graphs of two classes"),
        ("multitask", "f1", "graphs of the second class"),
        ("regression", "r2", "targets that differ"),
    ],
)
def test_a_metric_that_is_the_same_for_all_weights_is_refused(task, metric, needs):
    graphs = one_valued(load("MUTAG"), task)
    training = Training("gpool-h", stopping=metric, split="fixed", hidden=8, max_epochs=1)
    sentence = f"MUTAG cannot stop by {metric}: it needs {needs}, which the validation part lacks."
    with pytest.raises(SagpoolError, match=re.escape(sentence)):
        train(graphs, [training])
    defined = {"regression": "rmse"}.get(task, "balanced_accuracy")
    assert train(graphs, [replace(training, stopping=defined)])[0].best_epoch == 1


def test_the_refusal_names_the_folds():
    graphs = load("MUTAG")
    graphs = replace(graphs, y=(torch.arange(len(graphs)) == 0).long())  # in one fold at most
    some = [Training("gpool-h", stopping="roc_auc", fold=fold) for fold in (1, 2, 3)]
    with pytest.raises(SagpoolError, match=r"folds 1, 2 and 3 \(seed 0\) lack\."):
        check_stopping(graphs, [replace(one, split="contiguous") for one in some])
    many = [one.repeated(seed, one.fold) for seed in (0, 1) for one in some]
    with pytest.raises(SagpoolError, match=r"of 6 folds \(such as 1 of seed 0\) lack\."):
        check_stopping(graphs, [replace(one, split="contiguous") for one in many])


@pytest.mark.parametrize("metric", ["roc_auc", "mcc"])
def test_a_training_stops_by_it_and_keeps_the_best_weights(metric):
    graphs = load("MUTAG")
    settings = {"hidden": 8, "lr": 0.01, "folds": 3, "patience": 4, "max_epochs": 12}
    trainings = [Training("gpool-h", stopping=metric, fold=fold, **settings) for fold in (0, 1)]
    for result in train(graphs, trainings, keep_predictions=True, dtype=torch.float64):
        curve = -result.curve.validation_loss
        assert result.best_epoch == curve.argmax() + 1, "the first of the highest"
        assert result.epochs == min(result.best_epoch + 4, 12)
        predicted = Predicted.of(graphs, result)
        assert predicted.scores("validation")[metric] == pytest.approx(curve.max(), abs=1e-6)
        assert result.validation.loss == pytest.approx(predicted.scores("validation")["log_loss"])
