"""The accuracies of many methods, and what each gains over controls, from published rows.

python scripts/control_tables.py results/poolers [--control random-h nopool-h gin-g mlp-g]

Prints Markdown. Against each control there is the mean difference over the data sets that both
have, with p after Holm's correction over all methods, and the difference on each data set, bold if
it is significant after correction over methods and data sets. Intervals and p are those of the
corrected resampled t-test (Nadeau and Bengio). Every group of protocol and way of choosing settings
has its own tables.
"""

import argparse
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markdown_table import p_cell, table_row
from published_rows import Key, PublishedGroup, paired, read_published

from sagpool import SagpoolError
from sagpool.bench.claims.phrases import interval, signed
from sagpool.bench.experiment import Related
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
    needed: tuple[str, ...]  # data sets without which a significant mean is not significant

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
    lines = [table_row(["method", *datasets]), table_row(["---", *["---:"] * len(datasets)])]
    for method in names.in_order(method for _, method in keys):
        texts = [names.plain(method)]
        for dataset in datasets:
            spread = found.get((dataset, method))
            if spread is None:
                texts.append(MISSING)
                continue
            texts.append(with_seeds(spread, "**" if round(spread.mean, 2) == best[dataset] else ""))
        lines.append(table_row(texts))
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
    p, bound = _p_of_means(found), _p_of_means(found, group.experiment.related)
    datasets = dict.fromkeys(dataset for some in found.values() for dataset in some)
    without = {dataset: _p_of_means(_without(dataset, found)) for dataset in datasets}
    return [
        Gain(m, found[m], clear[m], means[m], p[m], bound[m], _needed(m, found[m], p[m], without))
        for m in names.in_order(found)
    ]


def _p_of_means(
    found: Mapping[str, Mapping[str, Difference]], related: Related = ()
) -> dict[str, float]:
    """By method; after Holm's correction over all methods."""
    p = [mean_difference(some, related).p for some in found.values()]
    return dict(zip(found, holm(p), strict=True))


def _without(
    dataset: str, found: Mapping[str, Mapping[str, Difference]]
) -> dict[str, dict[str, Difference]]:
    left = {
        m: {name: d for name, d in some.items() if name != dataset} for m, some in found.items()
    }
    return {method: some for method, some in left.items() if some}


def _needed(
    method: str, datasets: Collection[str], p: float, without: Mapping[str, Mapping[str, float]]
) -> tuple[str, ...]:
    """The data sets, of several, without which a method's mean is no longer significant."""
    if p >= SIGNIFICANT or len(datasets) < 2:
        return ()
    return tuple(name for name in datasets if without[name][method] >= SIGNIFICANT)


def against(control: str, found: Sequence[Gain], order: Iterable[str]) -> str:
    """A table with a row for each method and the data sets in this order, and sentences."""
    datasets = [name for name in order if any(name in gain.datasets for gain in found)]
    heads = [f"− {names.plain(control)}", "mean (95 % interval)", "p", *datasets]
    lines = [table_row(heads), table_row(["---", *["---:"] * (len(heads) - 1)])]
    for gain in found:
        each = [_on(dataset, gain) for dataset in datasets]
        lines.append(
            table_row([names.plain(gain.method), interval(gain.mean), p_cell(gain.p), *each])
        )
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
    needed = [f"{names.plain(one.method)} ({_either(one.needed)})" for one in found if one.needed]
    if needed:
        sentence += f" Not significant without one of the data sets: {', '.join(needed)}."
    return "\n".join([*lines, "", sentence])


def _on(dataset: str, gain: Gain) -> str:
    """The difference on a data set, bold if it is significant."""
    if dataset not in gain.datasets:
        return MISSING
    mark = "**" * (dataset in gain.clear)
    return f"{mark}{signed(gain.datasets[dataset].mean)}{mark}"


def _either(texts: Sequence[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} or {last}" if others else last


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
        datasets = dict.fromkeys(dataset for dataset, _ in group.cells)
        blocks = [f"**{group.caption}**", accuracies(group)]
        for control in options.control:
            if found := gains(group, control):
                blocks.append(against(control, found, datasets))
        print("\n\n".join(blocks), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
