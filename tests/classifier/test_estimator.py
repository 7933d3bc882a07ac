"""The classifiers follow scikit-learn's conventions, where these apply to graphs."""

import logging
import pickle

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from torch_geometric.data import Data

from sagpool import (
    AutoGraphClassifier,
    AutoGraphRegressor,
    GraphPoolingClassifier,
    GraphPoolingRegressor,
    Graphs,
    SAGPoolClassifier,
    SagpoolError,
    SAGPoolRegressor,
    TrainedModel,
    load,
)
from sagpool.classifier import trained_model
from sagpool.fleet import Training, train
from sagpool.fleet.schedule import split_of
from sagpool.graphs import NO_TEST
from sagpool.models import methods

FAST = {"hidden": 8, "lr": 2e-2, "batch_size": 8, "max_epochs": 10, "features": "auto"}

RINGS_AND_STARS = [g for n in range(4, 19) for g in (nx.cycle_graph(n), nx.star_graph(n))]
NAMES = ["ring", "star"] * 15


def fast(method="sagpool-g", **settings) -> GraphPoolingClassifier:
    return GraphPoolingClassifier(method, **{**FAST, **settings})


def object_array(items) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


@pytest.fixture(scope="module")
def fitted() -> GraphPoolingClassifier:
    return fast().fit(RINGS_AND_STARS, NAMES)


@pytest.fixture(scope="module")
def packed() -> Graphs:
    return Graphs.from_networkx(RINGS_AND_STARS, NAMES)


# scikit-learn's estimator checks that work without a feature matrix.
CHECKS = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]


@pytest.mark.parametrize(
    "kind",
    [
        AutoGraphClassifier,
        AutoGraphRegressor,
        GraphPoolingClassifier,
        GraphPoolingRegressor,
        SAGPoolClassifier,
        SAGPoolRegressor,
    ],
)
@pytest.mark.parametrize("check", CHECKS)
def test_checks_of_scikit_learn(check, kind):
    getattr(estimator_checks, check)(kind.__name__, kind())


def test_tags():
    classifier = SAGPoolClassifier()
    assert is_classifier(classifier)
    tags = classifier.__sklearn_tags__()
    assert not tags.input_tags.two_d_array
    assert not tags.non_deterministic
    assert tags.target_tags.required


def test_sagpool_is_the_default():
    assert SAGPoolClassifier().method == "sagpool-h"
    assert repr(SAGPoolClassifier(hidden=32)) == "SAGPoolClassifier(hidden=32)"
    assert repr(clone(SAGPoolClassifier(method="gpool-h"))) == "SAGPoolClassifier(method='gpool-h')"


def test_fit_returns_self_and_does_not_change_parameters(packed):
    classifier = fast(random_state=np.random.RandomState(3))
    before = classifier.get_params()
    assert classifier.fit(packed) is classifier
    after = classifier.get_params()
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)


def test_attributes_and_predictions_after_fit(fitted):
    assert fitted.classes_.tolist() == ["ring", "star"]
    assert fitted.n_iter_ == 10
    assert fitted.n_features_in_ == fitted.model_.shape.in_channels == 17  # degrees 1, 2, 4, ...
    assert fitted.model_.vocabulary.class_names == ("ring", "star")
    probabilities = fitted.predict_proba(RINGS_AND_STARS)
    assert probabilities.shape == (30, 2)
    assert log_loss(NAMES, probabilities) < 0.5  # which also checks that rows sum to 1
    assert fitted.predict(RINGS_AND_STARS).tolist() == NAMES
    assert fitted.score(RINGS_AND_STARS, NAMES) == 1
    assert fitted.score(RINGS_AND_STARS, NAMES[::-1]) == 0


@pytest.mark.parametrize("how", ["predict", "predict_proba", "score"])
def test_not_fitted(how):
    with pytest.raises(NotFittedError):
        getattr(fast(), how)(RINGS_AND_STARS)


def test_a_clone_is_not_fitted(fitted):
    copy = clone(fitted)
    assert not hasattr(copy, "model_")
    assert copy.get_params() == fitted.get_params()


def test_a_second_fit_does_not_depend_on_the_first(fitted):
    again = clone(fitted).fit(RINGS_AND_STARS[:10], NAMES[:10])
    again.fit(RINGS_AND_STARS, NAMES)
    np.testing.assert_array_equal(
        again.predict_proba(RINGS_AND_STARS), fitted.predict_proba(RINGS_AND_STARS)
    )


def test_pickling(fitted):
    unfitted = pickle.loads(pickle.dumps(clone(fitted)))
    assert unfitted.get_params() == fitted.get_params()
    thawed = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(
        thawed.predict_proba(RINGS_AND_STARS), fitted.predict_proba(RINGS_AND_STARS)
    )
    assert thawed.predict(RINGS_AND_STARS).tolist() == NAMES


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (lambda: 1, lambda: np.int64(1), True),
        (lambda: 1, lambda: 2, False),
        (lambda: np.random.RandomState(1), lambda: np.random.RandomState(1), True),
        (lambda: None, lambda: None, False),
    ],
    ids=["equal numbers", "other numbers", "equal generators", "none"],
)
def test_random_state(one, other, same, packed):
    torch.manual_seed(0)
    first, second = (
        fast(random_state=state(), max_epochs=2).fit(packed).predict_proba(packed)
        for state in (one, other)
    )
    assert np.array_equal(first, second) == same


def test_a_random_state_object_advances_with_each_fit(packed):
    classifier = fast(random_state=np.random.RandomState(0), max_epochs=2)
    first = classifier.fit(packed).predict_proba(packed)
    assert not np.array_equal(first, classifier.fit(packed).predict_proba(packed))


FORMS = {
    "list": lambda graphs: graphs.to_pyg(),
    "object array": lambda graphs: object_array(graphs.to_pyg()),
    "Graphs": lambda graphs: graphs,
    "single Graphs": list,
}


@pytest.mark.parametrize("form", FORMS)
def test_all_input_types_give_the_same_model(form):
    graphs = load("MUTAG")[:60]
    y = graphs.y.numpy()
    # PyG graphs have attributes, not labels, and random streams depend on the data set's name.
    as_pyg = Graphs.from_pyg(graphs.to_pyg(), name="graphs")
    expected = fast(max_epochs=3).fit(as_pyg, y).predict_proba(as_pyg)
    X = FORMS[form](as_pyg)
    found = fast(max_epochs=3).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "values", [("yes", "no"), (1, -1), (2.0, 10.0), (True, False), ("10", "9")], ids=str
)
@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_predictions_have_the_values_of_y(values, kind):
    y = [values[name == "star"] for name in NAMES]
    if kind is torch.tensor and isinstance(values[0], str):
        kind = object_array
    classifier = fast().fit(RINGS_AND_STARS, kind(y))
    assert classifier.classes_.tolist() == sorted(values)
    assert classifier.predict(RINGS_AND_STARS).tolist() == y


def test_classes_stored_in_graphs(packed):
    classifier = fast().fit(packed)
    assert classifier.classes_.tolist() == ["ring", "star"]
    assert classifier.score(packed) == 1
    other = packed[::-1]
    assert classifier.predict(other).tolist() == NAMES[::-1]
    assert classifier.score(list(other)) == 1


def test_predicting_graphs_of_two_of_three_classes():
    paths = [nx.path_graph(n) for n in range(4, 19)]
    names = NAMES + ["a path"] * 15
    classifier = fast(max_epochs=20).fit(RINGS_AND_STARS + paths, names)
    assert classifier.classes_.tolist() == ["a path", "ring", "star"]
    assert classifier.predict(RINGS_AND_STARS).tolist() == NAMES
    assert classifier.predict_proba(paths[:1]).shape == (1, 3)


def test_classes_stored_in_the_graphs_of_a_list_are_ignored():
    data = [
        Data(torch.eye(2), torch.tensor([[0, 1], [1, 0]]), y=torch.rand(number % 3))
        for number in range(20)
    ]
    classifier = fast(max_epochs=1).fit(data, ["a", "b"] * 10)
    assert set(classifier.predict(data)) <= {"a", "b"}
    several = [nx.path_graph(4, create_using=nx.Graph(y=list(range(n % 3)))) for n in range(20)]
    classifier.fit(several, ["a", "b"] * 10)


@pytest.mark.parametrize("method", methods())
def test_every_method(method, packed):
    classifier = GraphPoolingClassifier(method, **{**FAST, "max_epochs": 1}).fit(packed[:20])
    assert classifier.model_.method == method
    assert np.isfinite(classifier.predict_proba(packed)).all()


def test_parameters_are_passed_to_the_training(packed):
    settings = {
        "lr": 3e-3, "weight_decay": 2e-3, "hidden": 6, "ratio": 0.25, "dropout": 0.1,
        "batch_size": 7, "patience": 3, "max_epochs": 4, "validation": 0.2, "random_state": 5,
    }  # fmt: skip
    classifier = GraphPoolingClassifier("gpool-h", **settings).fit(packed)
    seed = settings.pop("random_state")
    training = Training("gpool-h", seed=seed, fold=NO_TEST, **settings)
    (result,) = train(packed, [training], keep_weights=True)
    for name, weight in result.weights.items():
        assert torch.equal(classifier.model_.weights[name], weight)
    parts = split_of(packed, training)
    assert classifier.score(packed[parts.train]) == result.train.accuracy
    assert classifier.score(packed[parts.validation]) == result.validation.accuracy
    y = packed.y[parts.validation].numpy()
    probabilities = classifier.predict_proba(packed[parts.validation])
    assert log_loss(y, probabilities) == pytest.approx(result.validation.loss, rel=1e-5)


def test_the_score_is_the_test_accuracy_of_the_fleet():
    graphs = load("MUTAG")
    training = Training("sagpool-g", fold=2, hidden=16, lr=1e-2, batch_size=32, max_epochs=20)
    (result,) = train(graphs, [training], keep_weights=True)
    classifier = GraphPoolingClassifier("sagpool-g")
    classifier.model_ = trained_model(graphs, result)
    classifier.classes_ = np.array(graphs.class_names)
    test = split_of(graphs, training).test
    y = classifier.classes_[graphs.y[test].numpy()]
    assert classifier.score(graphs[test], y) == result.test.accuracy
    assert classifier.score(graphs[test]) == result.test.accuracy


def test_early_stopping_keeps_the_best_weights(packed):
    classifier = fast(patience=2, max_epochs=100, lr=0.2).fit(packed)
    assert classifier.n_iter_ < 100
    assert classifier.model_.about["epochs"] == classifier.n_iter_ - 2


def test_without_validation_all_graphs_train_for_all_epochs(packed):
    classifier = fast(patience=1, max_epochs=30, lr=0.2, validation=0).fit(packed)
    assert classifier.n_iter_ == 30


def test_features_are_chosen_once():
    def labelled(graphs):
        for graph in (graphs := [graph.copy() for graph in graphs]):
            nx.set_node_attributes(graph, "C", "label")
            nx.set_node_attributes(graph, dict(graph.degree), "x")
        return graphs

    graphs = labelled(RINGS_AND_STARS)
    for features, columns in {"auto": 1, "labels": 1, "attributes": 1, "both": 2}.items():
        classifier = fast(features=features, max_epochs=2).fit(graphs, NAMES)
        assert classifier.n_features_in_ == columns
        classifier.predict(graphs[:5])
    # A model fitted to degrees uses degrees even if there are labels.
    classifier = fast(features="auto").fit(RINGS_AND_STARS, NAMES)
    assert classifier.predict(graphs).tolist() == NAMES


def test_unseen_labels_are_counted_in_one_warning(caplog):
    graphs = [nx.path_graph(4) for _ in range(20)]
    for graph in graphs:
        nx.set_node_attributes(graph, {0: "C", 1: "N", 2: "C", 3: "O"}, "label")
    classifier = fast(max_epochs=1).fit(graphs, ["a", "b"] * 10)
    with caplog.at_level(logging.WARNING, "sagpool"):
        classifier.predict(graphs)
        assert not caplog.messages
        nx.set_node_attributes(graphs[0], {0: "Xe", 1: "Xe", 2: "Kr"}, "label")
        probabilities = classifier.predict_proba(graphs)
    assert np.isfinite(probabilities).all()
    assert caplog.messages == [
        "graphs has labels of nodes that the model does not know: Xe (2), Kr (1)."
    ]


def test_unseen_degrees_are_counted(fitted, caplog):
    with caplog.at_level(logging.WARNING, "sagpool"):
        fitted.predict(
            [nx.star_graph(3), nx.star_graph(40)]
        )  # 40 is treated as the highest known degree
    assert caplog.messages == ["graphs has degrees of nodes that the model does not know: 3 (1)."]


def test_the_model_can_be_saved(fitted, packed, tmp_path):
    model = TrainedModel.from_pretrained(fitted.model_.save_pretrained(tmp_path))
    found = model.predict_proba(packed).probabilities
    np.testing.assert_allclose(found, fitted.predict_proba(packed), rtol=1e-6)


@pytest.mark.parametrize("form", ["list", "object array", "Graphs"])
def test_cross_validation(form, packed):
    X = FORMS[form](packed) if form == "Graphs" else RINGS_AND_STARS
    X = object_array(X) if form == "object array" else X
    scores = cross_val_score(fast(), X, NAMES, cv=3)
    assert scores.tolist() == [1, 1, 1]
    assert cross_val_predict(fast(), X, NAMES, cv=3).tolist() == NAMES


def test_cross_validation_with_classes_stored_in_graphs(packed):
    assert cross_val_score(fast(), packed, cv=3).tolist() == [1, 1, 1]


def test_grid_search(packed):
    grid = {"lr": [1e-9, 2e-2], "method": ["sagpool-g"]}
    alone, together = (
        GridSearchCV(fast(), grid, cv=2, n_jobs=jobs).fit(packed, NAMES) for jobs in (1, 2)
    )
    assert alone.best_params_ == {"lr": 2e-2, "method": "sagpool-g"}
    assert alone.best_score_ == 1
    for column in ("split0_test_score", "split1_test_score"):
        assert alone.cv_results_[column].tolist() == together.cv_results_[column].tolist()
    np.testing.assert_array_equal(alone.predict_proba(packed), together.predict_proba(packed))


def test_pipeline():
    def without_hubs(graphs):
        return [graph.subgraph([v for v, d in graph.degree if d < 3]) for graph in graphs]

    pipeline = make_pipeline(FunctionTransformer(without_hubs), fast())
    search = GridSearchCV(pipeline, {"graphpoolingclassifier__hidden": [4]}, cv=2)
    search.fit(RINGS_AND_STARS, NAMES)
    assert search.best_score_ == 1
    model = search.best_estimator_[-1].model_
    assert model.shape.hidden == 4
    assert model.vocabulary.node_labels == ("0", "2")  # leaves of stars, and rings


@pytest.mark.parametrize(
    "whole",
    [
        lambda: CalibratedClassifierCV(fast(), cv=2),
        lambda: VotingClassifier([("a", fast()), ("b", fast("nopool-g"))], voting="soft"),
    ],
    ids=["calibration", "voting"],
)
def test_in_meta_estimators(whole, packed):
    fitted = whole().fit(packed, NAMES)
    assert fitted.score(packed, NAMES) == 1


WRONG = {
    "no graph": ([], [], "X has no graphs."),
    "other lengths": (RINGS_AND_STARS, NAMES[:-1], "y has 29 classes for 30 graphs."),
    "one class": (RINGS_AND_STARS, [7] * 30, "y needs at least two classes, but has only 7."),
    "no classes": (RINGS_AND_STARS, None, "y is missing, and the graphs have no classes."),
    "a matrix": (
        np.zeros((30, 2)),
        NAMES,
        "X must be a list of graphs, not ndarray with 2 dimensions.",
    ),
    "a text": ("C" * 30, NAMES, "X must be a list of graphs, not str."),
    "bytes": ([b"CCO"] * 30, NAMES, "X must be Graphs, or a list of .* not of bytes."),
    "a mixture": (
        [nx.path_graph(2), Data(torch.eye(2))] * 15,
        NAMES,
        "X must be Graphs, .* not of Data, Graph.",
    ),
    "a graph": (nx.path_graph(30), NAMES, "X must be a list of graphs, not Graph."),
    "a gap": ([*RINGS_AND_STARS[:29], None], NAMES, r"X\[29\] is None, not a graph."),
    "unreadable": (["CCO"] * 29 + ["C1CC"], NAMES, r"X\[29\]: RDKit cannot read 'C1CC'."),
    "nothing": (None, NAMES, "X must be a list of graphs, not NoneType."),
    "numbers": (RINGS_AND_STARS, np.linspace(0, 1, 30), "y must have one class for each graph: "),
    "missing": (RINGS_AND_STARS, ["a", None] * 15, "y must have one class for each graph: "),
    "columns": (RINGS_AND_STARS, np.zeros((30, 2)), "y must have one class for each graph: "),
    "an empty graph": ([nx.path_graph(0)] * 30, NAMES, "graph 0 has no node."),
}


@pytest.mark.parametrize(("X", "y", "message"), WRONG.values(), ids=WRONG)
def test_wrong_graphs_and_classes(X, y, message):
    with pytest.raises(SagpoolError, match=f"^{message}"):
        fast().fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "sagpol"}, "Unknown method 'sagpol'; choose from sagpool-"),
        ({"lr": -1}, "lr must be above 0"),
        ({"hidden": 8.5}, "hidden must be int, not 8.5."),
        ({"ratio": 2, "method": "sagpool-h"}, "The ratio must be above 0 and at most 1"),
        ({"validation": 1}, "validation must be in"),
        ({"features": "colour"}, "Unknown node features 'colour'"),
        ({"features": "labels"}, "graphs has no node labels."),
        ({"device": "abacus"}, "There is no kind of device named 'abacus'."),
        ({"random_state": "luck"}, "random_state must be an int, a RandomState or None"),
    ],
    ids=str,
)
def test_fit_rejects_wrong_parameters(settings, message):
    with pytest.raises(SagpoolError, match=f"^{message}"):
        fast(**settings).fit(RINGS_AND_STARS, NAMES)


def test_graphs_with_other_features_are_rejected(packed):
    with pytest.raises(SagpoolError, match="already has degree as node features, not labels"):
        fast(features="labels").fit(packed)
    assert fast(features="degree", max_epochs=1).fit(packed).n_iter_ == 1


def test_predicting_no_graphs_or_graphs_with_other_features(fitted):
    with pytest.raises(SagpoolError, match="X has no graph"):
        fitted.predict([])
    with pytest.raises(SagpoolError, match="X has no graph"):
        fitted.predict(load("MUTAG")[:0])
    with pytest.raises(SagpoolError, match="has labels as node features; the model was trained"):
        fitted.predict(load("MUTAG"))
