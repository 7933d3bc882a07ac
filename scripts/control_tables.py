"""The accuracies of many methods, and what each gains over controls, from published rows.

python scripts/control_tables.py results/poolers [--control random-h nopool-h gin-g mlp-g]

Prints Markdown. Against each control there is the mean difference over the data sets that both
have, with p after Holm's correction over all methods, and the data sets on which a method is better
or worse, corrected over methods and data sets. Intervals and p are those of the corrected resampled
t-test (Nadeau and Bengio). Every group of protocol and way of choosing settings has its own tables.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from published_rows import PublishedGroup, paired, read_published

from sagpool import SagpoolError
from sagpool.bench.claims import p_text
from sagpool.bench.claims.phrases import interval, signed
from sagpool.bench.experiment_file import load_experiment
from sagpool.report import names
from sagpool.statistics import SIGNIFICANT, Difference, holm, mean_difference

CONTROLS = ("random-h", "nopool-h", "gin-g", "mlp-g")


class Gain(NamedTuple):
    """Of a method over a control."""

    method: str
    datasets: dict[str, Difference]
    clear: list[str]  # data sets with a significant difference, in words

    @property
    def mean(self) -> Difference:
        return mean_difference(list(self.datasets.values()))


def accuracies(group: PublishedGroup) -> str:
    """A row for each method; the best of each data set is bold."""
    datasets = list(dict.fromkeys(dataset for dataset, _ in group.cells))
    found = {key: group.spread(key) for key in group.cells}
    best = {
        name: max(s.mean for (data, _), s in found.items() if data == name) for name in datasets
    }
    lines = [_row(["method", *datasets]), _row(["---", *["---:"] * len(datasets)])]
    for method in names.in_order(method for _, method in group.cells):
        cells = [names.plain(method)]
        for dataset in datasets:
            spread = found.get((dataset, method))
            if spread is None:
                cells.append("")
                continue
            mean = f"{spread.mean:.2f}"
            mean = f"**{mean}**" if spread.mean == best[dataset] else mean
            seeds = "" if spread.std_seeds is None else f" ± {spread.std_seeds:.2f}"
            cells.append(mean + seeds)
        lines.append(_row(cells))
    return "\n".join(lines)


def gains(group: PublishedGroup, control: str) -> list[Gain]:
    """Of all methods that share data sets with the control."""
    found: dict[str, dict[str, Difference]] = {}
    for (dataset, method), cell in group.cells.items():
        other = group.cells.get((dataset, control))
        pair = None if other is None or method == control else paired(cell, other)
        if pair is not None:
            found.setdefault(method, {})[dataset] = pair.difference
    every = [(m, name, one) for m, some in found.items() for name, one in some.items()]
    corrected = holm([one.p for *_, one in every])
    clear: dict[str, list[str]] = {method: [] for method in found}
    for (method, dataset, one), p in zip(every, corrected, strict=True):
        if p < SIGNIFICANT:
            clear[method].append(f"{dataset} {signed(one.mean)}")
    return [Gain(method, found[method], clear[method]) for method in names.in_order(found)]


def against(control: str, found: Sequence[Gain]) -> str:
    """A table with a row for each method, and a sentence."""
    corrected = holm([gain.mean.p for gain in found])
    heads = [f"− {names.plain(control)}", "mean (95 % interval)", "p", "data sets", "clear on"]
    lines = [_row(heads), _row(["---", "---:", "---:", "---:", "---"])]
    for gain, p in zip(found, corrected, strict=True):
        shown = p_text(p).replace("<", "&lt;")
        cells = [names.plain(gain.method), interval(gain.mean), shown, str(len(gain.datasets))]
        lines.append(_row([*cells, ", ".join(gain.clear)]))
    signs = [
        np.sign(g.mean.mean) * (p < SIGNIFICANT) for g, p in zip(found, corrected, strict=True)
    ]
    sentence = (
        f"In the mean over data sets, {signs.count(1)} of {len(found)} methods are better than "
        f"{names.plain(control)}, {signs.count(-1)} are worse, and the rest are not told apart."
    )
    return "\n".join([*lines, "", sentence])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--control", nargs="+", default=CONTROLS)
    options = parser.parse_args()
    try:
        published = read_published(options.folders, load_experiment("poolers"))
    except SagpoolError as error:
        print(error, file=sys.stderr)
        return 1
    for group in published.groups:
        blocks = [f"**{group.caption}**", accuracies(group)]
        for control in options.control:
            if found := gains(group, control):
                blocks.append(against(control, found))
        print("\n\n".join(blocks), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
