"""Time and memory of the methods of docs/poolers.md, relative to SAGPool.

They are in files rates*.json beside the rows, which may be absent:

python benchmarks/fleet_vs_pyg.py --dataset PROTEINS --method ndp-h sagpool-h --peer \
    --members 50 --json > results/poolers/rates-PROTEINS.json
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

from control_tables import MISSING
from markdown_table import table_row
from published_rows import Key, PublishedGroup

from sagpool import SagpoolError
from sagpool.report import names

BASELINE = "sagpool-h"
NOT_MEASURED = (
    "Not measured yet. The seconds in the rows do not compare methods: several processes shared "
    "the GPU."
)


class Rate(NamedTuple):
    """Of one model of a fleet in which no model stops."""

    microseconds: float  # of a training step
    mebibytes: float  # of peak memory
    hidden: str
    members: int


def cost_table(folder: Path, group: PublishedGroup) -> str:
    """The time and the peak memory of a step, with the same settings for all methods."""
    found = read_rates(folder)
    if not found:
        return NOT_MEASURED
    hidden = {one.hidden for one in found.values()}
    if len(hidden) > 1:
        raise SagpoolError(f"{folder}/rates*.json have several hidden sizes.")
    base = {dataset: one for (dataset, method), one in found.items() if method == BASELINE}
    if not base:
        raise SagpoolError(f"{folder}/rates*.json lack {BASELINE}, which others are compared with.")
    members = sorted({one.members for one in found.values()})
    sizes = f"{members[0]}" if len(members) == 1 else f"{members[0]} to {members[-1]}"
    steps = [
        f"{one.microseconds:.0f} µs and {one.mebibytes:.0f} MiB on {dataset}"
        for dataset, one in base.items()
    ]
    return (
        f"Time and peak memory of a training step of a fleet of {sizes} models, relative to "
        f"{names.plain(BASELINE)} on the same data set, with hidden size {hidden.pop()} and "
        f"ratio 1/2 (DiffPool: 1/4).{' Means are geometric.' * (len(base) > 1)}\n\n"
        f"{_table(group, found, list(base))}\n\n"
        f"For each model of the fleet, a step of {names.plain(BASELINE)} takes {', '.join(steps)}."
    )


def read_rates(folder: Path) -> dict[Key, Rate]:
    """The rates of all files, without cases that failed."""
    found = {}
    for file in sorted(folder.glob("rates*.json")):
        measured = json.loads(file.read_text("utf-8"))
        for case, rates in measured["models_steps_per_s"].items():
            dataset, hidden, *method = case.split("/")
            if "fleet" in rates:
                peak = measured["peak_gib"][case]["fleet"]
                found[dataset, "".join(method) or BASELINE] = Rate(
                    1e6 / rates["fleet"], 1024 * peak / rates["members"], hidden, rates["members"]
                )
    return found


def _relative(costs: Mapping[Key, float]) -> dict[str, float]:
    """By method, the geometric mean of the costs over the baseline's on the same data set."""
    ratios: dict[str, list[float]] = {}
    for (dataset, method), cost in costs.items():
        if (dataset, BASELINE) in costs:
            ratios.setdefault(method, []).append(cost / costs[dataset, BASELINE])
    return {method: geometric_mean(some) for method, some in ratios.items()}


def _table(group: PublishedGroup, found: Mapping[Key, Rate], measured: Sequence[str]) -> str:
    """A row for each method: its time on each data set, and the means."""
    datasets = [name for name in group.experiment.datasets if name in measured]
    time = {key: one.microseconds for key, one in found.items()}
    mean_time = _relative(time)
    memory = _relative({key: one.mebibytes for key, one in found.items()})
    several = len(datasets) > 1
    heads = ["method", *(f"time, {name}" for name in datasets), *["mean time"] * several]
    heads.append("mean memory" if several else f"memory, {datasets[0]}")
    lines = [table_row(heads), table_row(["---", *["---:"] * (len(heads) - 1)])]
    for method in names.in_order(memory):
        cells = [
            f"{time[name, method] / time[name, BASELINE]:.1f}"
            if (name, method) in time
            else MISSING
            for name in datasets
        ]
        means = [*[mean_time[method]] * several, memory[method]]
        lines.append(table_row([names.plain(method), *cells, *(f"{mean:.1f}" for mean in means)]))
    return "\n".join(lines)
