"""The plain lists of the report: all cells, searches, costs, comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from sagpool.bench.records import Ranked
from sagpool.bench.summary import Summary
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.results import SIGNIFICANT
from sagpool.report.table import Table, code, listing, method, number, plus_minus, text

BASELINE = "sagpool-h"


def cells_table(content: Content) -> Table:
    """Every cell, those that were asked for again with other settings included."""
    summaries = content.summaries
    common = _common([summary.cell.settings for summary in summaries])
    rows, records = [], []
    for summary in summaries:
        told, spread = summary.to_json(), summary.spread
        own = {k: v for k, v in summary.cell.settings.items() if k not in common}
        low, high = spread.ci95 or (None, None)
        rows.append(
            [
                text(content.label(summary.cell.dataset)),
                code(summary.cell.method),
                text(told["runs"]),
                text(told["diverged"]),
                number(told["mean"]),
                number(spread.std_seeds),
                number(spread.std_folds),
                text("" if low is None else f"{low:.2f} to {high:.2f}"),
                plus_minus(summary.cell.paper_mean, summary.cell.paper_std),
                number(told["epochs"], ".0f"),
                number(told["seconds"] / told["runs"], ".2f"),
                number(told["parameters"], ",d"),
                text(names.settings(own) or "as below"),
            ]
        )
        flat = {k: v for k, v in told.items() if k not in ("settings", "ci95")}
        settings = {f"setting_{k}": v for k, v in told["settings"].items()}
        records.append({**flat, "ci95_low": low, "ci95_high": high, **settings})
    note = f"The same everywhere: {names.settings(common)}." if common else ""
    return listing(
        "cells",
        "All cells. Accuracies in percent; epochs and seconds are means of a single training.",
        [
            *("data set", "method", "runs", "diverged", "mean", "± seeds", "± folds"),
            *("95 % interval", "paper", "epochs", "seconds", "parameters", "settings"),
        ],
        rows,
        records,
        words=("data set", "method", "settings"),
        notes=[note] if note else [],
    )


def pairs_table(content: Content) -> Table:
    rows, records = [], []
    for pair in content.pairs:
        rows.append(
            [
                text(content.label(pair.dataset)),
                method(pair.first),
                method(pair.second),
                number(pair.comparison.difference, "+.2f"),
                text(p_value(pair.comparison.p)),
                text(p_value(pair.holm)),
                text(pair.comparison.runs),
            ]
        )
        records.append(
            {
                "dataset": pair.dataset,
                "first": pair.first,
                "second": pair.second,
                "difference": pair.comparison.difference,
                "p": pair.comparison.p,
                "holm_p": pair.holm,
                "significant": pair.holm < SIGNIFICANT,
                "splits": pair.comparison.runs,
            }
        )
    return listing(
        "pairs",
        "All pairs of methods: difference of the mean test accuracies on the same splits, in "
        "points, with the corrected resampled t-test (Nadeau and Bengio) and Holm's correction "
        "over all pairs of the data set.",
        ["data set", "first", "second", "difference", "p", "p (Holm)", "splits"],
        rows,
        records,
        words=("data set", "first", "second"),
    )


def p_value(p: float) -> str:
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def search_table(content: Content) -> Table | None:
    """What was chosen, and from what."""
    searched = [summary for summary in content.summaries if summary.cell.ranking]
    if not searched:
        return None
    rows, records = [], []
    for summary in searched:
        ranking = summary.cell.ranking
        common = _common([candidate.settings for candidate in ranking])
        first, second = (
            _chosen(ranking[i], common) if i < len(ranking) else None for i in range(2)
        )
        assert first is not None
        rows.append(
            [
                text(content.label(summary.cell.dataset)),
                method(summary.cell.method),
                text(first["settings"]),
                text(second["settings"] if second else "none"),
                number(first["accuracy"]),
                number(second["accuracy"] if second else None),
                text(len(ranking)),
                text(summary.cell.search),
            ]
        )
        records.append(
            {
                "dataset": summary.cell.dataset,
                "method": summary.cell.method,
                "search": summary.cell.search,
                "candidates": len(ranking),
                **{f"chosen_{k}": v for k, v in first.items()},
                **{f"second_{k}": v for k, v in (second or {}).items()},
            }
        )
    return listing(
        "search",
        "What the searches chose, by the mean validation accuracy (in percent) over the folds of "
        "the first seed, and the runner-up. Test results had no part in it.",
        [
            *("data set", "method", "chosen", "runner-up", "validation", "of the runner-up"),
            *("candidates", "search"),
        ],
        rows,
        records,
        words=("data set", "method", "chosen", "runner-up"),
    )


def _chosen(candidate: Ranked, common: dict[str, Any]) -> dict[str, Any]:
    own = {k: v for k, v in candidate.settings.items() if k not in common}
    return {
        "settings": names.settings(own),
        "accuracy": 100 * candidate.accuracy,
        "loss": candidate.loss,
        "runs": candidate.runs,
    }


def baseline(summaries: list[Summary]) -> Summary | None:
    """What the costs of a data set's methods are measured against."""
    return next((s for s in summaries if s.cell.method == BASELINE), None)


def seconds(summary: Summary) -> float:
    """Of a single training."""
    return float(np.mean([run.seconds for run in summary.runs]))


def costs_table(content: Content) -> Table:
    rows, records = [], []
    for summary in content.shown:
        base = baseline(content.of(summary.cell.dataset))
        epochs = summary.epochs
        time, memory = seconds(summary), summary.cell.bytes
        times = time / seconds(base) if base and seconds(base) else None
        sizes = memory / base.cell.bytes if memory and base and base.cell.bytes else None
        parameters = summary.runs[0].parameters
        rows.append(
            [
                text(content.label(summary.cell.dataset)),
                method(summary.cell.method),
                number(time, ".2f"),
                number(times, ".2f"),
                number(epochs, ".0f"),
                number(1000 * time / epochs if epochs else None, ".1f"),
                number(memory / 2**20 if memory else None, ".1f"),
                number(sizes, ".2f"),
                number(parameters, ",d"),
            ]
        )
        records.append(
            {
                "dataset": summary.cell.dataset,
                "method": summary.cell.method,
                "seconds": time,
                "seconds_relative": times,
                "epochs": epochs,
                "step_bytes": memory,
                "step_bytes_relative": sizes,
                "parameters": parameters,
            }
        )
    return listing(
        "costs",
        "What a single training takes. × is relative to SAGPool_h on the same data set. Seconds "
        "are shared out among the models that trained together; memory is that of a training step.",
        [
            *("data set", "method", "seconds", "×", "epochs", "ms per epoch", "MiB per step", "×"),
            "parameters",
        ],
        rows,
        records,
        words=("data set", "method"),
    )


def _common(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """What all of them agree on, if there are several."""
    if len(settings) == 1:
        return {}
    first, *others = settings
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in others)}
