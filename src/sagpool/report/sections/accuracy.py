"""The test accuracy of every training, by method."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from sagpool.bench.summary import Summary
from sagpool.explain.draw import INK
from sagpool.report import canvas, names
from sagpool.report.colours import GROUND, MUTED, colour
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section

ROW = 0.34  # inches
PAPER: dict[str, Any] = {"color": INK, "marker": "D", "markersize": 3.2, "linewidth": 1}
MAJORITY: dict[str, Any] = {"color": MUTED, "linewidth": 1, "linestyle": (0, (1, 2))}


def section(content: Content) -> Section:
    most = canvas.MOST_DOTS
    many = any(len(s.runs) > most for s in content.shown)
    return Section(
        "accuracy",
        "Every test accuracy",
        [Part(drawings=[_drawing(content, dataset) for dataset in content.datasets])],
        [
            "A dot is one training: one seed, one fold. The box spans the middle half, with a line "
            "at the median.",
            *([f"At most {most} trainings of each method are drawn."] if many else []),
        ],
    )


def _drawing(content: Content, dataset: str) -> Drawing:
    here, label = content.of(dataset), content.label(dataset)
    majority = content.majority(here)
    keys = []
    if any(summary.cell.paper_mean is not None for summary in here):
        keys.append(Line2D([], [], label="paper ± std", **PAPER))
    if majority is not None:
        keys.append(Line2D([], [], label="majority class", **MAJORITY))
    left = canvas.width_of([canvas.short(names.label(summary.method)) for summary in here])
    figure, ax = canvas.new_panel(label, ROW * len(here) + 0.05, keys, left=left)
    draw_accuracy(ax, here, majority)
    fewest, most = (choice(len(s.runs) for s in here) for choice in (min, max))
    each = str(most) if fewest == most else f"{fewest} to {most}"
    caption = f"Test accuracies on {label}; trainings of each method: {each}"
    return Drawing(f"accuracy-{dataset}", caption, figure)


def draw_accuracy(ax: Axes, summaries: Sequence[Summary], majority: float | None) -> None:
    """Draw a dot for each training, a box for each method, and the paper's mean and deviation.

    Args:
        ax: axes to draw on
        summaries: cells of one data set, one row each
        majority: accuracy of always predicting the most frequent class
    """
    for row, summary in enumerate(summaries):
        _draw_runs(ax, row, summary)
        mean, std = summary.cell.paper_mean, summary.cell.paper_std
        if mean is not None:
            ax.errorbar(mean, row + 0.36, xerr=std, zorder=4, **PAPER)
    if majority is not None:
        ax.axvline(majority, zorder=1, **MAJORITY)
    canvas.label_rows(ax, [canvas.short(names.label(summary.method)) for summary in summaries])
    canvas.label_x(ax, "test accuracy in %")
    ax.margins(x=0.04)
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))


def _draw_runs(ax: Axes, row: int, summary: Summary) -> None:
    accuracy, tint = summary.accuracy, colour(summary.method)
    canvas.add_dots(ax, accuracy, row + canvas.jitter(len(accuracy), 0.46), tint)
    if len(accuracy) < 2:
        return
    low, middle, high = np.quantile(accuracy, [0.25, 0.5, 0.75])
    box = Rectangle(
        (low, row - 0.25), high - low, 0.5, facecolor=tint, alpha=0.22, linewidth=0, zorder=1.5
    )
    ax.add_patch(box)
    ax.plot([middle, middle], [row - 0.25, row + 0.25], color=GROUND, linewidth=3, zorder=2.5)
    ax.plot([middle, middle], [row - 0.25, row + 0.25], color=tint, linewidth=1.8, zorder=3)
