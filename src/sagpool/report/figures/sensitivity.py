"""How much a setting matters: validation accuracy against each value that was tried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from sagpool.bench.records import Run
from sagpool.bench.store import settings_text
from sagpool.bench.summary import Summary
from sagpool.explain.draw import INK
from sagpool.report import names
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

# What a search may vary; all else has to be equal for two runs to be comparable.
VARIED = ("lr", "weight_decay", "hidden", "ratio", "dropout", "batch_size")
SPREAD_OUT = ("lr", "weight_decay", "hidden", "batch_size")  # on a logarithmic axis
MARKERS = "osD^vPX"
LEAST = 2.0  # points of accuracy on the axis: of less, nothing should be made


@dataclass(frozen=True, eq=False)
class Effect:
    """Of one setting on one method."""

    method: str
    setting: str
    values: np.ndarray  # [values] ascending
    accuracy: np.ndarray  # [values] validation, in percent
    runs: int


def effects(summary: Summary, runs: Sequence[Run]) -> list[Effect]:
    """Of each setting that varies among the runs that are like those of the cell otherwise.

    First the mean over the splits that all combinations of settings have, then the mean over the
    combinations: so a combination that was run more often weighs no more than the others.

    Args:
        summary: the cell
        runs: all runs of the store
    """
    wanted = _likeness(summary.runs[0])
    combinations: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.method == summary.cell.method and _likeness(run) == wanted:
            combinations[settings_text(run.settings)].append(run)
    common = set.intersection(*({(r.seed, r.fold) for r in c} for c in combinations.values()))
    scored: list[tuple[dict[str, Any], float, int]] = []
    for members in combinations.values():
        compared = [r for r in members if (r.seed, r.fold) in common] if common else members
        # One that diverged has learnt nothing that could be relied on.
        accuracy = np.nan_to_num([100 * run.validation_accuracy for run in compared])
        scored.append((members[0].settings, float(accuracy.mean()), len(compared)))
    found = []
    for setting in VARIED:
        by_value: dict[float, list[float]] = defaultdict(list)
        for settings, accuracy_of, _ in scored:
            by_value[settings[setting]].append(accuracy_of)
        if len(by_value) > 1:
            values = sorted(by_value)
            means = np.array([np.mean(by_value[value]) for value in values])
            total = sum(count for *_, count in scored)
            found.append(
                Effect(summary.cell.method, setting, np.array(values, float), means, total)
            )
    return found


def sensitivity_figure(title: str, setting: str, shown: Sequence[Effect]) -> Figure:
    """One setting on one data set; methods are lines."""
    labels = [short(effect.method) for effect in shown]
    top = 0.34 + 0.16 * legend_rows(labels)
    figure = new_figure(top + 1.6 + 0.45, title)
    ax = add_axes(figure, left=LEFT, bottom=0.45, top=top)
    values = np.unique(np.concatenate([effect.values for effect in shown]))
    keys = []
    for place, effect in enumerate(shown):
        look: dict[str, Any] = {
            "color": colour(effect.method), "marker": MARKERS[place % len(MARKERS)],
            "markersize": 4, "linewidth": 1.3,
        }  # fmt: skip
        ax.plot(effect.values, effect.accuracy, **look)
        keys.append(Line2D([], [], label=labels[place], **look))
    if setting in SPREAD_OUT and values[0] > 0:
        ax.set_xscale("log")
    ax.set_xticks(values, [names.setting(float(value)) for value in values])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.margins(x=0.07, y=0.12)
    low, high = ax.get_ylim()
    if high - low < LEAST:
        ax.set_ylim((low + high - LEAST) / 2, (low + high + LEAST) / 2)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.grid(color=FAINT, linewidth=0.6)
    ax.set_xlabel(setting.replace("_", " "), color=INK, size=SMALL)
    label_y(ax, "validation accuracy in %")
    add_legend(figure, keys, top=0.27)
    return figure


def _likeness(run: Run) -> tuple[Any, ...]:
    protocol = {name: value for name, value in run.settings.items() if name not in VARIED}
    return (run.fingerprint, run.precision, run.numerics, settings_text(protocol))
