"""A summary of the runs behind each number of a table: a page cannot hold a million rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sagpool.bench.run_table import column
from sagpool.bench.summary import Summary
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.sections.curves import TRAIN, VALIDATION, median_curve, solid_line
from sagpool.statistics import evenly_spaced

MOST_SEEDS = 100  # most seeds whose means are drawn
MOST_POINTS = 100  # most points of a curve


def runs_behind(content: Content) -> dict[str, dict[str, Any]]:
    """JSON values for each cell in a table of results, by `Content.cell_id`."""
    return {
        content.cell_id(summary): _summary_of_runs(content, summary)
        for group in content.groups
        for summary in group.cells
    }


def _summary_of_runs(content: Content, summary: Summary) -> dict[str, Any]:
    curves = content.curves.get(summary.runs[0].key)
    means = _means_by(summary, "seed")
    return {
        "title": f"{names.plain(summary.method)} on {content.label(summary.cell.dataset)}",
        "facts": _facts(summary),
        "seeds": [round(means[i], 2) for i in evenly_spaced(len(means), MOST_SEEDS)],
        "folds": [round(mean, 2) for mean in _means_by(summary, "fold")],
        "curve": None if not curves else _curve(curves) | {"solid": solid_line(summary)},
    }


def _facts(summary: Summary) -> list[tuple[str, str]]:
    accuracy, spread = summary.accuracy, summary.spread
    seeds, folds = (len(np.unique(column(summary.runs, name))) for name in ("seed", "fold"))
    facts = [
        (
            "trainings",
            f"{len(summary.runs):,}, of {_plural(seeds, 'seed')}, {_plural(folds, 'fold')}",
        ),
        ("mean", f"{spread.mean:.2f} %"),
        ("± per seed", "one seed alone" if spread.std_seeds is None else f"{spread.std_seeds:.2f}"),
        ("± per fold", "one run alone" if spread.std_folds is None else f"{spread.std_folds:.2f}"),
        ("range", f"{accuracy.min():.2f} to {accuracy.max():.2f} %"),
    ]
    if spread.ci95 is not None:
        facts.append(("95 % interval", f"{spread.ci95[0]:.2f} to {spread.ci95[1]:.2f} %"))
    if summary.diverged:
        facts.append(("diverged", f"{summary.diverged:,}"))
    return [*facts, ("epochs", f"{summary.epochs:.0f} on average")]


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def _means_by(summary: Summary, name: str) -> list[float]:
    """The mean accuracies of the runs of each seed or fold, in percent."""
    accuracy = 100 * column(summary.runs, "test_accuracy")
    learnt = ~np.isnan(accuracy)
    _, owner = np.unique(column(summary.runs, name)[learnt], return_inverse=True)
    sums = np.bincount(owner, accuracy[learnt])
    return (sums / np.bincount(owner)).tolist()


def _curve(curves: list[np.ndarray]) -> dict[str, Any]:
    """Medians and quartiles of the losses at some of the epochs."""
    train, validation = (median_curve(curves, row) for row in (TRAIN, VALIDATION))
    epochs = evenly_spaced(len(train.middle), MOST_POINTS)

    def values(line: np.ndarray) -> list[float | None]:
        return [float(f"{line[i]:.4g}") if np.isfinite(line[i]) else None for i in epochs]

    return {
        "epochs": [int(i) + 1 for i in epochs],
        "train": values(train.middle),
        "validation": values(validation.middle),
        "low": values(validation.low),
        "high": values(validation.high),
    }
