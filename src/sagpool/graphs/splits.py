"""Cross-validation splits that depend on (seed, fold) alone, and splits that come with the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.randomness import key_of, permutation

NO_TEST = -1  # used in place of a fold: all graphs are for training and validation
DRAWN_SPLITS = ("stratified", "contiguous")
SPLITS = (*DRAWN_SPLITS, "fixed")
TRAIN, VALIDATION, TEST = "train", "validation", "test"


@dataclass(frozen=True, eq=False)
class Split:
    """Ascending graph numbers; every graph is in exactly one part."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    more_tests: Mapping[str, np.ndarray] = field(default_factory=dict)  # further tests, by name


def split(
    y: Tensor | np.ndarray,
    seed: int,
    fold: int,
    *,
    folds: int = 10,
    validation: float = 0.1,
    kind: str = "stratified",
) -> Split:
    """One fold of a cross-validation; part of its training graphs is for validation.

    The paper's protocol: 10 folds, and 10 % of the training part for validation, so that 81 %,
    9 % and 10 % of the graphs are for training, validation and test. (The paper does not say
    whether the splits are stratified; we stratify, since the test parts are small.)

    A contiguous split follows the authors' first released code: for each seed the graphs are
    shuffled once and cut into slices. Each slice is the test part of one fold; the validation part
    is the beginning of the other slices. So all folds but the first have about the same validation
    part.

    Args:
        y: ``[graphs]`` class of each graph
        seed: seed of the shuffle that assigns graphs to folds
        fold: 0 to ``folds - 1``; or `NO_TEST`, for a split without a test part
        folds: at least 2; if stratified, at most the number of graphs of the smallest class
        validation: fraction of the training part, in [0, 1)
        kind: ``stratified`` or ``contiguous``
    """
    y = np.asarray(y)
    if not len(y):
        raise SagpoolError("There is no graph to split.")
    if kind not in DRAWN_SPLITS:
        raise SagpoolError(f"A split must be one of {', '.join(DRAWN_SPLITS)}, not '{kind}'.")
    if fold != NO_TEST and not 0 <= fold < folds:
        raise SagpoolError(f"Fold {fold} is not one of the folds 0 to {folds - 1}.")
    if not 0 <= validation < 1:
        raise SagpoolError(f"The validation fraction must be in [0, 1), not {validation}.")
    if kind == "contiguous":
        return _contiguous_split(len(y), seed, fold, folds, validation)
    return _stratified_split(y, seed, fold, folds, validation)


def fixed_split(part: np.ndarray, names: Sequence[str]) -> Split:
    """The split that comes with a data set.

    Args:
        part: ``[graphs]`` int64, the index of each graph's part in ``names``
        names: ``train``, ``validation``, and the names of the test sets; the first test set is
            *the* test set
    """
    missing = [name for name in (TRAIN, VALIDATION) if name not in names]
    tests = [name for name in names if name not in (TRAIN, VALIDATION)]
    if missing or not tests:
        lacking = " and ".join([*missing, *([] if tests else [TEST])])
        raise SagpoolError(
            f"A fixed split needs the parts train, validation and a test; {lacking} is missing."
        )
    graphs = {name: np.flatnonzero(part == number) for number, name in enumerate(names)}
    first, *others = tests
    return Split(
        graphs[TRAIN],
        graphs[VALIDATION],
        graphs[first],
        {name: graphs[name] for name in others},
    )


def _stratified_split(y: np.ndarray, seed: int, fold: int, folds: int, validation: float) -> Split:
    test = np.zeros(len(y), bool)
    if fold != NO_TEST:
        test = stratified_folds(y, seed, folds) == fold
    rest = np.flatnonzero(~test)
    held_out = round(validation * len(rest))
    order = rest[_by_class(y[rest], "validation", seed, fold)]
    # Evenly spaced over the graphs sorted by class, so every class is held out in proportion.
    steps = np.arange(len(order) + 1) * held_out // len(order)
    chosen = np.diff(steps) > 0
    return Split(
        train=np.sort(order[~chosen]), validation=np.sort(order[chosen]), test=np.flatnonzero(test)
    )


def _contiguous_split(graphs: int, seed: int, fold: int, folds: int, validation: float) -> Split:
    length = -(-graphs // folds)  # length of a slice; the last may be shorter
    if length * (folds - 1) >= graphs:
        raise SagpoolError(f"{graphs} graphs are too few for {folds} slices of equal length.")
    shuffled = permutation(key_of("slices", seed), graphs)
    test = slice(0, 0) if fold == NO_TEST else slice(fold * length, (fold + 1) * length)
    rest = np.delete(shuffled, test)
    held_out = round(validation * len(rest))
    return Split(
        train=np.sort(rest[held_out:]),
        validation=np.sort(rest[:held_out]),
        test=np.sort(shuffled[test]),
    )


def stratified_folds(y: Tensor | np.ndarray, seed: int, folds: int = 10) -> np.ndarray:
    """``[graphs]``, the fold in whose test part each graph is.

    Fold sizes differ by at most one, overall and within each class.
    """
    y = np.asarray(y)
    if folds < 2:
        raise SagpoolError(f"Cross-validation needs at least 2 folds, not {folds}.")
    classes, counts = np.unique(y, return_counts=True)
    if len(counts) and counts.min() < folds:
        rarest = int(counts.argmin())
        raise SagpoolError(
            f"Class {classes[rarest]} has {counts[rarest]} graphs, too few for {folds} folds."
        )
    # Folds are assigned in turn, class after class. (scikit-learn's shuffle may change between
    # versions.)
    fold = np.empty(len(y), np.int64)
    fold[_by_class(y, "folds", seed)] = np.arange(len(y)) % folds
    return fold


def folds_of_groups(group: Tensor | np.ndarray, folds: int, seed: int) -> np.ndarray:
    """``[graphs]``, the fold in whose test part each graph is; a group is never split up.

    The largest groups are assigned first, each to the smallest fold so far. The seed decides the
    order of groups of the same size.

    Args:
        group: ``[graphs]`` group of each graph, such as the scaffold of a molecule
        folds: at least 2, at most the number of groups
        seed: seed of the shuffle
    """
    if folds < 2:
        raise SagpoolError(f"Cross-validation needs at least 2 folds, not {folds}.")
    _, number, sizes = np.unique(np.asarray(group), return_inverse=True, return_counts=True)
    if len(sizes) < folds:
        raise SagpoolError(f"There are {len(sizes)} groups of graphs, too few for {folds} folds.")
    shuffled = permutation(key_of("groups", seed), len(sizes))
    filled = np.zeros(folds, np.int64)
    fold_of = np.empty(len(sizes), np.int64)
    for one in shuffled[np.argsort(-sizes[shuffled], kind="stable")].tolist():
        fold_of[one] = smallest = int(filled.argmin())
        filled[smallest] += sizes[one]
    return fold_of[number.reshape(-1)]


def time_split(
    time: Sequence[object] | np.ndarray, *, validation: float = 0.1, test: float = 0.1
) -> Split:
    """The latest graphs for the test, the graphs before them for validation, the rest for training.

    Args:
        time: ``[graphs]`` values that can be sorted; graphs of the same time stay in their order
        validation: fraction of all graphs
        test: fraction of all graphs
    """
    if not (0 <= validation < 1 and 0 <= test < 1 and validation + test < 1):
        raise SagpoolError(
            f"The fractions {validation} for validation and {test} for the test leave no graphs "
            "for training."
        )
    order = np.argsort(np.asarray(time), kind="stable")
    last = len(order) - round(test * len(order))
    first = last - round(validation * len(order))
    return Split(np.sort(order[:first]), np.sort(order[first:last]), np.sort(order[last:]))


def latest(time: Tensor | np.ndarray, fraction: float) -> np.ndarray:
    """``[graphs]`` bool: the graphs with the latest times, as near to this fraction as possible.

    Graphs of the same time stay together. At least one graph is selected, and one is not.
    """
    time = np.asarray(time)
    starts = np.unique(time)[1:]
    if not len(starts):
        raise SagpoolError("All graphs have the same time.")
    counts = np.array([np.count_nonzero(time >= start) for start in starts])
    return time >= starts[np.abs(counts - fraction * len(time)).argmin()]


def _by_class(y: np.ndarray, *key: int | str) -> np.ndarray:
    """Positions sorted by class, in random order inside each class."""
    shuffled = permutation(key_of(*key), len(y))
    return shuffled[np.argsort(y[shuffled], kind="stable")]
