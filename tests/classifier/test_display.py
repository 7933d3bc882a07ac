"""Models, fits and estimates in notebooks."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from sagpool import SAGPoolClassifier, load
from sagpool.classifier import Estimate, Fit, Row
from sagpool.classifier.estimate import Coverage, Score

ODD = "<script>alert(1)</script>"
ESTIMATE = Estimate(
    task="classification",
    graphs=188,
    folds=5,
    scores={
        "accuracy": Score(0.75, 0.6, 0.9),
        "balanced_accuracy": Score(0.7, 0.6, 0.8),
        "roc_auc": Score(float("nan"), float("nan"), float("nan")),
    },
    per_task={},
    majority=0.665,
    better_than_majority=False,
    coverage=Coverage(0.9, 0.91, 1.2),
    confusion=None,
    calibration=[],
)


@pytest.fixture(scope="module")
def model():
    return SAGPoolClassifier(hidden=4, max_epochs=1, random_state=0).fit(load("MUTAG")).model_


def text_of(shown):
    return " ".join(ElementTree.fromstring(shown._repr_html_()).itertext())


def test_a_model_without_an_estimate(model):
    assert "The accuracy was not estimated." in text_of(model)
    assert "mutagenic, non-mutagenic" in text_of(model)
    assert repr(model).startswith("TrainedModel(")
    assert len(repr(model)) < 200


def test_a_model_with_an_estimate(model):
    estimated = replace(model, about=model.about | {"estimate": ESTIMATE.to_json()})
    shown = text_of(estimated)
    assert "75.0% (95 % interval 60.0% to 90.0%)" in shown
    assert "5-fold cross-validation" in shown
    assert "Not shown to be better" in shown
    assert "estimated accuracy 75.0%" in repr(estimated)


def test_an_estimate():
    assert "66.5%" in text_of(ESTIMATE)
    assert "ROC" not in text_of(ESTIMATE)
    assert "Not shown" not in text_of(replace(ESTIMATE, better_than_majority=True))


@pytest.mark.parametrize(
    "about",
    [
        {"data": {"name": ODD, "graphs": 3}},
        {"data": 7, "estimate": ["accuracy"]},
        {"estimate": {"scores": {"accuracy": "high", ODD: {"value": 0.5}}, "folds": None}},
    ],
)
def test_what_a_folder_says_about_itself_may_be_anything(model, about):
    edited = replace(model, about=about)
    assert not list(ElementTree.fromstring(edited._repr_html_()).iter("script"))
    assert repr(edited).startswith("TrainedModel(")


def test_a_fit(model):
    rows = (Row("sagpool-h", "net", 0.75, 0.5, 0.1, 0.0, 0.0, 1.0, 3.0),)
    fit = Fit(model, ESTIMATE, rows, None, None, None, interrupted=False)
    assert "sagpool-h 1.00" in text_of(fit)
    assert len(repr(fit)) < 300
