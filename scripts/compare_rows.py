"""Compare methods whose published rows lie in different folders, on the splits they share.

python scripts/compare_rows.py results/a results/b --against sagpool-h --method sagpool-h-masks4

Prints, for each data set, the difference of the mean test accuracies in points with its 95 %
interval, and p by the corrected resampled t-test (Nadeau and Bengio), with Holm's correction over
all comparisons printed.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from published_rows import PublishedGroup, read_published

from sagpool import SagpoolError
from sagpool.bench.claims import p_text
from sagpool.bench.claims.phrases import interval
from sagpool.bench.experiment_file import load_experiment
from sagpool.statistics import Difference, holm, paired_difference


class Compared(NamedTuple):
    dataset: str
    method: str
    difference: Difference
    splits: int


def compare(group: PublishedGroup, method: str, other: str) -> list[Compared]:
    """The differences on all data sets on which both methods have rows."""
    found = []
    for (dataset, name), first in group.cells.items():
        second = group.cells.get((dataset, other))
        if name != method or second is None:
            continue
        if first.splits != second.splits:
            raise SagpoolError(f"{method} and {other} have different splits of {dataset}.")
        common = sorted(first.learnt.keys() & second.learnt.keys())
        if len(common) < 2:
            raise SagpoolError(f"{method} and {other} have no two splits of {dataset} in common.")
        accuracies = (np.array([cell.learnt[key] for key in common]) for cell in (first, second))
        difference = paired_difference(*accuracies, first.folds)
        found.append(Compared(dataset, method, difference, len(common)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--against", required=True, help="with its unusual settings, as in tables")
    parser.add_argument("--method", nargs="+", required=True)
    options = parser.parse_args()
    try:
        published = read_published(options.folders, load_experiment("lee2019"))
        compared = [
            one
            for group in published.groups
            for method in options.method
            for one in compare(group, method, options.against)
        ]
        if not compared:
            raise SagpoolError(f"No data set has rows of {options.against} and of one of these.")
    except SagpoolError as error:
        print(error, file=sys.stderr)
        return 1
    corrected = holm([one.difference.p for one in compared])
    for one, p in zip(compared, corrected, strict=True):
        words = f"{one.dataset}: {one.method} − {options.against} {interval(one.difference)}"
        print(f"{words}, p {p_text(p)}, {one.splits} splits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
