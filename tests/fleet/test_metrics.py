"""Scores agree with those of scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as reference

from sagpool.fleet.metrics import bootstrap, calibration_curve, is_defined, scores

RANDOM = np.random.default_rng(0)


def example(classes: int, graphs: int = 60) -> tuple[np.ndarray, np.ndarray]:
    p = RANDOM.dirichlet(np.ones(classes), graphs).round(1) + 0.01  # with ties
    p /= p.sum(1, keepdims=True)
    y = np.array([RANDOM.choice(classes, p=row) for row in p])
    return y, p


@pytest.mark.parametrize("classes", [2, 3])
def test_classification(classes):
    y, p = example(classes)
    predicted = p.argmax(1)
    found = scores("classification", y, p, predicted)
    score = p[:, 1] if classes == 2 else p
    truth = y if classes == 2 else np.eye(classes)[y]
    average = "binary" if classes == 2 else "macro"
    expected = {
        "accuracy": reference.accuracy_score(y, predicted),
        "balanced_accuracy": reference.balanced_accuracy_score(y, predicted),
        "roc_auc": reference.roc_auc_score(y, score, multi_class="ovr"),
        "pr_auc": reference.average_precision_score(truth, score),
        "mcc": reference.matthews_corrcoef(y, predicted),
        "f1": reference.f1_score(y, predicted, average=average),
        "log_loss": reference.log_loss(y, p),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert 0 <= found["ece"] <= 1


def test_several_tasks_with_gaps():
    y = RANDOM.integers(0, 2, (50, 2)).astype(float)
    p = np.clip(0.3 * y + 0.7 * RANDOM.random((50, 2)), 0, 1)
    y[:20, 1] = np.nan
    found = scores("multitask", y, p, (p > 0.5).astype(int))
    expected = [reference.roc_auc_score(y[i:, i // 20], p[i:, i // 20]) for i in (0, 20)]
    assert found["roc_auc"] == pytest.approx(np.mean(expected))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("task", ["multitask", "regression"])
def test_targets_without_measured_graphs_do_not_count(task):
    y = RANDOM.integers(0, 2, (50, 3)).astype(float)
    p = np.clip(0.3 * y + 0.7 * RANDOM.random((50, 3)), 0, 1)
    y[RANDOM.random(y.shape) < 0.2] = np.nan
    y[:, 1] = np.nan
    predicted = (p > 0.5).astype(int) if task == "multitask" else p
    known = [0, 2]
    without = scores(task, y[:, known], p[:, known], predicted[:, known])
    assert scores(task, y, p, predicted) == pytest.approx(without)
    nowhere = scores(task, y[:, [1]], p[:, [1]], predicted[:, [1]])
    assert list(nowhere) == list(without)
    assert np.isnan(list(nowhere.values())).all()


def test_all_scores_of_tasks_are_means_over_those_measured():
    y = RANDOM.integers(0, 2, (50, 3)).astype(float)
    p = np.clip(0.3 * y + 0.7 * RANDOM.random((50, 3)), 0.01, 0.99)
    y[:20, 0] = y[:, 1] = np.nan
    found = scores("multitask", y, p, (p > 0.5).astype(int))
    measured = [(y[20:, 0], p[20:, 0]), (y[:, 2], p[:, 2])]
    expected = {
        "accuracy": [reference.accuracy_score(t, q > 0.5) for t, q in measured],
        "balanced_accuracy": [reference.balanced_accuracy_score(t, q > 0.5) for t, q in measured],
        "roc_auc": [reference.roc_auc_score(t, q) for t, q in measured],
        "pr_auc": [reference.average_precision_score(t, q) for t, q in measured],
        "mcc": [reference.matthews_corrcoef(t, q > 0.5) for t, q in measured],
        "f1": [reference.f1_score(t, q > 0.5) for t, q in measured],
        "log_loss": [reference.log_loss(t, q) for t, q in measured],
    }
    means = {name: np.mean(values) for name, values in expected.items()}
    assert {name: found[name] for name in means} == pytest.approx(means)


def test_regression():
    truth = RANDOM.normal(size=(40, 1))
    values = truth + RANDOM.normal(size=(40, 1))
    truth[3] = np.nan
    found = scores("regression", truth, values, values)
    t, v = np.delete(truth, 3), np.delete(values, 3)
    assert found["rmse"] == pytest.approx(reference.root_mean_squared_error(t, v))
    assert found["r2"] == pytest.approx(reference.r2_score(t, v))
    assert found["mae"] == pytest.approx(reference.mean_absolute_error(t, v))
    assert found["spearman"] == pytest.approx(
        np.corrcoef(t.argsort().argsort(), v.argsort().argsort())[0, 1]
    )


def test_scores_that_are_not_defined():
    y, p = np.zeros(4, int), np.full((4, 2), 0.5)
    found = scores("classification", y, p, y)
    assert np.isnan(found["roc_auc"])
    assert found["mcc"] == 0


@pytest.mark.parametrize(
    ("truth", "classes", "undefined"),
    [
        ([0, 0], 2, {"roc_auc", "mcc", "f1"}),
        ([1, 1], 2, {"roc_auc", "mcc"}),
        ([2, 2], 3, {"roc_auc", "mcc"}),
        ([0, 2], 3, set()),
        ([], 2, {"accuracy", "roc_auc", "mcc", "f1", "log_loss"}),
    ],
)
def test_metrics_that_cannot_tell_predictions_apart(truth, classes, undefined):
    names = ("accuracy", "roc_auc", "mcc", "f1", "log_loss")
    y = np.array(truth, int)
    assert {m for m in names if not is_defined(m, "classification", y, classes)} == undefined


def test_one_column_of_targets_is_enough_for_a_metric():
    gap = np.nan
    columns = np.array([[0, 0, gap], [0, 1, gap]])
    assert is_defined("roc_auc", "multitask", columns, 3)
    assert is_defined("r2", "regression", columns, 3)
    assert not is_defined("r2", "regression", np.full((9, 1), 0.1), 1)
    assert not is_defined("roc_auc", "multitask", columns[:, [0, 2]], 2)
    assert not is_defined("rmse", "regression", columns[:, 2:], 1)


def test_the_calibration_curve_of_calibrated_probabilities_is_the_diagonal():
    p = RANDOM.random(20_000)
    y = (RANDOM.random(20_000) < p).astype(int)
    curve = calibration_curve("classification", y, np.stack([1 - p, p], 1))
    assert sum(one.graphs for one in curve) == 20_000
    for one in curve:
        assert one.fraction == pytest.approx(one.probability, abs=0.04)


def test_the_bootstrap_draws_groups_as_a_whole():
    group = np.array([0, 0, 0, 1, 2, 2])
    drawn = []
    bootstrap(lambda ids: drawn.append(ids) or {"n": float(len(ids))}, group, repeats=20, seed=0)
    for ids in drawn:
        counts = np.bincount(ids, minlength=6)
        assert counts[0] == counts[1] == counts[2]
        assert counts[4] == counts[5]
    assert len({tuple(ids) for ids in drawn}) > 5
