"""How much a setting matters: validation accuracy against each value that was tried."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from sagpool.bench.records import Run
from sagpool.bench.run_table import Group, RunTable
from sagpool.bench.stored_cells import settings_text
from sagpool.bench.summary import Summary
from sagpool.bench.variants import searched_method_settings
from sagpool.models import Value
from sagpool.report import canvas, names
from sagpool.report.colours import colour
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section

# What a search may vary, beside settings of the method itself; all else has to be equal for two
# runs to be comparable.
VARIED = ("lr", "weight_decay", "hidden", "ratio", "dropout", "batch_size")
LOGARITHMIC = ("lr", "weight_decay", "hidden", "batch_size")
MARKERS = "osD^vPX"
MOST_LINES = 7  # in one panel
BESIDE = 0.09  # between two methods with the same word, as a fraction of the distance of two words
MOST_LETTERS = 48  # of all words below an axis
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
            "on the splits that all of them have in common, if there are any. Settings of a method "
            "itself are included if its search varied them. A training that diverged at once "
            "counts as 0 %."
        ],
    )


def _drawings(content: Content) -> Iterator[Drawing]:
    for dataset in content.datasets:
        label = content.label(dataset)
        # Cells that differ in what is varied here have the same effects.
        cells = {
            (s.cell.method, _protocol(s.runs[0], varied := _varied(s)), tuple(varied)): s
            for s in reversed(content.of(dataset))
        }
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
    values: list[Value | None]  # numbers ascending, then words; None: a default that is not known
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
    cell, varied = summary.cell, _varied(summary)
    protocol = _protocol(summary.runs[0], varied)
    combinations = [
        (group.settings, whole)
        for group, some in runs.by_group
        if (group.fingerprint, group.method) == (cell.fingerprint, cell.method)
        if _protocol(group, varied) == protocol
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
    for setting, default in varied.items():
        by_value: dict[Value | None, list[float]] = defaultdict(list)
        for settings, accuracy in compared:
            by_value[settings.get(setting, default)].append(float(accuracy.mean()))
        if len(by_value) > 1:
            values = sorted(by_value, key=_place)
            means = [float(np.mean(by_value[value])) for value in values]
            runs_used = sum(len(accuracy) for _, accuracy in compared)
            found.append(Effect(summary.method, setting, values, means, runs_used))
    return found


def _varied(summary: Summary) -> dict[str, Value | None]:
    """What may vary among the runs of an effect, with the defaults that stores leave out."""
    return dict.fromkeys(VARIED) | searched_method_settings(summary.cell)


def _numbers(values: Sequence[Value | None]) -> list[float]:
    """Those of the values that are numbers."""
    return [
        float(value)
        for value in values
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]


def _place(value: Value | None) -> tuple[bool, float, str]:
    """By which values are sorted."""
    number = _numbers([value])
    return (False, number[0], "") if number else (True, 0.0, str(value))


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
    for setting in dict.fromkeys((*VARIED, *(effect.setting for effect in found))):
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
    values = sorted({value for effect in shown for value in effect.values}, key=_place)
    numbers = _numbers(values)
    if len(numbers) == len(values):
        _draw_numbers(ax, shown, numbers)
    else:
        _draw_words(ax, shown, values)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.margins(x=0.07, y=0.12)
    low, high = ax.get_ylim()
    if high - low < SMALLEST_RANGE:
        ax.set_ylim((low + high - SMALLEST_RANGE) / 2, (low + high + SMALLEST_RANGE) / 2)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    canvas.add_grid(ax)
    canvas.label_x(ax, setting.replace("_", " "))
    canvas.label_y(ax, "validation accuracy in %")


def _draw_numbers(ax: Axes, shown: Sequence[Effect], values: Sequence[float]) -> None:
    for i, effect in enumerate(shown):
        ax.plot(_numbers(effect.values), effect.accuracy, **_look(i, effect))
    if shown[0].setting in LOGARITHMIC and values[0] > 0:
        ax.set_xscale("log")
    ax.set_xticks(values, [names.setting(value) for value in values])


def _draw_words(ax: Axes, shown: Sequence[Effect], values: Sequence[Value | None]) -> None:
    """Values that have no distances: a column for each, in which the methods are side by side."""
    for i, effect in enumerate(shown):
        aside = BESIDE * (i - (len(shown) - 1) / 2)
        x = [values.index(value) + aside for value in effect.values]
        ax.plot(x, effect.accuracy, **_look(i, effect) | {"linestyle": "none"})
    labels = ["default" if value is None else names.setting(value) for value in values]
    most = max(4, MOST_LETTERS // len(labels))
    ax.set_xticks(range(len(values)), [canvas.short(label, most) for label in labels])


def _look(line: int, effect: Effect) -> dict[str, Any]:
    marker = MARKERS[line % len(MARKERS)]
    return {"color": colour(effect.method), "marker": marker, "markersize": 4, "linewidth": 1.3}


def _protocol(run: Run | Group, varied: Collection[str]) -> tuple[Any, ...]:
    """What has to be equal for two runs of a method to be comparable."""
    fixed = {name: value for name, value in run.settings.items() if name not in varied}
    return (run.fingerprint, run.precision, run.numerics, settings_text(fixed))
