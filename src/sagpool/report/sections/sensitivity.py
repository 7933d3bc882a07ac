"""How much a setting matters: validation accuracy against each value that was tried."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from sagpool.bench.records import Run
from sagpool.bench.run_table import Group, RunTable
from sagpool.bench.store import settings_text
from sagpool.bench.summary import Summary
from sagpool.report import canvas, names
from sagpool.report.colours import colour
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section

# What a search may vary; all else has to be equal for two runs to be comparable.
VARIED = ("lr", "weight_decay", "hidden", "ratio", "dropout", "batch_size")
LOGARITHMIC = ("lr", "weight_decay", "hidden", "batch_size")
MARKERS = "osD^vPX"
MOST_LINES = 7  # in one panel
SMALLEST_RANGE = 2.0  # least range of the axis in percentage points, so as not to magnify noise


def section(content: Content) -> Section:
    drawings = list(_drawings(content))
    return Section(
        "sensitivity",
        "How much a setting matters",
        [Part(drawings=drawings)] if drawings else [],
        [
            "Validation accuracy, never test, against each setting that varies among runs of the "
            "same data set, method and protocol: the mean over all other settings that were tried, "
            "on the splits that all of them have in common, if there are any. A training that "
            "diverged at once counts as 0 %."
        ],
    )


def _drawings(content: Content) -> Iterator[Drawing]:
    for dataset in content.datasets:
        label = content.label(dataset)
        # Cells that differ in what is varied here have the same effects.
        cells = {(s.cell.method, _protocol(s.runs[0])): s for s in reversed(content.of(dataset))}
        found = [e for s in reversed(cells.values()) for e in effects(s, content.runs)]
        for title, shown in _panels(found).items():
            keys = [
                Line2D([], [], label=canvas.short(names.label(effect.method)), **_look(i, effect))
                for i, effect in enumerate(shown)
            ]
            figure, ax = canvas.new_panel(f"{label} · {title}", 1.6, keys)
            draw_effects(ax, shown)
            runs = sum(effect.runs for effect in shown)
            caption = f"Validation accuracy on {label} against {title}, from {runs:,} trainings"
            yield Drawing(f"sensitivity-{dataset}-{title}", caption, figure)


class Effect(NamedTuple):
    """The effect of one setting on one method."""

    method: str
    setting: str
    values: list[float]  # ascending
    accuracy: list[float]  # for each value; validation, in percent
    runs: int


def effects(summary: Summary, runs: RunTable) -> list[Effect]:
    """The effect of each setting that varies among runs that are otherwise like the cell's.

    Only seeds with results for all folds count: for candidates that a search has dropped, the store
    may have only the trainings that stopped early, a biased sample.

    The mean over the splits that all combinations of settings have in common, then the mean over
    the combinations: a combination that was run more often has no more weight than the others.

    Args:
        summary: the cell
        runs: all runs of the store
    """
    cell, protocol = summary.cell, _protocol(summary.runs[0])
    combinations = [
        (group.settings, whole)
        for group, some in runs.by_group
        if (group.fingerprint, group.method) == (cell.fingerprint, cell.method)
        if _protocol(group) == protocol
        if len((whole := _whole_seeds(some, group.settings["folds"])).split)
    ]
    if not combinations:
        return []
    common = reduce(np.intersect1d, [whole.split for _, whole in combinations])
    compared = [
        (settings, whole.accuracy[np.isin(whole.split, common)] if len(common) else whole.accuracy)
        for settings, whole in combinations
    ]
    found = []
    for setting in VARIED:
        by_value: dict[float, list[float]] = defaultdict(list)
        for settings, accuracy in compared:
            by_value[settings[setting]].append(float(accuracy.mean()))
        if len(by_value) > 1:
            values = sorted(by_value)
            means = [float(np.mean(by_value[value])) for value in values]
            runs_used = sum(len(accuracy) for _, accuracy in compared)
            found.append(Effect(summary.method, setting, values, means, runs_used))
    return found


class _Splits(NamedTuple):
    split: np.ndarray  # [runs], a number for each seed and fold
    accuracy: np.ndarray  # [runs], validation, in percent


def _whole_seeds(runs: RunTable, folds: int) -> _Splits:
    """The runs of seeds that have all folds."""
    seed = runs.column("seed")
    _, place, counts = np.unique(seed, return_inverse=True, return_counts=True)
    whole = counts[place] == folds
    # A run that diverged at once has no accuracy and counts as 0.
    accuracy = np.nan_to_num(100 * runs.column("validation_accuracy"))
    return _Splits((seed * folds + runs.column("fold"))[whole], accuracy[whole])


def _panels(found: Sequence[Effect]) -> dict[str, list[Effect]]:
    """The effects of each setting; in two panels if there are too many for one."""
    panels = {}
    for setting in VARIED:
        here = [effect for effect in found if effect.setting == setting]
        split = len(here) > MOST_LINES
        variants = [effect for effect in here if split and names.is_variant(effect.method)]
        title = setting.replace("_", " ")
        panels[title] = [effect for effect in here if effect not in variants]
        panels[f"{title} · variants"] = variants
    return {title: shown for title, shown in panels.items() if shown}


def draw_effects(ax: Axes, shown: Sequence[Effect]) -> None:
    """Draw the effects of one setting on one data set, a line for each method."""
    setting = shown[0].setting
    values = sorted({value for effect in shown for value in effect.values})
    for i, effect in enumerate(shown):
        ax.plot(effect.values, effect.accuracy, **_look(i, effect))
    if setting in LOGARITHMIC and values[0] > 0:
        ax.set_xscale("log")
    ax.set_xticks(values, [names.setting(float(value)) for value in values])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.margins(x=0.07, y=0.12)
    low, high = ax.get_ylim()
    if high - low < SMALLEST_RANGE:
        ax.set_ylim((low + high - SMALLEST_RANGE) / 2, (low + high + SMALLEST_RANGE) / 2)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    canvas.add_grid(ax)
    canvas.label_x(ax, setting.replace("_", " "))
    canvas.label_y(ax, "validation accuracy in %")


def _look(line: int, effect: Effect) -> dict[str, Any]:
    marker = MARKERS[line % len(MARKERS)]
    return {"color": colour(effect.method), "marker": marker, "markersize": 4, "linewidth": 1.3}


def _protocol(run: Run | Group) -> tuple[Any, ...]:
    """What has to be equal for two runs of a method to be comparable."""
    fixed = {name: value for name, value in run.settings.items() if name not in VARIED}
    return (run.fingerprint, run.precision, run.numerics, settings_text(fixed))
