"""Time and memory of a training, beside those of SAGPool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from sagpool.bench.summary import Summary
from sagpool.explain.draw import INK
from sagpool.report.canvas import (
    FAINT,
    GROUND,
    MUTED,
    SMALL,
    add_axes,
    add_legend,
    new_figure,
    room_for,
    short,
)
from sagpool.report.colours import colour
from sagpool.report.listings import seconds

ROW = 0.24  # inches


def costs_figure(title: str, summaries: Sequence[Summary], base: Summary) -> Figure:
    """Seconds of a training and bytes of its step, both relative to ``base``.

    Args:
        title: of the figure
        summaries: cells of one data set, one row each
        base: the one of them that is 1
    """
    labels = [short(summary.cell.method) for summary in summaries]
    top = 0.52
    figure = new_figure(top + ROW * len(labels) + 0.5, title)
    ax = add_axes(figure, left=room_for(labels), bottom=0.45, top=top)
    ax.axvline(1, color=MUTED, linewidth=0.8)
    for row, summary in enumerate(summaries):
        tint = colour(summary.cell.method)
        times = seconds(summary) / seconds(base)
        known = summary.cell.bytes and base.cell.bytes
        sizes = summary.cell.bytes / base.cell.bytes if known else float("nan")
        ax.plot([times, sizes], [row, row], color=FAINT, linewidth=2, zorder=1)
        ax.plot(sizes, row, "s", color=tint, markersize=6, markerfacecolor=GROUND, zorder=2)
        ax.plot(times, row, "o", color=tint, markersize=4.5, zorder=3)
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, 1 / 1.5), max(high, 1.5))
    low, high = ax.get_xlim()
    narrow = high / low < 8
    ax.xaxis.set_major_locator(LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7) if narrow else (1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_yticks(range(len(labels)), labels, color=INK)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.grid(axis="x", color=FAINT, linewidth=0.6)
    ax.set_xlabel(f"times {base.cell.method}", color=INK, size=SMALL)
    look: dict[str, Any] = {"color": INK, "linestyle": ""}
    add_legend(
        figure,
        [
            Line2D([], [], marker="o", markersize=4.5, label="time of a training", **look),
            Line2D(
                [], [], marker="s", markersize=6, markerfacecolor=GROUND, label="memory of a step",
                **look,
            ),
        ],
        top=0.25,
    )  # fmt: skip
    return figure
