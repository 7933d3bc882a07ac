"""Forests as arrays: equal to scikit-learn's, and refused if they are damaged."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

from sagpool import SagpoolError
from sagpool.classifier.simple import boosting_fit, forest_fit
from sagpool.classifier.simple.boosting_fit import fit_boosting
from sagpool.classifier.simple.flat_trees import rounded_down
from sagpool.classifier.simple.forest import Forest
from sagpool.classifier.simple.forest_fit import fit_forest
from sagpool.classifier.simple.problem import Problem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 6)).astype(np.float32)
CLASS = (X[:, 0] + X[:, 1] > 0).astype(float) + (X[:, 2] > 1)


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr(forest_fit, "TREES", 7)
    monkeypatch.setitem(boosting_fit.SETTINGS, "max_iter", 5)


def scikit_learn_of(monkeypatch, kind: type) -> list:
    """The forests that are fitted from now on."""
    made = []
    fit = kind.fit

    def recorded(self, *arguments, **options):
        made.append(self)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(kind, "fit", recorded)
    return made


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("balanced", [False, True])
def test_probabilities_are_those_of_scikit_learn(monkeypatch, classes, balanced):
    made = scikit_learn_of(monkeypatch, RandomForestClassifier)
    target = np.minimum(CLASS, classes - 1)[:100, None]
    forest = fit_forest(X[:100], Problem("classification", classes, target, balanced), 0)
    expected = made[0].predict_proba(X)
    expected = expected if classes == 3 else expected[:, 1:]
    np.testing.assert_allclose(forest.predict(X), expected, atol=1e-6)
    np.testing.assert_allclose(forest.predict(csr_array(X)), expected, atol=1e-6)


def test_values_are_those_of_scikit_learn(monkeypatch):
    made = scikit_learn_of(monkeypatch, ExtraTreesRegressor)
    target = np.stack([X[:, 0], X[:, 1] ** 2], 1).astype(float)
    target[::3, 0] = np.nan
    forest = fit_forest(X, Problem("regression", 2, target), 0)
    expected = np.stack([one.predict(X) for one in made], 1)
    np.testing.assert_allclose(forest.predict(X), expected, atol=1e-6)


@pytest.mark.parametrize(("classes", "link"), [(2, "sigmoid"), (3, "softmax")])
def test_boosted_probabilities_are_those_of_scikit_learn(monkeypatch, classes, link):
    made = scikit_learn_of(monkeypatch, HistGradientBoostingClassifier)
    target = np.minimum(CLASS, classes - 1)[:, None]
    boosted = fit_boosting(X, Problem("classification", classes, target), 0, link)
    expected = made[0].predict_proba(X)
    expected = expected if classes == 3 else expected[:, 1:]
    np.testing.assert_allclose(boosted.predict(X), expected, atol=1e-6)


def test_boosted_values_are_those_of_scikit_learn(monkeypatch):
    made = scikit_learn_of(monkeypatch, HistGradientBoostingRegressor)
    target = np.stack([X[:, 0], X[:, 1] ** 2], 1).astype(float)
    target[::3, 0] = np.nan
    boosted = fit_boosting(X, Problem("regression", 2, target), 0, "identity")
    expected = np.stack([one.predict(X) for one in made], 1)
    np.testing.assert_allclose(boosted.predict(X), expected, atol=1e-6)


def test_boosted_classes_that_no_training_graph_has_are_improbable():
    for present in ([0, 2], [0, 2, 3], [2]):
        y = np.array(present)[np.arange(150) % len(present)].astype(float)
        problem = Problem("classification", 4, y[:, None])
        predicted = fit_boosting(X, problem, 0, "softmax").predict(X)
        np.testing.assert_allclose(predicted.sum(1), 1)
        assert predicted[:, [one for one in range(4) if one not in present]].max() < 0.01


def test_boosting_is_given_only_columns_that_can_split(monkeypatch):
    rare = np.zeros((150, 2), np.float32)
    rare[: boosting_fit.FEWEST_IN_LEAF - 1, 1] = 1
    matrix = np.concatenate([rare, X], 1)
    y = X[:, 0] + 5 * rare[:, 1]
    made = scikit_learn_of(monkeypatch, HistGradientBoostingRegressor)
    boosted = fit_boosting(
        matrix, Problem("regression", 2, y[:, None].astype(float)), 0, "identity"
    )
    assert made[0].n_features_in_ == X.shape[1]
    every = HistGradientBoostingRegressor(**boosting_fit.SETTINGS, early_stopping=False)
    expected = every.fit(matrix, y).predict(matrix)
    np.testing.assert_allclose(boosted.predict(matrix)[:, 0], expected, atol=1e-6)
    none = Problem("regression", 2, y[:, None].astype(float))
    assert np.ptp(fit_boosting(rare, none, 0, "identity").predict(rare)) == 0


def test_many_tasks_have_fewer_trees_each(monkeypatch):
    made = scikit_learn_of(monkeypatch, RandomForestClassifier)
    monkeypatch.setattr(forest_fit, "FEWEST_TREES", 3)
    monkeypatch.setattr(forest_fit, "MOST_TREES", 10)
    targets = [np.stack([CLASS > 0] * tasks, 1).astype(float) for tasks in (1, 2, 5)]
    for target in targets:
        fit_forest(X, Problem("multitask", 2, target), 0)
    assert [one.n_estimators for one in made] == [7, *[5] * 2, *[3] * 5]


def test_thresholds_part_float32_numbers_as_before():
    threshold = RNG.normal(size=1000)
    near = threshold.astype(np.float32)
    for x in (near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))):
        assert np.array_equal(x <= rounded_down(threshold), x.astype(np.float64) <= threshold)


def test_tasks_with_one_class_or_no_measurement_are_predicted_alike_for_all_graphs():
    target = np.full((150, 3), np.nan)
    target[:8, 1] = 1
    target[:, 2] = CLASS > 0
    predicted = fit_forest(X, Problem("multitask", 2, target), 0).predict(X)
    assert (predicted[:, 0] == 0.5).all()
    np.testing.assert_allclose(predicted[:, 1], 8.5 / 9, rtol=1e-6)
    assert ((predicted[:, 2] > 0.5) == (CLASS > 0)).mean() > 0.9


FITTED = {
    "column": np.array([0, -1, 1, -1, -1, -1], np.int32),
    "threshold": np.zeros(6, np.float32),
    "right": np.array([2, 0, 4, 0, 0, 0], np.int32),
    "value": np.linspace(0, 1, 6, dtype=np.float32)[:, None],
    "roots": np.array([0, 5], np.int64),
    "output": np.zeros(2, np.int32),
    "bias": np.zeros(1),
}


def test_a_forest_by_hand():
    forest = Forest.from_saved(FITTED, 2, 1, "identity")
    x = np.array([[-1, 5], [1, -1], [1, 1]], np.float32)
    np.testing.assert_allclose(forest.predict(x)[:, 0], [0.6, 0.8, 0.9], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("column", {0: 2}, "column that is not there"),
        ("column", {0: -2}, "column that is not there"),
        ("right", {2: 0}, "not after its parent"),
        ("right", {2: 2}, "not after its parent"),
        ("right", {2: 5}, "not after its parent"),
        ("right", {0: 2**31 - 1}, "not after its parent"),
        ("column", {4: 0}, "not after its parent"),
        ("roots", {1: 0}, "not in order"),
        ("roots", {1: 6}, "not in order"),
        ("roots", {0: -1}, "not in order"),
        ("output", {0: 1}, "do not fit its outputs"),
        ("value", {0: np.nan}, "not finite"),
        ("threshold", {0: np.inf}, "not finite"),
    ],
)
def test_damaged_trees_are_refused(name, change, sentence):
    array = FITTED[name].copy()
    for place, value in change.items():
        array[place] = value
    with pytest.raises(SagpoolError, match=sentence):
        Forest.from_saved(FITTED | {name: array}, 2, 1, "identity")


@pytest.mark.parametrize("name", FITTED)
def test_missing_arrays_and_wrong_shapes_are_refused(name):
    without = {key: array for key, array in FITTED.items() if key != name}
    for damaged in (
        without,
        FITTED | {name: FITTED[name][None]},
        FITTED | {name: FITTED[name][:0]},
    ):
        with pytest.raises(SagpoolError, match="A simple model is damaged"):
            Forest.from_saved(damaged, 2, 1, "identity")
    with pytest.raises(SagpoolError, match="A simple model is damaged"):
        Forest.from_saved(FITTED | {name: FITTED[name].astype(np.float16)}, 2, 1, "identity")
