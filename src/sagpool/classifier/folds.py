"""The folds of a cross-validation, for any task, with or without groups."""

from __future__ import annotations

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs
from sagpool.graphs.splits import folds_of_groups, stratified_folds
from sagpool.randomness import key_of, permutation

LEAST_GRAPHS = 6
BINS = 10  # quantile bins of a regression's values
# Up to this many nodes, this many folds: larger data sets take longer and need fewer folds.
FOLDS = ((8_000, 10), (600_000, 5))
FEWEST = 3


def folds_for(graphs: Graphs, folds: int | None) -> int:
    """The requested number of folds, or one by the size of the data; an error if not possible.

    At most half the number of graphs, and at most the number of groups.
    """
    check_targets(graphs)
    if folds is None:
        folds = next((count for nodes, count in FOLDS if graphs.num_nodes <= nodes), FEWEST)
    groups = len(graphs) if graphs.group is None else len(np.unique(graphs.group.cpu().numpy()))
    if groups < 2:
        raise SagpoolError(f"All graphs of {graphs.name} are in one group; 2 are needed.")
    return max(2, min(folds, len(graphs) // 2, groups))


def check_targets(graphs: Graphs) -> None:
    """Raise an error that says what is missing, if nothing can be learnt from these graphs."""
    if len(graphs) < LEAST_GRAPHS:
        raise SagpoolError(
            f"{graphs.name} has {len(graphs)} graphs; at least {LEAST_GRAPHS} are needed."
        )
    if graphs.task != "classification":
        _check_values(graphs)
        return
    if graphs.y is None or graphs.num_classes < 1:
        raise SagpoolError(f"{graphs.name} has no classes; a classifier needs at least two.")
    counts = np.bincount(graphs.y.cpu().numpy(), minlength=graphs.num_classes)
    if np.count_nonzero(counts) < 2:
        name = graphs.class_names[int(counts.argmax())]
        raise SagpoolError(
            f"All graphs of {graphs.name} have the class '{name}'; a classifier needs at least two."
        )
    if (counts == 1).any():
        name = graphs.class_names[int((counts == 1).argmax())]
        raise SagpoolError(
            f"{graphs.name} has a class with a single graph, '{name}'; each class needs at least "
            f"2.{_numbers_hint(graphs.class_names)}"
        )


def _numbers_hint(class_names: tuple[str, ...]) -> str:
    """Advice if the classes look like measured numbers."""
    try:
        fractions = any(float(name) % 1 for name in class_names)
    except ValueError:
        return ""
    return " To predict numbers, choose the task regression (--task regression)." * fractions


def _check_values(graphs: Graphs) -> None:
    if graphs.targets is None:
        raise SagpoolError(f"{graphs.name} has no targets for its task, {graphs.task}.")
    targets = graphs.targets.cpu().numpy()
    for column, name in enumerate(graphs.target_names):
        values = targets[:, column][~np.isnan(targets[:, column])]
        if len(values) < LEAST_GRAPHS:
            raise SagpoolError(
                f"'{name}' was measured for {len(values)} graphs of {graphs.name}; at least "
                f"{LEAST_GRAPHS} are needed."
            )
        if len(np.unique(values)) < 2:
            raise SagpoolError(f"'{name}' is {values[0]:g} for all graphs of {graphs.name}.")


def fold_of_each(graphs: Graphs, folds: int, seed: int) -> np.ndarray:
    """``[graphs]`` the fold in which each graph is held out.

    Graphs of a group stay together. Without groups, classes are spread evenly, and so are high and
    low values of a regression. A class may have fewer graphs than there are folds.
    """
    if graphs.group is not None:
        return folds_of_groups(graphs.group.cpu(), folds, seed)
    strata = _strata(graphs, folds)
    counts = np.unique(strata, return_counts=True)[1]
    if counts.min() >= folds:
        return stratified_folds(strata, seed, folds)
    shuffled = permutation(key_of("folds", seed), len(strata))
    fold = np.empty(len(strata), np.int64)
    fold[shuffled[np.argsort(strata[shuffled], kind="stable")]] = np.arange(len(strata)) % folds
    return fold


def _strata(graphs: Graphs, folds: int) -> np.ndarray:
    if graphs.task == "classification":
        assert graphs.y is not None
        return graphs.y.cpu().numpy()
    assert graphs.targets is not None
    values = graphs.targets[:, 0].cpu().numpy()
    bins = min(BINS, len(values) // folds)
    if graphs.task == "multitask" or bins < 2:
        return np.where(np.isnan(values), -1, values > 0.5).astype(np.int64)
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return np.asarray(ranks * bins // len(values))
