"""The table of docs/reproduction.md that compares SAGPool and the controls in three ways."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markdown_table import starred, table_row
from published_rows import Published, PublishedGroup, paired, read_csv

from sagpool.bench.claims import CellRows
from sagpool.bench.claims.phrases import interval
from sagpool.bench.variants import Chosen
from sagpool.report import names
from sagpool.statistics import MARGIN, Difference, mean_difference

PAIRS = (
    ("sagpool-h", "random-h"),
    ("sagpool-h", "complement-h"),
    ("sagpool-h", "nopool-h"),
    ("sagpool-g", "nopool-g"),
    ("nopool-g", "mlp-g"),
)
HEADS = ("difference of", "settings", "data set", "points (95 % interval)")
TABLE = Path("tables", "data.csv")


class Compared(NamedTuple):
    """Two methods on a data set, or in the mean over several."""

    dataset: str  # or which mean
    usual: Difference  # for other graphs of the same kind
    here: Difference  # for further seeds on these graphs


def controls_section(published: Published, folders: Sequence[Path]) -> str:
    """Differences to the controls; and the accuracy of always predicting the same class."""
    heads = [*HEADS, "p, other graphs", f"p, within ±{MARGIN:g}", "p, these graphs"]
    lines = [table_row(heads), table_row(["---"] * 3 + ["---:"] * 4)]
    groups = {group.chosen: group for group in published.groups if not group.differences}
    for first, second in PAIRS:
        for way in (Chosen.SEARCHED, Chosen.FIXED):
            if way in groups:
                lines += _lines(groups[way], first, second)
    return "\n".join([*lines, "", _majority(published, folders)])


def _majority(published: Published, folders: Sequence[Path]) -> str:
    every = {row["name"]: row for folder in folders for row in read_csv(folder / TABLE)}
    used = [name for name in published.experiment.datasets if name in every]
    found = (f"{name} {100 * float(every[name]['majority']):.2f}" for name in used)
    return f"Always predicting the most frequent class has an accuracy of: {', '.join(found)}."


def _lines(group: PublishedGroup, first: str, second: str) -> list[str]:
    found = []
    for dataset in group.experiment.datasets:
        both = [group.plain.get((dataset, method)) for method in (first, second)]
        one = _compared(dataset, *both)
        found += [one] if one else []
    if len(found) > 1:
        usual = mean_difference({one.dataset: one.usual for one in found})
        here = mean_difference({one.dataset: one.here for one in found})
        found.append(Compared(f"mean of {len(found)}", usual, here))
    pair = f"{names.plain(first)} − {names.plain(second)}"
    settings = str(group.chosen).removesuffix(" settings")
    return [
        table_row([pair, settings, one.dataset, interval(one.usual), *map(starred, _tests(one))])
        for one in found
    ]


def _tests(one: Compared) -> tuple[float, float, float]:
    return one.usual.p, one.usual.p_equivalent(), one.here.p


def _compared(dataset: str, first: CellRows | None, second: CellRows | None) -> Compared | None:
    if first is None or second is None:
        return None
    pair = paired(first, second)
    here = _by_seed(first.seed_means, second.seed_means)
    return None if pair is None or here is None else Compared(dataset, pair.difference, here)


def _by_seed(first: Mapping[int, float], second: Mapping[int, float]) -> Difference | None:
    """The paired t-test of the per-seed means, on exactly these graphs."""
    seeds = sorted(first.keys() & second.keys())
    if len(seeds) < 2:
        return None
    values = np.array([first[seed] - second[seed] for seed in seeds])
    error = float(values.std(ddof=1)) / math.sqrt(len(seeds))
    return Difference(float(values.mean()), error, len(seeds) - 1)
