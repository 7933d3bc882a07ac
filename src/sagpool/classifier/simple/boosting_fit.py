"""Fitting gradient-boosted trees with scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sagpool.classifier.simple.flat_trees import (
    FlatTree,
    constant_tree,
    forest_of,
    of_boosting,
)
from sagpool.classifier.simple.forest import Forest
from sagpool.classifier.simple.link import Link, inverse_link
from sagpool.classifier.simple.problem import Problem
from sagpool.randomness import bits, key_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ROUNDS = 100
FEWEST_IN_LEAF = 20
SETTINGS = {
    "max_iter": ROUNDS,
    "learning_rate": 0.08,
    "max_leaf_nodes": 15,
    "min_samples_leaf": FEWEST_IN_LEAF,
}
ABSENT = -30.0  # logit of a class that no training graph has


def fit_boosting(matrix: np.ndarray | csr_array, problem: Problem, seed: int, link: Link) -> Forest:
    """Boosted trees for each task, fitted to the graphs for which it was measured."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    used = _can_split(dense)
    dense = dense[:, used]
    bias = np.zeros(problem.raw_outputs)
    trees: list[FlatTree] = []
    several = problem.raw_outputs > problem.tasks  # each class has its own trees
    for task, (rows, target) in enumerate(problem.measured()):
        outputs = np.arange(problem.raw_outputs) if several else np.array([task])
        if len(np.unique(target)) < 2:
            bias[outputs] = inverse_link(problem.prior(task), link)
            trees += [constant_tree(np.zeros(1), int(output)) for output in outputs]
            continue
        random_state = int(bits(key_of("simple", "boosting", seed, task), 1)[0] >> np.uint64(33))
        kind = (
            HistGradientBoostingRegressor if problem.regression else HistGradientBoostingClassifier
        )
        boosted = kind(**SETTINGS, early_stopping=False, random_state=random_state)
        with threadpool_limits(1):  # so that sums do not depend on the number of threads
            weights = None if problem.regression else problem.weights(target)
            boosted.fit(dense[rows], target, sample_weight=weights)
        start = np.ravel(boosted._baseline_prediction)
        present = outputs
        if several:
            bias[:] = ABSENT
            present = boosted.classes_
            if len(present) == 2:  # one tree a round, for the second class against the first
                bias[present[0]] = 0.0
                present = present[1:]
        bias[present] = start
        trees += [constant_tree(np.zeros(1), int(o)) for o in outputs if o not in present]
        trees += [
            of_boosting(tree.nodes, float(len(boosted._predictors)), int(output), used)
            for one_round in boosted._predictors
            for output, tree in zip(present, one_round, strict=True)
        ]
    return forest_of(trees, bias, link)


def _can_split(dense: np.ndarray) -> np.ndarray:
    """The columns in which enough graphs for a leaf differ from the most frequent value.

    No tree can use other columns, but boosting would look at them in every leaf.
    """
    frequent = [np.unique(column, return_counts=True)[1].max() for column in dense.T]
    found = np.flatnonzero(len(dense) - np.array(frequent) >= FEWEST_IN_LEAF)
    return found if len(found) else np.arange(min(1, dense.shape[1]))
