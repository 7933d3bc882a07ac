"""Fitting random forests with scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.classifier.simple.flat_trees import FlatTree, constant_tree, forest_of, of_forest
from sagpool.classifier.simple.forest import Forest
from sagpool.classifier.simple.problem import Problem
from sagpool.randomness import bits, key_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TREES = 100
# Most trees of all tasks together; fewest of each task. On three held-out folds of the training
# part of Tox21, the mixture had a loss of 0.1890; with 1,000 trees 0.1887, in 1.6 times the time.
MOST_TREES, FEWEST_TREES = 600, 50


def fit_forest(matrix: np.ndarray | csr_array, problem: Problem, seed: int) -> Forest:
    """A random forest for each task, fitted to the graphs for which it was measured."""
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    trees: list[FlatTree] = []
    for task, (rows, target) in enumerate(problem.measured()):
        if len(np.unique(target)) < 2:
            trees.append(constant_tree(problem.prior(task), task))
            continue
        random_state = int(bits(key_of("simple", "forest", seed, task), 1)[0] >> np.uint64(33))
        # Fortran order, because scikit-learn reads column by column.
        columns = np.asfortranarray(dense[rows])
        trees += _trees(columns, target, problem, task, random_state)
    return forest_of(trees, np.zeros(problem.raw_outputs), "identity")


def _trees(
    dense: np.ndarray, target: np.ndarray, problem: Problem, task: int, random_state: int
) -> list[FlatTree]:
    import torch
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

    # The result does not depend on the number of threads: every tree has a seed of its own.
    trees_per_task = min(TREES, max(MOST_TREES // problem.tasks, FEWEST_TREES))
    common: dict[str, Any] = {"n_estimators": trees_per_task, "random_state": random_state}
    common["n_jobs"] = torch.get_num_threads()
    if problem.regression:
        values = ExtraTreesRegressor(max_features=0.2, **common).fit(dense, target)
        found = [tree.tree_ for tree in values.estimators_]
        return [of_forest(tree, tree.value[:, 0, :], task) for tree in found]
    forest = RandomForestClassifier(**common)
    forest.fit(dense, target, sample_weight=problem.weights(target))
    width = problem.raw_outputs // problem.tasks
    trees = []
    for tree in (one.tree_ for one in forest.estimators_):
        fractions = tree.value[:, 0, :] / tree.value[:, 0, :].sum(1, keepdims=True)
        value = fractions[:, [-1]]  # fraction of the second class
        if width > 1:
            value = np.zeros((len(fractions), width))
            value[:, forest.classes_] = fractions
        trees.append(of_forest(tree, value, task))
    return trees
