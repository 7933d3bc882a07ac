"""Fitting forests with scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.classifier.simple.forest import Forest
from sagpool.classifier.simple.problem import Problem
from sagpool.randomness import bits, key_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TREES = 200


def fit_forest(matrix: np.ndarray | csr_array, problem: Problem, seed: int) -> Forest:
    """A random forest for each task, with the graphs for which it was measured."""
    import torch
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    tasks: list[int] = []
    width = problem.raw_outputs // problem.tasks
    parts: list[dict[str, np.ndarray]] = []
    for task, (rows, target) in enumerate(problem.measured()):
        common: dict[str, Any] = {
            "n_estimators": TREES,
            "random_state": int(bits(key_of("simple", "forest", seed, task), 1)[0] >> 33),
            "n_jobs": torch.get_num_threads(),
        }
        if len(np.unique(target)) < 2:
            parts.append(_leaf(problem, target, width))
            tasks.append(task)
            continue
        if problem.regression:
            forest = RandomForestRegressor(max_features=1 / 3, min_samples_leaf=1, **common)
            forest.fit(dense[rows], target)
            classes = np.zeros(1, int)
        else:
            forest = RandomForestClassifier(max_features="sqrt", **common)
            forest.fit(dense[rows], target, sample_weight=problem.weights(target))
            classes = forest.classes_
        for tree in forest.estimators_:
            parts.append(_flat(tree.tree_, problem, classes, width))
            tasks.append(task)
    sizes = np.array([len(part["column"]) for part in parts])
    roots = np.cumsum(sizes) - sizes
    flat = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    flat["right"] += np.where(flat["column"] >= 0, np.repeat(roots, sizes), 0).astype(np.int32)
    return Forest(
        **flat,
        roots=roots.astype(np.int64),
        task=np.array(tasks, np.int32),
        outputs=problem.raw_outputs,
    )


def _flat(tree: Any, problem: Problem, classes: np.ndarray, width: int) -> dict[str, np.ndarray]:
    """A tree of scikit-learn, whose nodes are in preorder."""
    leaf = tree.children_left < 0
    assert (tree.children_left[~leaf] == np.flatnonzero(~leaf) + 1).all(), "preorder"
    found = tree.value[:, 0, :]
    if not problem.regression:
        found = found / found.sum(1, keepdims=True)
    if problem.regression:
        value = found
    elif width == 1:
        value = found[:, [-1]]
    else:
        value = np.zeros((len(found), width))
        value[:, classes] = found
    return {
        "column": np.where(leaf, -1, tree.feature).astype(np.int32),
        "threshold": np.where(leaf, 0, rounded_down(tree.threshold)).astype(np.float32),
        "right": np.where(leaf, 0, tree.children_right).astype(np.int32),
        "value": value.astype(np.float32),
    }


def rounded_down(threshold: np.ndarray) -> np.ndarray:
    """The largest float32 that is not above: float32 columns then go the same ways."""
    nearest = threshold.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > threshold, below, nearest)


def _leaf(problem: Problem, target: np.ndarray, width: int) -> dict[str, np.ndarray]:
    """A tree that says the same for all graphs: there is nothing to tell apart."""
    value = np.full(width, 0.5 if not problem.regression else 0.0)
    if problem.regression and len(target):
        value[:] = target.mean()
    elif len(target):
        sure = 1 / (len(target) + 2)
        value[:] = sure if width > 1 or not target[0] else 1 - sure
        if width > 1:
            value[target[0]] = 1 - sure * (width - 1)
    return {
        "column": np.full(1, -1, np.int32),
        "threshold": np.zeros(1, np.float32),
        "right": np.zeros(1, np.int32),
        "value": value[None].astype(np.float32),
    }
