"""Splits of data sets with groups, without classes, or with given folds."""

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.fleet.training import Training
from sagpool.graphs import NO_TEST, Graphs, Split, split
from sagpool.graphs.splits import folds_of_groups
from sagpool.ops import to_host
from sagpool.randomness import key_of

BINS = 10  # quantile bins of a regression's values; graphs are drawn in proportion from each


def drawn_split(graphs: Graphs, training: Training) -> Split:
    """The split of a training, drawn by its seed, or from the folds that the data set has.

    Graphs of a group stay together. Without groups, classes are drawn in proportion, and so are
    high and low values of a regression.
    """
    if training.split == "given":
        test = _given_test(graphs, training)
    elif graphs.group is not None and training.split == "stratified":
        test = _test_of_groups(graphs, training)
    else:
        return split(
            strata(graphs, training.folds),
            training.seed,
            training.fold,
            folds=training.folds,
            validation=training.validation,
            kind=training.split,
        )
    rest = np.flatnonzero(~test)
    validation = _validation_of(graphs, training, rest)
    return Split(np.setdiff1d(rest, validation), validation, np.flatnonzero(test))


def strata(graphs: Graphs, folds: int) -> np.ndarray:
    """``[graphs]`` integers; graphs with the same number are drawn in proportion."""
    if graphs.task == "classification":
        assert graphs.y is not None
        return to_host(graphs.y).numpy()
    assert graphs.targets is not None
    values = to_host(graphs.targets[:, 0]).numpy()
    bins = min(BINS, len(graphs) // max(folds, 1))
    if graphs.task == "multitask" or np.isnan(values).any() or bins < 2:
        return np.zeros(len(graphs), np.int64)
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return ranks * bins // len(graphs)


def _given_test(graphs: Graphs, training: Training) -> np.ndarray:
    if graphs.fold is None:
        raise SagpoolError(f"{graphs.name} has no folds of its own.")
    if training.fold == NO_TEST:
        return np.zeros(len(graphs), bool)
    test = to_host(graphs.fold).numpy() == training.fold
    if not test.any() or test.all():
        raise SagpoolError(f"Fold {training.fold} of {graphs.name} has no graph, or all of them.")
    return test


def _test_of_groups(graphs: Graphs, training: Training) -> np.ndarray:
    if training.fold == NO_TEST:
        return np.zeros(len(graphs), bool)
    if not 0 <= training.fold < training.folds:
        raise SagpoolError(f"Fold {training.fold} is not one of 0 to {training.folds - 1}.")
    assert graphs.group is not None
    return folds_of_groups(to_host(graphs.group), training.folds, training.seed) == training.fold


def _validation_of(graphs: Graphs, training: Training, rest: np.ndarray) -> np.ndarray:
    """The validation part of the graphs that are not for the test, in ascending order."""
    if not training.validation:
        return rest[:0]
    seed = int(key_of("validation", training.seed, training.fold).astype(np.int64)) >> 2
    if graphs.group is not None:
        group = to_host(graphs.group).numpy()[rest]
        folds = min(max(2, round(1 / training.validation)), len(np.unique(group)))
        return rest[folds_of_groups(group, folds, seed) == 0]
    chosen = split(
        strata(graphs, training.folds)[rest],
        seed,
        NO_TEST,
        validation=training.validation,
    )
    return rest[chosen.validation]
