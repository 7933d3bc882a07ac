"""Learning curves, and when the trainings stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sagpool.bench.records import Run
from sagpool.bench.summary import Summary
from sagpool.explain.draw import INK
from sagpool.report.canvas import (
    FAINT,
    LEFT,
    SMALL,
    add_axes,
    add_legend,
    label_y,
    legend_rows,
    new_figure,
    short,
)
from sagpool.report.colours import colour
from sagpool.report.figures.accuracy import add_dots, spread_out

STRIP = 0.2  # inches, of each method
TRAIN, VALIDATION = 0, 1  # rows of a run's curve


class Median(NamedTuple):
    """Over the runs still running, as long as at least half of them are."""

    low: np.ndarray  # [epochs] quartile
    middle: np.ndarray  # [epochs]
    high: np.ndarray  # [epochs] quartile


def median_curve(runs: Sequence[Run], row: int) -> Median:
    lengths = np.sort([run.curve.shape[1] for run in runs])[::-1]
    epochs = int(lengths[(len(runs) + 1) // 2 - 1])  # that at least half of the runs have
    values = np.full((len(runs), epochs), np.nan)
    for place, run in enumerate(runs):
        seen = run.curve[row, :epochs]
        values[place, : len(seen)] = np.where(np.isfinite(seen), seen, np.nan)
    # Of an epoch in which no run had a finite loss there is nothing to tell.
    some = ~np.isnan(values).all(axis=0)
    quartiles = np.full((3, epochs), np.nan)
    quartiles[:, some] = np.nanquantile(values[:, some], [0.25, 0.5, 0.75], axis=0)
    return Median(*quartiles)


def curves_figure(title: str, summaries: Sequence[Summary]) -> Figure:
    """Validation loss with its quartiles, train loss dashed; best and last epochs below."""
    keys = [
        Line2D([], [], color=colour(s.cell.method), linewidth=1.8, label=short(s.cell.method))
        for s in summaries
    ]
    top = 0.34 + 0.16 * legend_rows([short(s.cell.method) for s in summaries])
    strips = STRIP * len(summaries)
    figure = new_figure(top + 1.75 + 0.1 + strips + 0.42, title)
    ax = add_axes(figure, left=LEFT, bottom=0.42 + strips + 0.1, top=top)
    below = add_axes(figure, left=LEFT, bottom=0.42, top=top + 1.75 + 0.1)

    last = max(float(np.quantile([run.epochs for run in s.runs], 0.95)) for s in summaries)
    shown: list[np.ndarray] = []
    for row, summary in enumerate(summaries):
        shown += _draw_losses(ax, summary)
        _draw_stops(below, row, summary)
    heights = np.concatenate(shown)
    if len(heights):
        # The first epochs of a bad setting would flatten all the rest.
        low, high = np.quantile(heights, [0, 0.99])
        ax.set_ylim(low - 0.06 * (high - low or 1), high + 0.06 * (high - low or 1))
    for one in (ax, below):
        one.set_xlim(0, max(1.03 * last, 2))
        one.grid(axis="x", color=FAINT, linewidth=0.6)
    ax.grid(axis="y", color=FAINT, linewidth=0.6)
    ax.tick_params(axis="x", labelbottom=False, length=0)
    ax.locator_params(axis="y", nbins=5)
    label_y(ax, "loss")
    below.set(ylim=(len(summaries) - 0.4, -0.6), yticks=[])
    below.set_xlabel("epoch", color=INK, size=SMALL)
    add_legend(figure, keys, top=0.27)
    return figure


def _draw_losses(ax: Axes, summary: Summary) -> list[np.ndarray]:
    """What was drawn, to choose limits by."""
    tint = colour(summary.cell.method)
    train, validation = (median_curve(summary.runs, row) for row in (TRAIN, VALIDATION))
    epoch = np.arange(1, len(train.middle) + 1)
    if len(summary.runs) > 1:
        ax.fill_between(epoch, validation.low, validation.high, color=tint, alpha=0.16, linewidth=0)
    ax.plot(epoch, train.middle, color=tint, linewidth=1, linestyle=(0, (3, 2)))
    ax.plot(epoch, validation.middle, color=tint, linewidth=1.6)
    drawn = (train.middle, validation.middle, validation.low, validation.high)
    return [values[np.isfinite(values)] for values in drawn]


def _draw_stops(ax: Axes, row: int, summary: Summary) -> None:
    """Dots at the best epochs; a bar over the middle half of the last ones."""
    tint = colour(summary.cell.method)
    best = np.array([run.best_epoch for run in summary.runs if run.best_epoch])
    low, middle, high = np.quantile([run.epochs for run in summary.runs], [0.25, 0.5, 0.75])
    ax.plot([low, high], [row, row], color=tint, linewidth=5, alpha=0.3, solid_capstyle="butt")
    ax.plot([middle, middle], [row - 0.32, row + 0.32], color=tint, linewidth=1.8)
    add_dots(ax, best, row + spread_out(len(best), 0.4), tint, size=1.8)
