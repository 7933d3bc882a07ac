"""All pairs of methods on each data set, from published rows."""

import csv
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from published_rows import Key, paired

from sagpool.bench.claims import CellRows
from sagpool.statistics import SIGNIFICANT, holm


class DatasetPair(NamedTuple):
    """Two methods on a data set: the first minus the second, in points."""

    dataset: str
    first: str
    second: str
    difference: float
    low: float | None  # 95 % interval, if there is one
    high: float | None
    p: float
    holm_p: float  # after Holm's correction over all pairs of the data set
    splits: int

    @property
    def significant(self) -> bool:
        return self.holm_p < SIGNIFICANT


def dataset_pairs(cells: Mapping[Key, CellRows]) -> list[DatasetPair]:
    """All pairs of methods on the splits that both have, by data set."""
    datasets = dict.fromkeys(dataset for dataset, _ in cells)
    return [pair for dataset in datasets for pair in _pairs_on(dataset, cells)]


def _pairs_on(dataset: str, cells: Mapping[Key, CellRows]) -> Iterator[DatasetPair]:
    here = [(method, cell) for (name, method), cell in cells.items() if name == dataset]
    both = [
        (first, second, pair)
        for (first, one), (second, other) in itertools.combinations(here, 2)
        if (pair := paired(one, other))
    ]
    corrected = holm([pair.difference.p for *_, pair in both])
    for (first, second, pair), holm_p in zip(both, corrected, strict=True):
        mean, p = pair.difference.mean, pair.difference.p
        low, high = pair.difference.interval() or (None, None)
        yield DatasetPair(dataset, first, second, mean, low, high, p, holm_p, pair.splits)


def how_many_differ(pairs: Sequence[DatasetPair]) -> str:
    """A sentence; empty if there are no pairs."""
    counts = []
    for dataset, some in itertools.groupby(pairs, lambda pair: pair.dataset):
        significant = [pair.significant for pair in some]
        counts.append(f"{dataset} {sum(significant)} of {len(significant)}")
    return f"Pairs of methods that differ significantly: {', '.join(counts)}." if counts else ""


def write_pairs(pairs: Sequence[DatasetPair], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(DatasetPair._fields)
        for pair in pairs:
            writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in pair])
