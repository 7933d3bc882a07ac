"""Memory and time of the methods of docs/poolers.md, relative to SAGPool.

Memory is in tables/cells.csv. Times are in files rates*.json beside the rows, which may be absent:

python benchmarks/fleet_vs_pyg.py --dataset PROTEINS --method ndp-h sagpool-h --peer \
    --members 50 --json > results/poolers/rates-PROTEINS.json
"""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

from control_tables import MISSING, row
from published_rows import Key, PublishedGroup, read_csv

from sagpool import SagpoolError
from sagpool.report import names

BASELINE = "sagpool-h"
NO_TIMES = (
    "Times have not been measured yet. The seconds in the rows do not compare methods: several "
    "processes shared the GPU."
)


class Memory(NamedTuple):
    bytes: int  # of a training step of one model
    hidden: int

    @property
    def per_channel(self) -> float:
        return self.bytes / self.hidden


class Rate(NamedTuple):
    """Of one model of a fleet in which no model stops."""

    microseconds: float  # of a training step
    mebibytes: float  # of peak memory
    hidden: str
    members: int


def memory_table(folder: Path, group: PublishedGroup) -> str:
    """The memory of a step with the chosen settings."""
    found = {
        (line["dataset"], line["method"]): Memory(
            int(line["step_bytes"]), int(line["setting_hidden"])
        )
        for line in read_csv(folder / "tables" / "cells.csv")
        if int(line["step_bytes"])  # 0 if unknown
    }
    texts = {key: f"{one.bytes / 2**20:.1f} ({one.hidden})" for key, one in found.items()}
    relative = _relative({key: one.per_channel for key, one in found.items()})
    return _table(group, texts, {f"per channel, {names.plain(BASELINE)} = 1": relative})


def time_table(folder: Path, group: PublishedGroup) -> str:
    """The time of a step with the same settings, and its peak memory."""
    found = read_rates(folder)
    if not found:
        return NO_TIMES
    hidden = {one.hidden for one in found.values()}
    if len(hidden) > 1:
        raise SagpoolError(f"{folder}/rates*.json have several hidden sizes.")
    base = {dataset: one for (dataset, method), one in found.items() if method == BASELINE}
    texts = {
        (dataset, method): f"{one.microseconds / base[dataset].microseconds:.1f}"
        for (dataset, method), one in found.items()
        if dataset in base
    }
    table = _table(
        group,
        texts,
        {
            "mean time": _relative({key: one.microseconds for key, one in found.items()}),
            "mean memory": _relative({key: one.mebibytes for key, one in found.items()}),
        },
    )
    steps = [f"{one.microseconds:.0f} µs on {dataset}" for dataset, one in base.items()]
    members = sorted({one.members for one in found.values()})
    sizes = f"{members[0]}" if len(members) == 1 else f"{members[0]} to {members[-1]}"
    return (
        f"Time of one model's training step relative to {names.plain(BASELINE)} on the same data "
        f"set, in fleets of {sizes} models with hidden size {hidden.pop()} and ratio 1/2 "
        "(DiffPool: 1/4). The last two columns are geometric means over data sets: of the time, "
        f"and of the peak memory per model.\n\n{table}\n\n"
        f"A step of one {names.plain(BASELINE)} takes {', '.join(steps)}."
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


def _table(
    group: PublishedGroup, texts: Mapping[Key, str], means: Mapping[str, Mapping[str, float]]
) -> str:
    """A row for each method with a text, a column for each data set, then the means."""
    datasets = [name for name in group.experiment.datasets if any(name == d for d, _ in texts)]
    heads = ["method", *datasets, *means]
    lines = [row(heads), row(["---", *["---:"] * (len(heads) - 1)])]
    for method in names.in_order(method for _, method in texts):
        cells = [texts.get((dataset, method), MISSING) for dataset in datasets]
        last = [f"{one[method]:.1f}" if method in one else MISSING for one in means.values()]
        lines.append(row([names.plain(method), *cells, *last]))
    return "\n".join(lines)
