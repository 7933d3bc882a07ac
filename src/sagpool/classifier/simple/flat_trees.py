"""Trees of scikit-learn as the arrays of a `Forest`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sagpool.classifier.simple.forest import Forest
from sagpool.classifier.simple.link import Link


class FlatTree(NamedTuple):
    """One tree in preorder; children are numbered inside the tree."""

    column: np.ndarray  # [nodes]; -1 is a leaf
    threshold: np.ndarray  # [nodes]
    right: np.ndarray  # [nodes]
    value: np.ndarray  # [nodes, width]
    output: int  # the first of the outputs that it predicts


def forest_of(trees: list[FlatTree], bias: np.ndarray, link: Link) -> Forest:
    """All trees as one `Forest`."""
    sizes = np.array([len(tree.column) for tree in trees])
    roots = np.cumsum(sizes) - sizes
    rights = [tree.right + root for tree, root in zip(trees, roots, strict=True)]
    column = np.concatenate([tree.column for tree in trees]).astype(np.int32)
    inner = column >= 0
    threshold = np.concatenate([tree.threshold for tree in trees])
    return Forest(
        column,
        np.where(inner, rounded_down(threshold), 0).astype(np.float32),
        np.where(inner, np.concatenate(rights), 0).astype(np.int32),
        np.concatenate([tree.value for tree in trees]).astype(np.float32),
        roots.astype(np.int64),
        np.array([tree.output for tree in trees], np.int32),
        bias,
        link,
    )


def constant_tree(value: np.ndarray, output: int) -> FlatTree:
    """A tree of a single leaf."""
    return FlatTree(np.full(1, -1), np.zeros(1), np.zeros(1, np.int64), value[None], output)


def of_forest(tree: Any, value: np.ndarray, output: int) -> FlatTree:
    """A tree of a forest, with values ``[nodes, width]``."""
    leaf = tree.children_left < 0
    assert (tree.children_left[~leaf] == np.flatnonzero(~leaf) + 1).all(), "preorder"
    column = np.where(leaf, -1, tree.feature)
    return FlatTree(column, tree.threshold, tree.children_right, value, output)


def of_boosting(nodes: np.ndarray, times: float, output: int, columns: np.ndarray) -> FlatTree:
    """A tree of gradient boosting on some of the columns, with its values multiplied.

    Inner nodes get the mean of their leaves, which scikit-learn does not keep.
    """
    leaf = nodes["is_leaf"].astype(bool)
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    assert (left[~leaf] == np.flatnonzero(~leaf) + 1).all(), "preorder"
    value, count = nodes["value"] * times, nodes["count"].astype(np.float64)
    for node in np.flatnonzero(~leaf)[::-1].tolist():  # children come after their parents
        pair = [left[node], right[node]]
        value[node] = (value[pair] @ count[pair]) / count[pair].sum()
    column = np.where(leaf, -1, columns[nodes["feature_idx"]])
    return FlatTree(column, nodes["num_threshold"], right, value[:, None], output)


def rounded_down(threshold: np.ndarray) -> np.ndarray:
    """The largest float32 not above the threshold: float32 columns then take the same branches."""
    nearest = threshold.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > threshold, below, nearest)
