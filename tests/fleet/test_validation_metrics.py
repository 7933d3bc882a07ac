"""Metrics by which trainings stop."""

import numpy as np
import pytest
import torch

from sagpool.bench.predictions import Predicted
from sagpool.fleet import Training, train
from sagpool.fleet.metrics import scores
from sagpool.fleet.validation_metrics import METRICS, class_metric, task_metric
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
