"""All figures of a report, drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from sagpool.bench.summary import Summary
from sagpool.explain import Trace
from sagpool.report import names
from sagpool.report.canvas import STYLE, Picture, render
from sagpool.report.content import Content
from sagpool.report.figures.accuracy import accuracy_figure
from sagpool.report.figures.costs import costs_figure
from sagpool.report.figures.curves import curves_figure
from sagpool.report.figures.kept import kept_figure
from sagpool.report.figures.parameters import count_all, parameters_figure
from sagpool.report.figures.sensitivity import VARIED, effects, sensitivity_figure
from sagpool.report.listings import baseline, seconds
from sagpool.report.results import ARCHITECTURES

MOST_LINES = 7  # that one can tell apart


@dataclass(frozen=True)
class Row:
    heading: str
    pictures: list[Picture]


@dataclass(frozen=True)
class Gallery:
    accuracy: list[Picture]
    curves: list[Picture]
    sensitivity: list[Picture]
    costs: list[Picture]
    parameters: Picture
    kept: list[Row]

    @property
    def pictures(self) -> list[Picture]:
        rows = [picture for row in self.kept for picture in row.pictures]
        of_sets = [*self.accuracy, *self.curves, *self.sensitivity, *self.costs]
        return [*of_sets, self.parameters, *rows]


def draw_all(content: Content) -> Gallery:
    files = _Files()
    with rc_context(STYLE):
        return Gallery(
            accuracy=[files.render(*drawn) for drawn in _accuracy(content)],
            curves=[files.render(*drawn) for drawn in _curves(content)],
            sensitivity=[files.render(*drawn) for drawn in _sensitivity(content)],
            costs=[files.render(*drawn) for drawn in _costs(content)],
            parameters=files.render(
                parameters_figure("Parameters", count_all()),
                "parameters",
                "Parameters against the size of the largest graph",
            ),
            kept=_kept(content, files),
        )


class _Files:
    """Renders figures under names that are fit for files, and each of them used once."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def render(self, figure: Figure, name: str, caption: str) -> Picture:
        fit = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
        unique, count = fit, 2
        while unique.lower() in self.used:  # some file systems do not tell A from a
            unique, count = f"{fit}-{count}", count + 1
        self.used.add(unique.lower())
        return render(figure, unique, caption)


Drawing = tuple[Figure, str, str]  # with the name and the caption


def _accuracy(content: Content) -> Iterator[Drawing]:
    for dataset in content.datasets:
        here, label = content.of(dataset), content.label(dataset)
        figure = accuracy_figure(label, here, content.majority(dataset))
        fewest, most = (choice(len(s.runs) for s in here) for choice in (min, max))
        each = str(most) if fewest == most else f"{fewest} to {most}"
        caption = f"Test accuracies on {label}; trainings of each method: {each}"
        yield figure, f"accuracy-{dataset}", caption


def _curves(content: Content) -> Iterator[Drawing]:
    for dataset in content.datasets:
        for family, members in _families(content.of(dataset)):
            label = content.label(dataset)
            figure = curves_figure(f"{label} · {family}", members)
            epochs = np.median([run.epochs for summary in members for run in summary.runs])
            caption = (
                f"Learning curves on {label}; half of the trainings ended by epoch {epochs:.0f}"
            )
            yield figure, f"curves-{dataset}-{family}", caption


def _sensitivity(content: Content) -> Iterator[Drawing]:
    for dataset in content.datasets:
        found = [effect for s in content.of(dataset) for effect in effects(s, content.runs)]
        for setting in VARIED:
            here = [effect for effect in found if effect.setting == setting]
            split = len(here) > MOST_LINES
            for variants in (False, True) if split else (None,):
                shown = [e for e in here if variants in (None, names.is_variant(e.method))]
                if not shown:
                    continue
                what = setting.replace("_", " ") + (" · variants" if variants else "")
                label = content.label(dataset)
                figure = sensitivity_figure(f"{label} · {what}", setting, shown)
                runs = sum(effect.runs for effect in shown)
                caption = f"Validation accuracy on {label} against {what}, from {runs:,} trainings"
                yield figure, f"sensitivity-{dataset}-{what}", caption


def _costs(content: Content) -> Iterator[Drawing]:
    for dataset in content.datasets:
        here = content.of(dataset)
        base = baseline(here)
        if base is None or len(here) == 1 or not (seconds(base) and base.cell.bytes):
            continue
        label = content.label(dataset)
        figure = costs_figure(label, here, base)
        caption = (
            f"Time and memory on {label}; a training of {base.cell.method} takes "
            f"{seconds(base):.2g} s, a step of it {base.cell.bytes / 2**20:.2g} MiB"
        )
        yield figure, f"costs-{dataset}", caption


def _kept(content: Content, files: _Files) -> list[Row]:
    """Graph by graph, so that one sees side by side what the methods make of it."""
    rows = []
    for dataset in content.datasets:
        drawn = [
            (trace, one.summary.cell.method)
            for one in content.drawn
            if one.summary.cell.dataset == dataset
            for trace in one.traces
        ]
        numbers = list(dict.fromkeys(trace.number for trace, _ in drawn))
        drawn.sort(key=lambda pair: numbers.index(pair[0].number))
        pictures = [
            files.render(
                kept_figure(trace, method),
                f"kept-{dataset}-{trace.number}-{method}",
                f"{method}: {_sizes(trace)} nodes",
            )
            for trace, method in drawn
        ]
        if pictures:
            methods = dict.fromkeys(method for _, method in drawn)
            rows.append(Row(f"{content.label(dataset)}: {', '.join(methods)}", pictures))
    return rows


def _sizes(trace: Trace) -> str:
    counts = [trace.num_nodes, *(len(level.kept) for level in trace.levels)]
    return " → ".join(map(str, counts))


def _families(summaries: Sequence[Summary]) -> Iterator[tuple[str, list[Summary]]]:
    """Cells of one data set in groups of few enough lines for one panel, with their titles.

    Variants have the method of which they are variants beside them.
    """
    for title in ARCHITECTURES:
        for variants in (False, True):
            here = [s for s in summaries if names.architecture(s.cell.method) == title]
            group = [s for s in here if names.is_variant(s.cell.method) == variants]
            if group and variants:
                base = [s for s in here if names.parts(s.cell.method)[::2] == ("sagpool", "")]
                yield f"{title} variants", base + group
            elif group:
                yield title, group
