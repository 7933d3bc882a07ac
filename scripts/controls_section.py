"""The table of docs/reproduction.md that compares SAGPool and the controls in three ways."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from published_rows import Published, PublishedGroup, paired, read_csv

from sagpool.bench.claims import CellRows, p_text
from sagpool.bench.claims.phrases import interval
from sagpool.bench.variants import Chosen
from sagpool.report import names
from sagpool.statistics import MARGIN, SIGNIFICANT, Difference, mean_difference

PAIRS = (
    ("sagpool-h", "random-h"),
    ("sagpool-h", "complement-h"),
    ("sagpool-h", "nopool-h"),
    ("sagpool-g", "nopool-g"),
    ("nopool-g", "mlp-g"),
)
HEADS = ("difference of", "settings", "data set", "points (95 % interval)")
MEAN = "mean"
TABLE = Path("tables", "data.csv")


class Row(NamedTuple):
    """Two methods on a data set, or in the mean over several."""

    dataset: str
    usual: Difference  # for other graphs of the same kind
    here: Difference  # for further seeds on these graphs


def controls_section(published: Published, folders: Sequence[Path]) -> str:
    """Differences to the controls; and the accuracy of always predicting the same class."""
    heads = [*HEADS, "p, other graphs", f"p, within ±{MARGIN:g}", "p, these graphs"]
    lines = [_line(heads), _line(["---"] * 3 + ["---:"] * 4)]
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
    rows = []
    for dataset in group.experiment.datasets:
        both = [group.plain.get((dataset, method)) for method in (first, second)]
        row = _row(dataset, *both)
        rows += [row] if row else []
    if len(rows) > 1:
        usual = mean_difference({row.dataset: row.usual for row in rows})
        here = mean_difference({row.dataset: row.here for row in rows})
        rows.append(Row(MEAN, usual, here))
    pair = f"{names.plain(first)} − {names.plain(second)}"
    settings = str(group.chosen).removesuffix(" settings")
    return [
        _line([pair, settings, row.dataset, interval(row.usual), *map(_p, _tests(row))])
        for row in rows
    ]


def _tests(row: Row) -> tuple[float, float, float]:
    return row.usual.p, row.usual.p_equivalent(), row.here.p


def _row(dataset: str, first: CellRows | None, second: CellRows | None) -> Row | None:
    if first is None or second is None:
        return None
    pair = paired(first, second)
    here = _by_seed(first.seed_means, second.seed_means)
    return None if pair is None or here is None else Row(dataset, pair.difference, here)


def _by_seed(first: Mapping[int, float], second: Mapping[int, float]) -> Difference | None:
    """The paired t-test of the per-seed means, on exactly these graphs."""
    seeds = sorted(first.keys() & second.keys())
    if len(seeds) < 2:
        return None
    values = np.array([first[seed] - second[seed] for seed in seeds])
    error = float(values.std(ddof=1)) / math.sqrt(len(seeds))
    return Difference(float(values.mean()), error, len(seeds) - 1)


def _p(p: float) -> str:
    return p_text(p).replace("<", "&lt;") + " *" * (p < SIGNIFICANT)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
