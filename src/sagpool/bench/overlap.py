"""Trainings that several run stores have: how their rows differ, and which of them are kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sagpool.bench.database import RUN_COLUMNS
from sagpool.bench.store import Store
from sagpool.foreign.values import shorten

Row = Mapping[str, Any]

# Columns in which equal trainings may differ: who made them, when, and how fast.
_INCIDENTAL = {"invocation", "finished", "seconds", "traces"}
_CELL = ("name", "fingerprint", "method", "settings", "precision", "numerics")
_IDENTITY = (*_CELL, "seed", "fold", "parameters")
_ACCURACIES = ("test_accuracy", "validation_accuracy", "train_accuracy")
_LOSSES = ("test_loss", "validation_loss", "train_loss")
# In the order in which a difference is named.
_RESULTS = ("test_accuracy", *_LOSSES, *_ACCURACIES[1:], "best_epoch", "epochs")
_DECISIVE = tuple(
    dict.fromkeys((*_IDENTITY, *_RESULTS, *(c for c in RUN_COLUMNS if c not in _INCIDENTAL)))
)
_MOST_DIGITS = 17  # tell any two doubles apart


def difference(ours: Row, theirs: Row) -> str:
    """The first difference between two runs of a training, in words; empty if there is none."""
    name = next((name for name in _DECISIVE if ours[name] != theirs[name]), "")
    if not name:
        return ""
    values = " and ".join(_tell_apart(ours[name], theirs[name]))
    return f"{name.replace('_', ' ')} {values}".rstrip()


def differs_in_results(ours: Row, theirs: Row) -> bool:
    """Whether both runs have the same data and settings, and scores that can be subtracted."""
    kinds = [{type(ours[name]), type(theirs[name])} for name in (*_ACCURACIES, *_LOSSES)]
    same = all(ours[name] == theirs[name] for name in _IDENTITY)
    return same and all(kind in ({float}, {type(None)}) for kind in kinds)


def _tell_apart(one: Any, other: Any) -> list[str]:
    """Both values, with as many digits as tell them apart; nothing for long content."""
    if isinstance(one, bytes) or isinstance(other, bytes):
        return []
    pair = [one, other]
    if all(isinstance(value, float) for value in pair):
        for digits in range(4, _MOST_DIGITS + 1):
            texts = [f"{value:.{digits}g}" for value in pair]
            if texts[0] != texts[1]:
                return texts
    return ["undefined" if value is None else shorten(value) for value in pair]


@dataclass
class LeftOut:
    """Rows and choices of settings that were left out because another store has other ones."""

    count: int = 0
    accuracy: float = 0.0  # the largest difference from the row that was kept
    loss: float = 0.0

    def add_run(self, ours: Row, theirs: Row) -> None:
        self._add(_gap(ours, theirs, _ACCURACIES), _gap(ours, theirs, _LOSSES))

    def add_curve(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        """``[3, epochs]`` train loss, validation loss and accuracy of a paused training."""
        gaps = np.nan_to_num(np.abs(ours.astype(np.float64) - theirs))
        self._add(float(gaps[2].max(initial=0)), float(gaps[:2].max(initial=0)))

    def _add(self, accuracy: float, loss: float) -> None:
        self.count += 1
        self.accuracy, self.loss = max(self.accuracy, accuracy), max(self.loss, loss)


def _gap(ours: Row, theirs: Row, names: Sequence[str]) -> float:
    known = [name for name in names if ours[name] is not None]
    return max((abs(ours[name] - theirs[name]) for name in known), default=0.0)


class Overlap:
    """What the stores of a merge have in common, and what becomes of it.

    Args:
        paths: the stores, in their order
        prefer_first: whether to keep one of several different results, instead of refusing them
    """

    def __init__(self, paths: Sequence[Path], prefer_first: bool) -> None:
        self.prefer_first, self.left_out = prefer_first, LeftOut()
        self.first = paths[0]
        self._whole = _whole_cells(paths) if prefer_first else {}
        self._owners: dict[tuple[str, ...], Path] = {}

    def take(self, store: Path, *row: str) -> None:
        """Note that a row, named by its table and key, comes from this store."""
        self._owners[row] = store

    def owner(self, *row: str) -> Path:
        """The store that a row of the target comes from."""
        return self._owners.get(row, self.first)

    def belongs_to(self, store: Path, key: str) -> bool:
        """Whether the run is to come from this store, even if another one is before it."""
        return self._whole.get(key) == store


def _whole_cells(paths: Sequence[Path]) -> dict[str, Path]:
    """The store from which to take each training, by key, so that cells stay in one piece.

    It is the first store that has all trainings of a cell that any store has. Trainings of cells
    that no store has whole are left out.
    """
    cells = defaultdict[tuple[Any, ...], list[set[str]]](lambda: [set() for _ in paths])
    for number, path in enumerate(paths):
        with Store.reading(path) as store:
            for key, *cell in store._read(f"SELECT key, {', '.join(_CELL)} FROM runs"):
                cells[tuple(cell)][number].add(key)
    kept: dict[str, Path] = {}
    for keys in cells.values():
        every = set[str]().union(*keys)
        whole = [path for path, of_store in zip(paths, keys, strict=True) if of_store == every]
        if whole:
            kept |= dict.fromkeys(every, whole[0])
    return kept
