"""Fitting linear models with scikit-learn; the penalty is chosen by an inner cross-validation."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sagpool.classifier.simple.linear import Linear
from sagpool.classifier.simple.link import Link, apply_link, inverse_link
from sagpool.classifier.simple.problem import Problem
from sagpool.randomness import key_of, permutation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)  # scikit-learn's C for rows whose mean square norm is 1
INNER_FOLDS = 3
# With this many held-out graphs, a single inner fold is enough to choose the penalty.
ENOUGH_HELD_OUT = 1000
ABSENT = -30.0  # logit of a class that no training graph has


class _Scaled(NamedTuple):
    """Columns as they are fitted: ``(x - shift) / scale``."""

    matrix: np.ndarray | csr_array
    shift: np.ndarray  # [columns]; 0 for sparse columns, which must stay sparse
    scale: np.ndarray  # [columns]


class _Fitted(NamedTuple):
    weight: np.ndarray  # [columns, outputs]
    bias: np.ndarray  # [outputs]


def fit_linear(
    matrix: np.ndarray | csr_array, problem: Problem, seed: int, link: Link, *, dense: int = 0
) -> Linear:
    """Logistic regression for classes (one per task of several), ridge for values.

    Args:
        matrix: ``[graphs, columns]``
        problem: the targets of the graphs
        seed: seed of the folds in which the penalty is chosen
        link: link of the task
        dense: number of leading dense columns of a sparse matrix
    """
    from threadpoolctl import threadpool_limits

    scaled = _scale(matrix, dense)
    # So that sums do not depend on the number of threads.
    with threadpool_limits(1), warnings.catch_warnings():
        # A fit that stops at the limit of steps is only slightly more regularised.
        warnings.simplefilter("ignore")
        strength = _strength(scaled.matrix, problem, link, seed)
        fitted = _fit(scaled.matrix, problem, link, strength)
    weight = fitted.weight / scaled.scale[:, None]
    mean = np.asarray(matrix.mean(axis=0), np.float32).reshape(-1)
    return Linear(weight.astype(np.float32), fitted.bias - scaled.shift @ weight, mean, link)


def _scale(matrix: np.ndarray | csr_array, dense: int) -> _Scaled:
    """Standardise dense columns, not sparse ones; rows of both get the mean square norm 1."""
    if isinstance(matrix, np.ndarray):
        return _standardised(matrix)
    from scipy.sparse import csr_array, hstack

    columns = matrix.shape[1] - dense
    sparse = matrix[:, dense:].astype(np.float64)
    norm = float(np.sqrt((sparse.data**2).sum() / max(matrix.shape[0], 1))) or 1.0
    rest = _Scaled(sparse / norm, np.zeros(columns), np.full(columns, norm))
    if not dense:
        return rest
    first = _standardised(matrix[:, :dense].toarray())
    return _Scaled(
        hstack([csr_array(first.matrix), rest.matrix], format="csr"),
        np.concatenate([first.shift, rest.shift]),
        np.concatenate([first.scale, rest.scale]),
    )


def _standardised(matrix: np.ndarray) -> _Scaled:
    """Standardised columns; constant columns become 0."""
    values = matrix.astype(np.float64)
    shift, spread = values.mean(0), values.std(0)
    varies = spread > 1e-9 * np.maximum(np.abs(shift), 1e-9)
    scale = np.where(varies, spread, np.inf) * np.sqrt(max(varies.sum(), 1))
    return _Scaled((values - shift) / scale, shift, scale)


def _strength(matrix: np.ndarray | csr_array, problem: Problem, link: Link, seed: int) -> float:
    """The best strength; strengths are tried until the loss rises, because it has one minimum."""
    best, lowest = STRENGTHS[0], np.inf
    for strength in STRENGTHS:
        loss = _loss(matrix, problem, link, strength, seed)
        if loss > lowest:
            break
        best, lowest = strength, loss
    return best


def _loss(
    matrix: np.ndarray | csr_array, problem: Problem, link: Link, strength: float, seed: int
) -> float:
    """Mean over tasks of the log loss or the squared error of held-out training graphs."""
    rows = matrix.shape[0]
    fold = permutation(key_of("simple", "inner folds", seed), rows) % INNER_FOLDS
    losses = np.zeros(problem.tasks)
    for held_out in range(1 if rows >= INNER_FOLDS * ENOUGH_HELD_OUT else INNER_FOLDS):
        train, test = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
        fitted = _fit(matrix[train], problem.part(train), link, strength)
        predicted = apply_link(np.asarray(matrix[test] @ fitted.weight) + fitted.bias, link)
        losses += problem.part(test).losses(predicted)
    return float(losses.sum())


def _fit(matrix: np.ndarray | csr_array, problem: Problem, link: Link, strength: float) -> _Fitted:
    from sklearn.linear_model import LogisticRegression, Ridge

    weight = np.zeros((matrix.shape[1], problem.raw_outputs))
    bias = np.zeros(problem.raw_outputs)
    for task, (rows, target) in enumerate(problem.measured()):
        if problem.regression:
            if len(rows):
                spread = target.std() or 1.0
                ridge = Ridge(alpha=1 / strength, solver="lsqr", tol=1e-6)
                ridge.fit(matrix[rows], (target - target.mean()) / spread)
                weight[:, task] = ridge.coef_ * spread
                bias[task] = ridge.intercept_ * spread + target.mean()
            continue
        classes = np.unique(target)
        if len(classes) < 2:
            outputs = slice(task, task + 1) if problem.raw_outputs == problem.tasks else slice(None)
            bias[outputs] = inverse_link(problem.prior(task), link)
            continue
        logistic = LogisticRegression(C=strength, max_iter=300)
        logistic.fit(matrix[rows], target, sample_weight=problem.weights(target))
        if problem.raw_outputs == problem.tasks:
            weight[:, task], bias[task] = logistic.coef_[0], logistic.intercept_[0]
        elif len(classes) == 2:
            bias[:] = ABSENT
            weight[:, classes] = np.stack([-logistic.coef_[0], logistic.coef_[0]], 1) / 2
            bias[classes] = np.array([-0.5, 0.5]) * logistic.intercept_[0]
        else:
            bias[:] = ABSENT
            weight[:, classes], bias[classes] = logistic.coef_.T, logistic.intercept_
    return _Fitted(weight, bias)
