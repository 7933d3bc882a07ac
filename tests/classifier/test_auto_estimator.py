"""The estimators that choose a model, with one quick candidate to choose from."""

import pickle
from importlib import import_module

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sagpool import AutoGraphClassifier, AutoGraphRegressor, SagpoolError, TrainedModel
from sagpool.classifier.candidates import SimpleCandidate
from sagpool.classifier.estimator_inputs import pack_graphs

GRAPHS = [g for n in range(4, 19) for g in (nx.cycle_graph(n), nx.star_graph(n))]
NAMES = ["ring", "star"] * 15
SIZES = np.array([float(graph.number_of_nodes()) for graph in GRAPHS])


@pytest.fixture(scope="module", autouse=True)
def one_candidate():
    module, asked = import_module("sagpool.classifier.fit"), []

    def only_one(graphs, **options):
        asked.append(options)
        return [SimpleCandidate("counts-linear")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "candidates_for", only_one)
        yield asked


@pytest.fixture(scope="module")
def classifier(one_candidate) -> AutoGraphClassifier:
    return AutoGraphClassifier(folds=3, coverage=0.8).fit(GRAPHS, NAMES)


@pytest.fixture(scope="module")
def regressor(one_candidate) -> AutoGraphRegressor:
    return AutoGraphRegressor(folds=3, coverage=0.8).fit(GRAPHS, SIZES)


def test_kinds():
    assert is_classifier(AutoGraphClassifier())
    assert is_regressor(AutoGraphRegressor())
    assert "class_weight" not in AutoGraphRegressor().get_params()
    for kind in (AutoGraphClassifier, AutoGraphRegressor):
        with pytest.raises(NotFittedError):
            kind().predict(GRAPHS)


def test_a_classifier(classifier):
    assert classifier.classes_.tolist() == ["ring", "star"]
    assert classifier.predict(GRAPHS).tolist() == NAMES
    assert classifier.score(GRAPHS, NAMES) == 1
    probabilities = classifier.predict_proba(GRAPHS)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    sets = classifier.predict_set(GRAPHS)
    assert sets.shape == (30, 2)
    assert sets.dtype == bool
    assert sets[np.arange(30), probabilities.argmax(1)].all()
    assert classifier.estimate_.accuracy > 0.9
    assert classifier.estimate_.folds == 3
    assert classifier.estimate_.coverage.promised == 0.8
    assert [row.name for row in classifier.leaderboard_] == ["counts-linear"]
    assert not classifier.interrupted_
    assert classifier.n_features_in_ == classifier.model_.vocabulary.num_features


def test_a_regressor(regressor):
    values = regressor.predict(GRAPHS)
    assert values.shape == (30,)
    assert regressor.score(GRAPHS, SIZES) > 0.9
    interval = regressor.predict_interval(GRAPHS)
    assert interval.shape == (30, 2)
    assert (interval[:, 0] < values).all()
    assert (values < interval[:, 1]).all()
    assert regressor.estimate_.scores["r2"].value > 0.9


def test_several_targets_with_gaps():
    y = np.stack([SIZES, -SIZES], 1)
    y[[0, 3], [0, 1]] = np.nan
    regressor = AutoGraphRegressor(folds=2).fit(GRAPHS, y)
    assert regressor.predict(GRAPHS).shape == (30, 2)
    assert regressor.predict_interval(GRAPHS).shape == (30, 2, 2)
    assert regressor.score(GRAPHS, y) > 0.9


def test_molecules():
    pytest.importorskip("rdkit")
    texts = ["C" * n + end for n in range(1, 11) for end in ("O", "N")]
    classifier = AutoGraphClassifier(folds=2).fit(texts, [text[-1] for text in texts])
    assert classifier.predict(["CCO", "CCN"]).tolist() == ["O", "N"]
    with pytest.raises(SagpoolError, match=r"^X\[1\]: RDKit cannot read 'C1CC'\.$"):
        classifier.predict_set(["CCO", "C1CC"])


def test_parameters_are_passed_on(one_candidate, monkeypatch):
    module, calls = import_module("sagpool.classifier.auto_estimator"), []
    fit = module.fit
    monkeypatch.setattr(module, "fit", lambda g, **k: calls.append(k) or fit(g, **k))
    settings = {"only": "simple", "folds": 2, "minutes": 3, "coverage": 0.7}
    AutoGraphClassifier(**settings, class_weight="balanced", random_state=5).fit(GRAPHS, NAMES)
    assert calls == [{**settings, "class_weight": "balanced", "seed": 5, "device": "cpu"}]
    assert one_candidate[-1]["only"] == "simple"
    with pytest.raises(SagpoolError, match="class_weight must be None or balanced, not 'b'"):
        AutoGraphClassifier(class_weight="b").fit(GRAPHS, NAMES)


def test_the_decision_for_balanced_accuracy_is_used():
    y = ["rare" if n % 5 == 0 else "frequent" for n in range(30)]  # hardly to be learnt
    plain, balanced = (
        AutoGraphClassifier(folds=2, class_weight=weight).fit(GRAPHS, y)
        for weight in (None, "balanced")
    )
    np.testing.assert_allclose(plain.predict_proba(GRAPHS), balanced.predict_proba(GRAPHS))
    assert (balanced.predict(GRAPHS) == "rare").sum() > (plain.predict(GRAPHS) == "rare").sum()


def test_copies_and_saved_models(classifier, tmp_path):
    expected = classifier.predict_proba(GRAPHS)
    thawed = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(thawed.predict_proba(GRAPHS), expected)
    assert not hasattr(clone(classifier), "model_")
    model = TrainedModel.from_pretrained(classifier.model_.save_pretrained(tmp_path))
    found = model.predict_proba(pack_graphs(GRAPHS, model.vocabulary.features))
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("estimator", "y"),
    [(AutoGraphClassifier(folds=2), NAMES), (AutoGraphRegressor(folds=2), SIZES)],
    ids=["classifier", "regressor"],
)
def test_cross_validation_search_and_pipeline(estimator, y):
    halves = KFold(2, shuffle=True, random_state=0)
    assert (cross_val_score(estimator, GRAPHS, y, cv=halves) > 0.5).all()
    pipeline = make_pipeline(FunctionTransformer(list), estimator)
    step = type(estimator).__name__.lower()
    search = GridSearchCV(pipeline, {f"{step}__coverage": [0.8]}, cv=2).fit(GRAPHS, y)
    assert search.best_estimator_[-1].model_.conformal.coverage == 0.8


def test_several_tasks_with_gaps(one_candidate):
    y = np.stack([[name == "ring" for name in NAMES], SIZES > 11], 1).astype(float)
    y[::5, 1] = np.nan
    found = AutoGraphClassifier(folds=3).fit(GRAPHS, y)
    assert found.predict(GRAPHS).shape == found.predict_proba(GRAPHS).shape == (30, 2)
    assert found.predict_set(GRAPHS).shape == (30, 2, 2)
    assert found.score(GRAPHS, y) > 0.9
    assert found.model_.output_names == ("y 0", "y 1")
    with pytest.raises(SagpoolError, match="0, 1 or NaN; graph 0 has another number"):
        AutoGraphClassifier().fit(GRAPHS, y + 0.5)
