"""Learning curves, and when the trainings stopped."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sagpool.bench.run_table import column
from sagpool.bench.summary import Summary
from sagpool.fleet.stopping import LOSS, RULES, Rule
from sagpool.report import canvas, names
from sagpool.report.colours import colour
from sagpool.report.content import MOST_CURVES, Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section

LOSSES, GAP, STRIP = 1.75, 0.1, 0.2  # heights in inches; one strip for each method
TRAIN, VALIDATION = 0, 1  # rows of a run's curve


def section(content: Content) -> Section:
    most, rule = MOST_CURVES, _rule(content.shown)  # all shown cells have the same protocol
    many = any(len(s.runs) > most for s in content.shown)
    return Section(
        "curves",
        "Learning curves",
        [Part(drawings=list(_drawings(content)))],
        [
            "Medians over the trainings that have not stopped, up to the epoch that half of them "
            "reach: validation solid, with a band over the middle half; train loss dashed.",
            "The two lines are not comparable: the train loss is a mean over the batches of an "
            "epoch, with dropout active, and includes auxiliary losses of pooling layers (such as "
            f"DiffPool); {_validation_in_words(rule)}.",
            f"Below: dots are the epochs with {_best_in_words(rule)}, whose weights are tested; "
            "the bar spans the middle half of the epochs at which the trainings stopped, with a "
            "mark at the median. The axis ends where 95 % of the trainings have stopped.",
            *([f"At most {most} trainings of each method are drawn."] if many else []),
        ],
    )


def solid_line(summary: Summary) -> str:
    """The quantity by which the trainings of a cell stop; curves have no other of validation."""
    rule = _rule([summary])
    if rule.metric:
        return f"negative validation {_metric(rule)}"
    return "validation loss" + (" + norm" if rule.adds_norm else "")


def _rule(summaries: Sequence[Summary]) -> Rule:
    return RULES[summaries[0].cell.settings.get("stopping", "loss")] if summaries else LOSS


def _metric(rule: Rule) -> str:
    return rule.metric.replace("_", " ")


def _validation_in_words(rule: Rule) -> str:
    if rule.metric:
        return (
            f"the solid line is not a loss but the negative validation {_metric(rule)}, which "
            "decides when trainings stop"
        )
    if rule.adds_norm:
        return (
            "the solid line is the validation loss of the predictions, after the epoch, plus the "
            "weight decay times the norm of the weights, which decides when trainings stop"
        )
    return "the validation loss is that of the predictions alone, after the epoch"


def _best_in_words(rule: Rule) -> str:
    """What tells the best epoch. Regressions have no curves here, so a metric is no error."""
    if rule.metric:
        return f"the highest validation {_metric(rule)}"
    return "the lowest validation loss" + (" plus norm" if rule.adds_norm else "")


def _drawings(content: Content) -> Iterator[Drawing]:
    for dataset in content.datasets:
        label = content.label(dataset)
        for family, members in _families(content.of(dataset)).items():
            epochs = np.median(np.concatenate([column(s.runs, "epochs") for s in members]))
            keys = [
                Line2D(
                    [],
                    [],
                    color=colour(method),
                    linewidth=1.8,
                    label=canvas.short(names.label(method)),
                )
                for method in (summary.method for summary in members)
            ]
            top, strips = canvas.head_height(keys), STRIP * len(members)
            height = top + LOSSES + GAP + strips + canvas.BOTTOM
            figure = canvas.new_figure(f"{label} · {family}", height, keys)
            bottom, left = canvas.BOTTOM, canvas.LEFT
            losses = canvas.add_axes(figure, left=left, bottom=bottom + strips + GAP, top=top)
            stops = canvas.add_axes(figure, left=left, bottom=bottom, top=top + LOSSES + GAP)
            curves = [content.curves[s.runs[0].key] for s in members]
            draw_curves(losses, stops, members, curves)
            half = f"half of the trainings ended by epoch {epochs:.0f}"
            caption = f"Learning curves on {label}; {half}"
            yield Drawing(f"curves-{dataset}-{family}", caption, figure)


def _families(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """Groups of cells of one data set, each with few enough lines for one panel.

    The variants of a method are in its group.
    """
    families = {}
    for title in names.ARCHITECTURES:
        here = [s for s in summaries if names.architecture(s.cell.method) == title]
        variants = [s for s in here if names.is_variant(s.cell.method)]
        families[title] = [s for s in here if s not in variants]
        if variants:
            base = [s for s in here if names.parts(s.cell.method)[::2] == ("sagpool", "")]
            families[f"{title} variants"] = base + variants
    return {title: members for title, members in families.items() if members}


def draw_curves(
    losses: Axes,
    stops: Axes,
    summaries: Sequence[Summary],
    curves: Sequence[Sequence[np.ndarray]],
) -> None:
    """Draw validation and train loss on one axes, and best and last epochs on the axes below.

    Args:
        losses: axes for the losses
        stops: axes for the epochs
        summaries: cells of one data set
        curves: curves of runs of each of these cells, as in `Run`
    """
    last = max(float(np.quantile(column(s.runs, "epochs"), 0.95)) for s in summaries)
    shown: list[np.ndarray] = []
    for row, (summary, of_runs) in enumerate(zip(summaries, curves, strict=True)):
        shown += _draw_losses(losses, summary.method, of_runs)
        _draw_stops(stops, row, summary)
    heights = np.concatenate(shown)
    if len(heights):
        # Without a limit, the first epochs of a bad setting would flatten all other curves.
        low, high = np.quantile(heights, [0, 0.99])
        margin = 0.06 * (high - low or 1)
        losses.set_ylim(low - margin, high + margin)
    for ax in (losses, stops):
        ax.set_xlim(0, max(1.03 * last, 2))
    canvas.add_grid(losses)
    canvas.add_grid(stops, "x")
    losses.tick_params(axis="x", labelbottom=False, length=0)
    losses.locator_params(axis="y", nbins=5)
    canvas.label_y(losses, _both_lines(summaries[0]))
    stops.set(ylim=(len(summaries) - 0.4, -0.6), yticks=[])
    canvas.label_x(stops, "epoch")


def _both_lines(summary: Summary) -> str:
    solid = solid_line(summary)
    return "train and validation loss" if solid == "validation loss" else f"train loss, {solid}"


class Median(NamedTuple):
    """Median over the runs that have not stopped, up to the epoch that half of the runs reach."""

    low: np.ndarray  # [epochs] quartile
    middle: np.ndarray  # [epochs]
    high: np.ndarray  # [epochs] quartile


def median_curve(curves: Sequence[np.ndarray], row: int) -> Median:
    """The median of one row of the ``[3, epochs]`` curves of runs."""
    lengths = np.sort([curve.shape[1] for curve in curves])[::-1]
    epochs = int(lengths[(len(curves) + 1) // 2 - 1])  # at least half of the runs reach it
    values = np.full((len(curves), epochs), np.nan)
    for i, curve in enumerate(curves):
        seen = curve[row, :epochs]
        values[i, : len(seen)] = np.where(np.isfinite(seen), seen, np.nan)
    # nanquantile warns about epochs in which no run has a finite loss.
    some = ~np.isnan(values).all(axis=0)
    quartiles = np.full((3, epochs), np.nan)
    quartiles[:, some] = np.nanquantile(values[:, some], [0.25, 0.5, 0.75], axis=0)
    return Median(*quartiles)


def _draw_losses(ax: Axes, method: str, curves: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Draw the losses; returns the drawn heights, from which the axis limits are chosen."""
    tint = colour(method)
    train, validation = (median_curve(curves, row) for row in (TRAIN, VALIDATION))
    epoch = np.arange(1, len(train.middle) + 1)
    if len(curves) > 1:
        ax.fill_between(epoch, validation.low, validation.high, color=tint, alpha=0.16, linewidth=0)
    ax.plot(epoch, train.middle, color=tint, linewidth=1, linestyle=(0, (3, 2)))
    ax.plot(epoch, validation.middle, color=tint, linewidth=1.6)
    drawn = (train.middle, validation.middle, validation.low, validation.high)
    return [values[np.isfinite(values)] for values in drawn]


def _draw_stops(ax: Axes, row: int, summary: Summary) -> None:
    """Dots at the best epochs, a bar over the middle half of the last epochs."""
    tint = colour(summary.method)
    best = column(summary.runs, "best_epoch")
    best = best[best > 0]
    low, middle, high = np.quantile(column(summary.runs, "epochs"), [0.25, 0.5, 0.75])
    ax.plot([low, high], [row, row], color=tint, linewidth=5, alpha=0.3, solid_capstyle="butt")
    ax.plot([middle, middle], [row - 0.32, row + 0.32], color=tint, linewidth=1.8)
    canvas.add_dots(ax, best, row + canvas.jitter(len(best), 0.4), tint, size=1.8)
