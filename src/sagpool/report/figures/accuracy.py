"""The test accuracies of single trainings, method by method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

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

ROW = 0.34  # inches


def accuracy_figure(title: str, summaries: Sequence[Summary], majority: float | None) -> Figure:
    """Dots and boxes, and the paper's mean ± standard deviation below them.

    Args:
        title: of the figure
        summaries: cells of one data set, one row each
        majority: accuracy of always naming the most frequent class
    """
    labels = [short(summary.cell.method) for summary in summaries]
    published = any(summary.cell.paper_mean is not None for summary in summaries)
    keys = _keys(published, majority is not None)
    top = 0.3 + (0.2 if keys else 0)
    height = top + ROW * len(summaries) + 0.5
    figure = new_figure(height, title)
    ax = add_axes(figure, left=room_for(labels), bottom=0.45, top=top)
    for row, summary in enumerate(summaries):
        _draw_runs(ax, row, summary)
        if summary.cell.paper_mean is not None:
            ax.errorbar(
                summary.cell.paper_mean, row + 0.36, xerr=summary.cell.paper_std, color=INK,
                marker="D", markersize=3.2, linewidth=1, zorder=4,
            )  # fmt: skip
    if majority is not None:
        ax.axvline(majority, color=MUTED, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    ax.set_yticks(range(len(labels)), labels, color=INK)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_xlabel("test accuracy in %", color=INK, size=SMALL)
    ax.grid(axis="x", color=FAINT, linewidth=0.6)
    ax.margins(x=0.04)
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    if keys:
        add_legend(figure, keys, top=0.25)
    return figure


def add_dots(ax: Axes, x: np.ndarray, y: np.ndarray, tint: str, size: float = 2.2) -> None:
    """Many small dots as one path: a file of one element, not of ten thousand."""
    few = len(x) <= 60
    line = np.full((len(x), 3, 2), np.nan)
    line[:, 0], line[:, 1] = np.stack([x, y], 1), np.stack([x, y + 0.004], 1)
    (drawn,) = ax.plot(
        *line.reshape(-1, 2).T, color=tint, linewidth=size + 0.6 * few, solid_capstyle="round",
        alpha=0.8 if few else 0.55, zorder=2,
    )  # fmt: skip
    # Matplotlib would take strokes as short as these for noise, and leave them out.
    drawn.set_snap(False)
    drawn.get_path().should_simplify = False


def spread_out(count: int, width: float) -> np.ndarray:
    """Offsets in ``[-width / 2, width / 2]`` that look random and are always the same."""
    return ((np.arange(count) * 0.6180339887) % 1 - 0.5) * width


def _draw_runs(ax: Axes, row: int, summary: Summary) -> None:
    accuracy, tint = summary.accuracy, colour(summary.cell.method)
    add_dots(ax, accuracy, row + spread_out(len(accuracy), 0.46), tint)
    if len(accuracy) < 2:
        return
    low, middle, high = np.quantile(accuracy, [0.25, 0.5, 0.75])
    box = Rectangle(
        (low, row - 0.25), high - low, 0.5, facecolor=tint, alpha=0.22, linewidth=0, zorder=1.5
    )
    ax.add_patch(box)
    ax.plot([middle, middle], [row - 0.25, row + 0.25], color=GROUND, linewidth=3, zorder=2.5)
    ax.plot([middle, middle], [row - 0.25, row + 0.25], color=tint, linewidth=1.8, zorder=3)


def _keys(published: bool, majority: bool) -> list[Line2D]:
    keys = []
    if published:
        keys.append(
            Line2D([], [], color=INK, marker="D", markersize=3.2, linewidth=1, label="paper ± std")
        )
    if majority:
        keys.append(
            Line2D([], [], color=MUTED, linewidth=1, linestyle=(0, (1, 2)), label="majority class")
        )
    return keys
