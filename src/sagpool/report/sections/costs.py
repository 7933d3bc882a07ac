"""Time and memory of a training, relative to SAGPool."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from sagpool.bench.summary import Summary
from sagpool.explain.draw import INK
from sagpool.report import canvas, names
from sagpool.report.colours import FAINT, GROUND, MUTED, colour
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section
from sagpool.report.table import Table, listing, method, numbers, words

BASELINE = "sagpool-h"
ROW = 0.24  # inches
TIME: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4.5}
MEMORY: dict[str, Any] = {
    "linestyle": "", "marker": "s", "markersize": 6, "markerfacecolor": GROUND,
}  # fmt: skip


class Cost(NamedTuple):
    """The costs of a single training; relative costs are relative to the baseline."""

    dataset: str
    method: str
    seconds: float
    seconds_relative: float | None
    epochs: float
    step_bytes: int  # 0 if unknown
    step_bytes_relative: float | None
    parameters: int


def section(content: Content) -> Section:
    costs = {dataset: costs_of(content.of(dataset)) for dataset in content.datasets}
    drawings = [
        _drawing(content.label(dataset), here)
        for dataset, here in costs.items()
        if len(here) > 1 and any(c.seconds_relative and c.step_bytes_relative for c in here)
    ]
    table = _table(content, [cost for here in costs.values() for cost in here])
    return Section(
        "costs",
        "Time and memory",
        [
            *([Part(drawings=drawings)] if drawings else []),
            Part("As a table", table, folded=bool(drawings)),
        ],
        [
            "Time: a whole training with early stopping; models that train side by side share the "
            "time equally. Memory: a training step of one model."
        ],
    )


def costs_of(summaries: Sequence[Summary]) -> list[Cost]:
    """The costs of cells of one data set."""
    seconds = {s.method: s.seconds / len(s.runs) for s in summaries}
    memory = {s.method: s.cell.bytes for s in summaries}
    base_seconds, base_memory = seconds.get(BASELINE), memory.get(BASELINE)
    return [
        Cost(
            s.cell.dataset,
            method,
            seconds[method],
            seconds[method] / base_seconds if base_seconds else None,
            s.epochs,
            memory[method],
            memory[method] / base_memory if memory[method] and base_memory else None,
            s.parameters,
        )
        for method, s in ((s.method, s) for s in summaries)
    ]


def _drawing(label: str, costs: Sequence[Cost]) -> Drawing:
    keys = [
        Line2D([], [], color=INK, label="time of a training", **TIME),
        Line2D([], [], color=INK, label="memory of a step", **MEMORY),
    ]
    left = canvas.width_of([canvas.short(names.label(cost.method)) for cost in costs])
    figure, ax = canvas.new_panel(label, ROW * len(costs) + 0.05, keys, left=left)
    draw_costs(ax, costs)
    base = next(cost for cost in costs if cost.method == BASELINE)
    caption = (
        f"Time and memory on {label}; a training of {BASELINE} takes {base.seconds:.2g} s, "
        f"a step of it {base.step_bytes / 2**20:.2g} MiB"
    )
    return Drawing(f"costs-{base.dataset}", caption, figure)


def draw_costs(ax: Axes, costs: Sequence[Cost]) -> None:
    """Draw relative time and memory on one data set, one row for each method."""
    ax.axvline(1, color=MUTED, linewidth=0.8)
    for row, cost in enumerate(costs):
        tint = colour(cost.method)
        time = cost.seconds_relative or np.nan
        memory = cost.step_bytes_relative or np.nan
        ax.plot([time, memory], [row, row], color=FAINT, linewidth=2, zorder=1)
        ax.plot(memory, row, color=tint, zorder=2, **MEMORY)
        ax.plot(time, row, color=tint, zorder=3, **TIME)
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    low, high = min(low, 1 / 1.5), max(high, 1.5)
    ax.set_xlim(low, high)
    narrow = high / low < 8
    ax.xaxis.set_major_locator(LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7) if narrow else (1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    canvas.label_rows(ax, [canvas.short(names.label(cost.method)) for cost in costs])
    canvas.label_x(ax, f"times {BASELINE}")


def _table(content: Content, costs: Sequence[Cost]) -> Table:
    per_epoch = [1000 * cost.seconds / cost.epochs if cost.epochs else None for cost in costs]
    return listing(
        "costs",
        "The cost of a single training. × is relative to SAGPool_h on the same data set. Models "
        "that trained together share the seconds equally; memory is that of a training step.",
        [
            words("data set", [content.label(cost.dataset) for cost in costs]),
            words("method", [method(cost.method) for cost in costs]),
            numbers("seconds", [cost.seconds for cost in costs]),
            numbers("×", [cost.seconds_relative for cost in costs]),
            numbers("epochs", [cost.epochs for cost in costs], ".0f"),
            numbers("ms per epoch", per_epoch, ".1f"),
            numbers("MiB per step", [cost.step_bytes / 2**20 or None for cost in costs], ".1f"),
            numbers("×", [cost.step_bytes_relative for cost in costs]),
            numbers("parameters", [cost.parameters for cost in costs], ",d"),
        ],
        [cost._asdict() for cost in costs],
    )
