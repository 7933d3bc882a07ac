"""Simple models on small graphs: every task, saving, damaged arrays."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sagpool import Graphs, SagpoolError, load
from sagpool.classifier.simple import (
    SimpleModel,
    boosting_fit,
    fit_simple,
    forest_fit,
    simple_names,
)
from sagpool.classifier.simple.contributions import subtree_in_words
from sagpool.randomness import bits, key_of

MUTAG = load("MUTAG")
NAMES = (
    "counts-linear",
    "counts-forest",
    "counts-boosted",
    "wl-linear",
    "morgan-linear",
    "morgan-forest",
)


def with_fragments(graphs: Graphs) -> Graphs:
    """Node labels as environments with large numbers."""
    numbers = bits(key_of("environments"), len(graphs.node_label_names)) >> np.uint64(32)
    order = np.argsort(numbers)
    label = graphs.node_label.numpy()
    counts = np.zeros((len(graphs), len(numbers)))
    np.add.at(counts, (graphs.batch.numpy(), label), 1)
    dense = counts[:, order]
    rows, columns = np.nonzero(dense)
    ptr = np.searchsorted(rows, np.arange(len(graphs) + 1))
    indices = numbers[order][columns].astype(np.int64)
    fragments = csr_array((dense[rows, columns], indices, ptr), shape=(len(graphs), 2**32))
    return replace(graphs, fragments=fragments)


def with_targets(graphs: Graphs, task: str) -> Graphs:
    """Two tasks, with gaps: the class (or the number of nodes), and its opposite."""
    first = graphs.y.float() if task == "multitask" else torch.tensor(graphs.node_counts).float()
    targets = torch.stack([first, 1 - first], 1)
    targets[::5, 0] = torch.nan
    targets[1::3, 1] = torch.nan
    return replace(graphs, y=None, targets=targets, task=task, target_names=("a", "b"))


@pytest.fixture(autouse=True, scope="module")
def _few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest_fit, "TREES", 10)
        patch.setitem(boosting_fit.SETTINGS, "max_iter", 20)
        yield


GRAPHS = with_fragments(MUTAG)
TASKS = {
    "classification": GRAPHS,
    "multitask": with_targets(GRAPHS, "multitask"),
    "regression": with_targets(GRAPHS, "regression"),
}
TRAIN, TEST = np.arange(0, 188, 2), np.arange(1, 188, 2)


@pytest.fixture(scope="module")
def fitted() -> dict[tuple[str, str], SimpleModel]:
    return {
        (task, name): fit_simple(name, graphs, TRAIN, 0)
        for task, graphs in TASKS.items()
        for name in NAMES
    }


def test_names_depend_on_what_the_graphs_have():
    assert simple_names(GRAPHS) == NAMES
    assert not any(name.startswith("morgan") for name in simple_names(MUTAG))
    with pytest.raises(SagpoolError, match="no simple model 'morgan-linear' for MUTAG"):
        fit_simple("morgan-linear", MUTAG, TRAIN, 0)


@pytest.mark.parametrize("name", NAMES)
def test_models_learn_every_task(fitted, name):
    probabilities = fitted["classification", name].predict(GRAPHS[TEST])
    np.testing.assert_allclose(probabilities.sum(1), 1)
    y = MUTAG.y.numpy()[TEST]
    assert (probabilities.argmax(1) == y).mean() > 0.75
    several = fitted["multitask", name].predict(GRAPHS[TEST])
    assert several.shape == (94, 2)
    assert ((several > 0.5) == np.stack([y, 1 - y], 1)).mean() > 0.75
    values = fitted["regression", name].predict(GRAPHS[TEST])
    error = values - np.stack([MUTAG.node_counts[TEST], 1 - MUTAG.node_counts[TEST]], 1)
    assert np.sqrt((error**2).mean()) < 0.6 * MUTAG.node_counts.std()


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_model_predicts_the_same(fitted, name):
    for task in TASKS:
        model = fitted[task, name]
        saved = model.to_saved()
        again = SimpleModel.from_saved(saved.config, saved.arrays)
        assert np.array_equal(again.predict(GRAPHS[TEST]), model.predict(GRAPHS[TEST]))


@pytest.mark.parametrize("name", NAMES)
def test_contributions_add_up_to_the_prediction(fitted, name):
    few = GRAPHS[TEST[:4]]
    for task in TASKS:
        model = fitted[task, name]
        predicted = model.predict(few)
        for output in (0, 1):
            found = model.contributions(few, np.full(4, output), most=3)
            total = [one.base + sum(c.amount for c in one.top) + one.rest for one in found]
            if model.fitted.link == "sigmoid":
                total = 1 / (1 + np.exp(-np.array(total)))
            np.testing.assert_allclose(total, predicted[:, output], rtol=1e-5, atol=1e-9)
            assert all(len(one.top) <= 3 for one in found)


def test_the_column_that_decides_is_named_first():
    y = (MUTAG.node_counts > 18).astype(np.int64)
    graphs = replace(MUTAG, y=torch.from_numpy(y), class_names=("small", "large"))
    model = fit_simple("counts-linear", graphs, TRAIN, 0)
    names = {one.name for one in model.importances(graphs, most=8)}
    assert names & {"nodes", "edges"}


def test_subtrees_are_described_by_the_labels_around_a_node(fitted):
    graph = MUTAG[0]
    top = fitted["classification", "wl-linear"].contributions(graph, np.array([1]), 30)[0].top
    present = [one for one in top if one.nodes]
    assert present
    assert all(0 <= node < graph.num_nodes for one in present for node in one.nodes)
    assert all(one.value > 0 for one in present)
    assert subtree_in_words(graph, 0, 0) == "C"
    assert subtree_in_words(graph, 0, 1) == "C with 2 × C within 1 step"


def test_the_same_seed_gives_the_same_model_with_any_number_of_threads(fitted):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if threads == 1 else 1)
        for name in ("counts-forest", "counts-boosted", "wl-linear"):
            again = fit_simple(name, GRAPHS, TRAIN, 0).to_saved().arrays
            first = fitted["classification", name].to_saved().arrays
            assert all(np.array_equal(again[key], first[key]) for key in first)
    finally:
        torch.set_num_threads(threads)
    other = fit_simple("counts-forest", GRAPHS, TRAIN, 1).predict(GRAPHS[TEST])
    assert not np.array_equal(
        other, fitted["classification", "counts-forest"].predict(GRAPHS[TEST])
    )


def test_three_classes():
    size = np.digitize(MUTAG.node_counts, [14, 19])
    graphs = replace(MUTAG, y=torch.from_numpy(size), class_names=("s", "m", "l"))
    for name in simple_names(graphs):
        model = fit_simple(name, graphs, TRAIN, 0, class_weight="balanced")
        predicted = model.predict(graphs[TEST])
        np.testing.assert_allclose(predicted.sum(1), 1, rtol=1e-6)
        assert (predicted.argmax(1) == size[TEST]).mean() > 0.7
        assert len(model.contributions(graphs[:2], np.array([0, 2]))) == 2


NO_COUNTS = {"attributes": [], "labels": [], "measured": []}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "counts-magic"}, "no simple model 'counts-magic'"),
        ({"task": "poetry"}, "task must be one of"),
        ({"outputs": 1}, "cannot have 1 outputs"),
        ({"outputs": 3}, "'bias' is float64"),
        ({"name": "counts-linear"}, "has no 'weight'"),
        ({"name": "wl-linear"}, "damaged"),
        ({"features": []}, "features of another model"),
        ({"features": [NO_COUNTS | {"measured": [0]}]}, "attribute that is missing"),
        ({"features": [NO_COUNTS]}, "column that is not there"),
        ({"features": [7]}, "damaged"),
    ],
)  # fmt: skip
def test_damaged_configurations_are_refused(fitted, change, sentence):
    config, arrays = fitted["classification", "counts-forest"].to_saved()
    with pytest.raises(SagpoolError, match=sentence):
        SimpleModel.from_saved(config | change, arrays)


def test_other_errors_name_the_graphs():
    with pytest.raises(SagpoolError, match="MUTAG has fewer than two classes"):
        fit_simple("counts-linear", replace(MUTAG, y=None), TRAIN, 0)
    with pytest.raises(SagpoolError, match="class_weight must be None or 'balanced'"):
        fit_simple("counts-linear", MUTAG, TRAIN, 0, class_weight="heavy")
