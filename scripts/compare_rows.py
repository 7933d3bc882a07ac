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

from published_rows import Pair, PublishedGroup, paired, read_published

from sagpool import SagpoolError
from sagpool.bench.claims import p_text
from sagpool.bench.claims.phrases import interval
from sagpool.bench.experiment_file import load_experiment
from sagpool.statistics import holm


class Compared(NamedTuple):
    dataset: str
    method: str
    pair: Pair


def compare(group: PublishedGroup, method: str, other: str) -> list[Compared]:
    """The differences on all data sets on which both methods have rows."""
    found = []
    for (dataset, name), first in group.cells.items():
        second = group.cells.get((dataset, other))
        if name != method or second is None:
            continue
        pair = paired(first, second)
        if pair is None:
            raise SagpoolError(f"{method} and {other} have no two splits of {dataset} in common.")
        found.append(Compared(dataset, method, pair))
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
    corrected = holm([one.pair.difference.p for one in compared])
    for one, p in zip(compared, corrected, strict=True):
        words = f"{one.dataset}: {one.method} − {options.against} {interval(one.pair.difference)}"
        print(f"{words}, p {p_text(p)}, {one.pair.splits} splits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
