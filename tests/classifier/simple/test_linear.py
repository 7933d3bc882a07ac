"""Logistic and ridge regression: gaps, rare classes, weights, penalties."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from sagpool import SagpoolError
from sagpool.classifier.simple import linear_fit
from sagpool.classifier.simple.linear import Linear
from sagpool.classifier.simple.linear_fit import fit_linear
from sagpool.classifier.simple.problem import Problem

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(120, 5)) * [1, 10, 100, 1, 0] + [0, 0, 1e4, 0, 3]).astype(np.float32)
CLASS = (X[:, 0] + RNG.normal(size=120) > 0).astype(float)


def test_the_weights_are_for_columns_as_they_are(monkeypatch):
    monkeypatch.setattr(linear_fit, "STRENGTHS", (10.0,))
    model = fit_linear(X, Problem("classification", 2, CLASS[:, None]), 0, "sigmoid")
    spread = X[:, :4].std(0, dtype=np.float64)
    z = (X[:, :4] - X[:, :4].mean(0, dtype=np.float64)) / spread / 2  # four columns that vary
    expected = LogisticRegression(C=10).fit(z, CLASS).predict_proba(z)[:, 1]
    np.testing.assert_allclose(model.predict(X)[:, 0], expected, atol=1e-3)
    assert model.weight[4] == 0


def test_noise_is_penalised_more_than_signal():
    noise = RNG.normal(size=(120, 100)).astype(np.float32)
    random = fit_linear(
        noise, Problem("classification", 2, (np.arange(120) % 2.0)[:, None]), 0, "sigmoid"
    )
    signal = fit_linear(noise, Problem("classification", 2, (noise[:, :1] > 0) * 1.0), 0, "sigmoid")
    assert np.linalg.norm(random.weight) < 0.5 * np.linalg.norm(signal.weight)


def test_penalties_are_tried_until_the_loss_rises(monkeypatch):
    losses = {1.0: 5.0, 3.0: 4.0, 10.0: 4.5, 30.0: 1.0}
    tried = []

    def loss(matrix, problem, link, strength, seed):
        tried.append(strength)
        return losses[strength]

    monkeypatch.setattr(linear_fit, "_loss", loss)
    found = fit_linear(X, Problem("classification", 2, CLASS[:, None]), 0, "sigmoid")
    assert tried == [1, 3, 10]
    monkeypatch.setattr(linear_fit, "STRENGTHS", (3.0,))
    alone = fit_linear(X, Problem("classification", 2, CLASS[:, None]), 0, "sigmoid")
    np.testing.assert_array_equal(found.weight, alone.weight)


@pytest.mark.parametrize(("enough", "held_out"), [(41, 120), (40, 40)])
def test_penalties_of_many_graphs_are_compared_in_one_fold(monkeypatch, enough, held_out):
    monkeypatch.setattr(linear_fit, "ENOUGH_HELD_OUT", enough)
    monkeypatch.setattr(linear_fit, "STRENGTHS", (1.0,))
    judged = []
    losses = Problem.losses

    def counted(self, predicted):
        judged.append(len(predicted))
        return losses(self, predicted)

    monkeypatch.setattr(Problem, "losses", counted)
    fit_linear(X, Problem("classification", 2, CLASS[:, None]), 0, "sigmoid")
    assert sum(judged) == held_out


@pytest.mark.parametrize("sparse", [False, True])
def test_tasks_with_gaps_one_class_or_no_measurement(sparse):
    target = np.full((120, 3), np.nan)
    target[:50, 0] = CLASS[:50]
    target[:9, 1] = 1
    matrix = csr_array(X[:, [0, 3]]) if sparse else X
    predicted = fit_linear(matrix, Problem("multitask", 2, target), 0, "sigmoid").predict(matrix)
    assert ((predicted[50:, 0] > 0.5) == CLASS[50:]).mean() > 0.6
    np.testing.assert_allclose(predicted[:, 1], 9.5 / 10)
    assert (predicted[:, 2] == 0.5).all()


def test_classes_that_no_training_graph_has_are_improbable():
    for present in ([0, 2], [0, 2, 3], [2]):
        y = np.array(present)[np.arange(120) % len(present)].astype(float)
        predicted = fit_linear(X, Problem("classification", 4, y[:, None]), 0, "softmax").predict(X)
        np.testing.assert_allclose(predicted.sum(1), 1)
        absent = [one for one in range(4) if one not in present]
        assert predicted[:, absent].max() < 0.01


def test_balanced_weights_raise_a_rare_class():
    rare = (RNG.uniform(size=120) < 0.1) * 1.0
    target = rare[:, None]
    plain = fit_linear(X, Problem("classification", 2, target), 0, "sigmoid").predict(X)
    balanced = fit_linear(
        X, Problem("classification", 2, target, balanced=True), 0, "sigmoid"
    ).predict(X)
    assert plain.mean() < 0.2
    assert 0.3 < balanced.mean() < 0.7


def test_ridge_finds_a_linear_function_with_gaps():
    target = np.stack([3 * X[:, 0] - X[:, 1] + 50, X[:, 2]], 1).astype(float)
    target[::2, 0] = np.nan
    model = fit_linear(X, Problem("regression", 2, target), 0, "identity")
    predicted = model.predict(X)
    assert np.abs(predicted[:, 0] - (3 * X[:, 0] - X[:, 1] + 50)).max() < 1
    assert np.abs(predicted[:, 1] - X[:, 2]).max() < 20


def test_damaged_arrays_are_refused():
    saved = fit_linear(X, Problem("classification", 2, CLASS[:, None]), 0, "sigmoid").to_saved()
    assert isinstance(Linear.from_saved(saved, 5, 1, "sigmoid"), Linear)
    for columns, outputs in ((4, 1), (5, 2)):
        with pytest.raises(SagpoolError, match=r"'weight' is float32 \[5, 1\], not float32"):
            Linear.from_saved(saved, columns, outputs, "sigmoid")
    with pytest.raises(SagpoolError, match="has no 'bias'"):
        Linear.from_saved({**saved} | {"bias": None}, 5, 1, "sigmoid")
