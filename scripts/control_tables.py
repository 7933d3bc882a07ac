"""The accuracies of many methods, and what each gains over controls, from published rows.

python scripts/control_tables.py results/poolers [--control random-h nopool-h gin-g mlp-g]

Prints Markdown. Against each control there is the mean difference over the data sets that both
have, with p after Holm's correction over all methods, and the data sets on which a method is better
or worse, corrected over methods and data sets. Intervals and p are those of the corrected resampled
t-test (Nadeau and Bengio). Every group of protocol and way of choosing settings has its own tables.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from published_rows import Key, PublishedGroup, paired, read_published

from sagpool import SagpoolError
from sagpool.bench.claims import p_text
from sagpool.bench.claims.phrases import interval, signed
from sagpool.bench.experiment_file import load_experiment
from sagpool.report import names
from sagpool.statistics import SIGNIFICANT, Difference, Spread, holm, mean_difference

CONTROLS = ("random-h", "nopool-h", "gin-g", "mlp-g")
MISSING = "–"


class Gain(NamedTuple):
    """Of a method over a control."""

    method: str
    datasets: dict[str, Difference]
    clear: dict[str, Difference]  # the data sets with a significant difference
    mean: Difference  # over the data sets
    p: float  # of the mean, corrected
    bound: float  # the same if the errors of related data sets are fully correlated

    @property
    def sign(self) -> int:
        """1 if the method is better in the mean, −1 if it is worse, 0 if that is not clear."""
        return int(np.sign(self.mean.mean)) if self.p < SIGNIFICANT else 0

    @property
    def certain(self) -> bool:
        """Whether that does not depend on how strongly related data sets are correlated."""
        return (self.p < SIGNIFICANT) == (self.bound < SIGNIFICANT)


def accuracies(group: PublishedGroup, cells: Iterable[Key] = ()) -> str:
    """A row for each method; the best of each data set is bold.

    ``cells`` are shown even if they are missing.
    """
    keys = list(dict.fromkeys([*cells, *group.cells]))
    datasets = list(dict.fromkeys(dataset for dataset, _ in keys))
    found = {key: group.spread(key) for key in group.cells}
    best = {
        name: max(
            (round(s.mean, 2) for (data, _), s in found.items() if data == name), default=None
        )
        for name in datasets
    }
    lines = [row(["method", *datasets]), row(["---", *["---:"] * len(datasets)])]
    for method in names.in_order(method for _, method in keys):
        texts = [names.plain(method)]
        for dataset in datasets:
            spread = found.get((dataset, method))
            if spread is None:
                texts.append(MISSING)
                continue
            texts.append(with_seeds(spread, "**" if round(spread.mean, 2) == best[dataset] else ""))
        lines.append(row(texts))
    return "\n".join(lines)


def with_seeds(spread: Spread, mark: str = "") -> str:
    """The mean, between two marks, ± the standard deviation over seeds."""
    seeds = "" if spread.std_seeds is None else f" ± {spread.std_seeds:.2f}"
    return f"{mark}{spread.mean:.2f}{mark}{seeds}"


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
    clear: dict[str, dict[str, Difference]] = {method: {} for method in found}
    for (method, dataset, one), p in zip(every, corrected, strict=True):
        if p < SIGNIFICANT:
            clear[method][dataset] = one
    means = {method: mean_difference(some) for method, some in found.items()}
    related = group.experiment.related
    bounds = {method: mean_difference(some, related) for method, some in found.items()}
    p_of, bound_of = (
        dict(zip(found, holm([one.p for one in some.values()]), strict=True))
        for some in (means, bounds)
    )
    return [
        Gain(m, found[m], clear[m], means[m], p_of[m], bound_of[m]) for m in names.in_order(found)
    ]


def against(control: str, found: Sequence[Gain]) -> str:
    """A table with a row for each method, and a sentence."""
    heads = [
        f"− {names.plain(control)}",
        "mean (95 % interval)",
        "p",
        "data sets",
        "significant on",
    ]
    lines = [row(heads), row(["---", "---:", "---:", "---:", "---"])]
    for gain in found:
        p = p_text(gain.p).replace("<", "&lt;")
        clear = ", ".join(f"{name} {signed(one.mean)}" for name, one in gain.clear.items())
        cells = [names.plain(gain.method), interval(gain.mean), p, str(len(gain.datasets))]
        lines.append(row([*cells, clear]))
    signs = [gain.sign for gain in found]
    sentence = (
        f"Of {len(found)} methods, in the mean over data sets: {signs.count(1)} better than "
        f"{names.plain(control)}, {signs.count(-1)} worse, {signs.count(0)} without a significant "
        "difference."
    )
    uncertain = [names.plain(gain.method) for gain in found if not gain.certain]
    if uncertain:
        sentence += (
            f" Not significant if related data sets are fully correlated: {', '.join(uncertain)}."
        )
    return "\n".join([*lines, "", sentence])


def row(cells: Sequence[str]) -> str:
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
