"""Nested selection: the settings of every seed and fold are chosen by its own validation part."""

import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sagpool.bench.plan import settings_of
from sagpool.bench.records import Ranked, Validation
from sagpool.bench.rounds import Round, epoch_or_end, rank
from sagpool.bench.search import FEWEST_EPOCHS, Search
from sagpool.bench.selection import SELECTED
from sagpool.fleet import Training
from sagpool.models import method_settings


class Selected(NamedTuple):
    """The result of a nested selection."""

    chosen: list[Training]  # one for each seed and fold
    # By the mean over all seeds and folds, if every candidate was trained to the end: the choice
    # that a selection over folds would have made from the same trainings.
    ranking: list[Ranked]


def choose_per_fold(
    search: Search, candidates: Sequence[Training], seeds: int
) -> Generator[Round, Sequence[Validation], Selected]:
    """Search separately for every seed and fold, all in the same rounds.

    With halving, the better half of each fold's candidates continues for twice the epochs.
    """
    left = {
        (seed, fold): [replace(one, seed=seed, fold=fold) for one in candidates]
        for seed in range(seeds)
        for fold in range(candidates[0].folds)
    }
    for until in _epochs(search, candidates):
        asked = Round(tuple(one for some in left.values() for one in some), until)
        seen = dict(zip(asked.trainings, (yield asked), strict=True))
        for split, some in left.items():
            kept = 1 if until is None else math.ceil(len(some) / 2)
            ranked = rank(some, [seen[one] for one in some])
            left[split] = [training for training, _ in ranked[:kept]]
    ranking = list[Ranked]()
    if len(seen) == len(candidates) * len(left):
        by_candidate = [
            seen[replace(one, seed=seed, fold=fold)] for one in candidates for seed, fold in left
        ]
        ranking = [entry for _, entry in rank(candidates, by_candidate)]
    return Selected([chosen for (chosen,) in left.values()], ranking)


def _epochs(search: Search, candidates: Sequence[Training]) -> list[int | None]:
    """The epochs at which candidates are compared; None for the end."""
    if search is not Search.HALVING:
        return [None]
    most = max(candidate.max_epochs for candidate in candidates)
    early = range(math.ceil(math.log2(len(candidates))) - 1)
    return [*(epoch_or_end(FEWEST_EPOCHS * 2**step, most) for step in early), None]


def settings_of_all(search: str, candidates: Sequence[Training]) -> dict[str, Any]:
    """The settings of a cell that was selected per fold: a list of values where folds differ.

    They include the kind of selection, so that the cell differs from one with fixed settings.

    Args:
        search: with its criterion, as in the record of the cell: ``grid by roc auc``
        candidates: of the search
    """
    defaults = method_settings(candidates[0].method)
    every = [settings_of(candidate) for candidate in candidates]
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in every for name in one):
        values: set[Any] = {one.get(name, defaults.get(name)) for one in every}
        merged[name] = sorted(values) if len(values) > 1 else values.pop()
    return merged | {SELECTED: f"per fold, by {search}"}
