"""The regressors follow scikit-learn's conventions, where these apply to graphs."""

import pickle

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sagpool import GraphPoolingRegressor, SagpoolError, SAGPoolRegressor, TrainedModel
from sagpool.classifier.estimator_inputs import pack_graphs, with_targets

FAST = {"hidden": 8, "lr": 2e-2, "batch_size": 8, "max_epochs": 20}
GRAPHS = [g for n in range(4, 19) for g in (nx.cycle_graph(n), nx.star_graph(n))]
ANGLES = np.array([0.0, 1000.0] * 15)  # not standardised
TWO = np.stack([ANGLES, 5 - ANGLES], 1)
TWO[[0, 3], [0, 1]] = np.nan


def fast(**settings) -> GraphPoolingRegressor:
    return GraphPoolingRegressor("sagpool-g", **{**FAST, **settings})


@pytest.fixture(scope="module")
def fitted() -> GraphPoolingRegressor:
    return fast().fit(GRAPHS, ANGLES)


def test_tags():
    assert is_regressor(SAGPoolRegressor())
    assert SAGPoolRegressor().__sklearn_tags__().target_tags.multi_output
    assert not SAGPoolRegressor().__sklearn_tags__().input_tags.two_d_array
    assert "class_weight" not in SAGPoolRegressor().get_params()


def test_predictions(fitted):
    values = fitted.predict(GRAPHS)
    assert values.shape == (30,)
    assert fitted.score(GRAPHS, ANGLES) == pytest.approx(r2_score(ANGLES, values))
    assert fitted.score(GRAPHS, ANGLES) > 0.8
    weights = np.linspace(0, 1, 30)
    expected = r2_score(ANGLES, values, sample_weight=weights)
    assert fitted.score(GRAPHS, ANGLES, weights) == pytest.approx(expected)
    with pytest.raises(SagpoolError, match=r"y has 30 x 2 values .*; there are 30 x 1."):
        fitted.score(GRAPHS, TWO)
    with pytest.raises(NotFittedError):
        clone(fitted).predict(GRAPHS)


def test_several_targets_with_gaps():
    regressor = fast().fit(GRAPHS, TWO)
    values = regressor.predict(GRAPHS)
    assert values.shape == (30, 2)
    known = ~np.isnan(TWO)
    each = [r2_score(TWO[known[:, i], i], values[known[:, i], i]) for i in range(2)]
    assert regressor.score(GRAPHS, TWO) == pytest.approx(np.mean(each))
    assert min(each) > 0.8
    assert fast(max_epochs=1).fit(GRAPHS, ANGLES[:, None]).predict(GRAPHS).shape == (30, 1)


def test_targets_stored_in_graphs(fitted):
    graphs = with_targets(pack_graphs(GRAPHS, "all"), ANGLES).graphs
    stored = fast().fit(graphs)
    np.testing.assert_array_equal(stored.predict(graphs), fitted.predict(GRAPHS))
    assert stored.score(graphs) == fitted.score(GRAPHS, ANGLES)


def test_copies_and_saved_models(fitted, tmp_path):
    expected = fitted.predict(GRAPHS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(GRAPHS), expected)
    assert not hasattr(clone(fitted), "model_")
    model = TrainedModel.from_pretrained(fitted.model_.save_pretrained(tmp_path))
    found = model.predict_proba(pack_graphs(GRAPHS, model.vocabulary.features))
    np.testing.assert_allclose(found.predicted[:, 0], expected, rtol=1e-6)


def test_cross_validation_search_and_pipeline():
    regressor = fast(max_epochs=3)
    assert np.isfinite(cross_val_score(regressor, GRAPHS, ANGLES, cv=2)).all()
    pipeline = make_pipeline(FunctionTransformer(list), regressor)
    search = GridSearchCV(pipeline, {"graphpoolingregressor__hidden": [4]}, cv=2)
    assert search.fit(GRAPHS, TWO).best_estimator_[-1].model_.shape.hidden == 4
