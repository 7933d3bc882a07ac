"""Cells with unusual settings or features, each with the usual one beside it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from published_rows import Key, Pair, PublishedGroup

from sagpool.bench.claims import CellRows
from sagpool.statistics import paired_difference


class Changed(NamedTuple):
    """A cell, and the one that it is compared with."""

    key: Key
    usual: Key
    what: str
    pair: Pair


def changed_cells(group: PublishedGroup) -> list[Changed]:
    """The cells with unusual settings or features that have a usual one beside them."""
    return [one for key in group.cells if (one := _changed(group, key)) is not None]


def _changed(group: PublishedGroup, key: Key) -> Changed | None:
    """The comparison of a cell with unusual settings or features; None for other cells."""
    dataset, method = key
    plain_dataset, features = dataset.removesuffix(")").partition(" (")[::2]
    plain_method, settings = method.partition(", ")[::2]
    usual = (plain_dataset, plain_method)
    if usual == key or usual not in group.cells:
        return None
    pair = _paired(group.cells[key], group.cells[usual])
    return None if pair is None else Changed(key, usual, settings or features, pair)


def _paired(first: CellRows, second: CellRows) -> Pair | None:
    """As `paired`, also for other features of the same graphs.

    Splits depend on the classes, the seed and the fold. The fingerprints of the data differ.
    """
    if first.splits[2:] != second.splits[2:]:
        return None
    common = sorted(first.learnt.keys() & second.learnt.keys())
    if len(common) < 2:
        return None
    values = (np.array([cell.learnt[split] for split in common]) for cell in (first, second))
    return Pair(paired_difference(*values, first.folds), len(common))


def before_and_after(group: PublishedGroup, one: Changed) -> list[str]:
    """Training and test accuracy of the usual cell and the changed one, on the same splits."""
    common = group.cells[one.key].learnt.keys() & group.cells[one.usual].learnt.keys()
    rows = {
        key: [row for row in group.rows[key] if (int(row["seed"]), int(row["fold"])) in common]
        for key in (one.usual, one.key)
    }
    return [
        " → ".join(f"{_mean(some, column):.2f}" for some in rows.values())
        for column in ("train_accuracy", "test_accuracy")
    ]


def _mean(rows: Sequence[Mapping[str, str]], column: str) -> float:
    """In percent."""
    return 100 * float(np.mean([float(row[column]) for row in rows]))
