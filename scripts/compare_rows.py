"""Compare methods whose published rows lie in different folders, on the splits they share.

python scripts/compare_rows.py results/a results/b --against sagpool-h --method sagpool-h-masks4

A method is compared with the rows of the other one in its own folder; if there are none, with those
of the first folder that has them. Prints, for each data set, the difference of the mean test
accuracies in points with its 95 % interval, and p by the corrected resampled t-test (Nadeau and
Bengio), with Holm's correction over all comparisons printed.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
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


def compare(
    group: PublishedGroup, groups: Sequence[PublishedGroup], method: str, other: str
) -> list[Compared]:
    """The differences on all data sets on which both methods have rows.

    Args:
        group: has the rows of the method
        groups: may have those of the other one, if the group has none
        method: its name, with unusual settings
        other: likewise
    """
    found = []
    for (dataset, name), first in group.cells.items():
        among = (one.cells.get((dataset, other)) for one in (group, *groups))
        second = next((cell for cell in among if cell is not None), None)
        if name != method or second is None:
            continue
        pair = paired(first, second)
        if pair is None:
            raise SagpoolError(f"{method} and {other} have no two splits of {dataset} in common.")
        found.append(Compared(dataset, method, pair))
    return found


def _alike(group: PublishedGroup, groups: Iterable[PublishedGroup]) -> list[PublishedGroup]:
    """The groups with the same protocol, whose settings were chosen in the same way."""
    kind = (group.chosen, group.differences)
    return [one for one in groups if (one.chosen, one.differences) == kind]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--against", required=True, help="with its unusual settings, as in tables")
    parser.add_argument("--method", nargs="+", required=True)
    options = parser.parse_args()
    try:
        experiment = load_experiment("lee2019")
        groups = [
            group
            for folder in options.folders
            for group in read_published([folder], experiment).groups
        ]
        compared = [
            one
            for method in options.method
            for group in groups
            for one in compare(group, _alike(group, groups), method, options.against)
        ]
        twice = Counter((one.dataset, one.method) for one in compared)
        for (dataset, method), count in twice.items():
            if count > 1:
                raise SagpoolError(f"{count} tables have rows of {method} on {dataset}.")
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
