"""The results of an experiment: rows of a table, a display in notebooks, and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sagpool.bench.majority import majority_note
from sagpool.bench.selection import OPTIMISTIC, Select
from sagpool.bench.summary import Summary
from sagpool.graphs.splits import TEST
from sagpool.html import card, note, table

if TYPE_CHECKING:
    from sagpool.bench.api import ExperimentResult

WORDS = 2  # leading columns of words; the others are numbers
MEANINGS = {
    "accuracy": "of the tests, in percent",
    "± seeds": "standard deviation of the means of the seeds",
    "± folds": "standard deviation of the single trainings",
}


class CellRow(NamedTuple):
    """A cell in a table, as text; empty where a value is missing."""

    dataset: str
    method: str
    runs: str
    accuracy: str
    seeds: str
    folds: str
    interval: str
    paper: str
    epochs: str


HEADS = CellRow(
    *("data set", "method", "runs", "accuracy", "± seeds", "± folds", "95 % interval"),
    *("paper", "epochs"),
)


def cell_row(summary: Summary) -> CellRow:
    cell, spread = summary.cell, summary.spread
    return CellRow(
        cell.dataset,
        cell.method,
        _runs(summary),
        _measure(summary),
        _two_decimals(spread.std_seeds),
        _two_decimals(spread.std_folds),
        f"{spread.ci95[0]:.2f} to {spread.ci95[1]:.2f}" if spread.ci95 else "",
        f"{cell.paper_mean:.2f} ± {cell.paper_std:.2f}" if cell.paper_mean is not None else "",
        f"{summary.epochs:.0f}",
    )


def test_names(summaries: Sequence[Summary]) -> list[str]:
    """The tests of fixed splits that have columns of their own: all but the main one of a cell."""
    return list(dict.fromkeys(name for s in summaries for name in [*s.tests][1:]))


def main_tests(summaries: Sequence[Summary]) -> list[str]:
    """Names the test that the column of accuracies shows, for each data set with several tests."""
    main = {s.cell.dataset: s.main_test for s in summaries if s.main_test}
    return [
        f"{dataset}: the accuracy is that of the test '{name}'"
        + ("" if name == TEST else ", the first one of the split")
        for dataset, name in main.items()
    ]


def test_columns(summary: Summary, names: Sequence[str]) -> list[str]:
    """The accuracy in each of these tests, with the published one if any."""
    cells = []
    for name in names:
        shown = ""
        if (spread := summary.tests.get(name)) is not None:
            std = "" if spread.std_seeds is None else f" ± {spread.std_seeds:.2f}"
            shown = f"{spread.mean:.2f}{std}"
            if name in (published := summary.cell.paper_tests or {}):
                shown += " (paper {:g} ± {:g})".format(*published[name])
        cells.append(shown)
    return cells


def result_text(result: ExperimentResult) -> str:
    """One line for each cell."""
    lines = [f"ExperimentResult({_size(result)}, in {result.store})"]
    for summary in result.summaries:
        row = cell_row(summary)
        spread = f" ± {row.folds}" if row.folds else ""
        names = test_names([summary])
        more = zip(names, test_columns(summary, names), strict=True)
        tests = "".join(f", {name} {shown}" for name, shown in more)
        lines.append(
            f"  {row.dataset} {row.method}: {row.accuracy}{spread}{tests} over {row.runs} runs"
        )
    return "\n".join([*lines, *_remarks(result)])


def result_html(result: ExperimentResult) -> str:
    """A table of the cells; a column in which no cell has a value is left out."""
    names = test_names(result.summaries)
    rows = [[*cell_row(s), *test_columns(s, names)] for s in result.summaries]
    filled = [i for i in range(len(HEADS) + len(names)) if any(row[i] for row in rows)]
    heads = [[*HEADS, *names][i] for i in filled]
    cells = [[row[i] for i in filled] for row in rows]
    meanings = "; ".join(f"{head}: {MEANINGS[head]}" for head in heads if head in MEANINGS)
    notes = [meanings, f"Run store: {result.store}", *_remarks(result)]
    return card(_size(result), table(heads, cells, words=WORDS), *map(note, notes))


def _size(result: ExperimentResult) -> str:
    runs = sum(len(summary.runs) for summary in result.summaries)
    return f"{len(result.cells)} cells, {runs:,} trainings"


def _remarks(result: ExperimentResult) -> list[str]:
    optimistic = any(summary.select is Select.TEST for summary in result.summaries)
    remarks = (
        *main_tests(result.summaries),
        majority_note(result.summaries),
        result.failure,
        OPTIMISTIC if optimistic else "",
    )
    return [text for text in remarks if text]


def _measure(summary: Summary) -> str:
    """The accuracy, or the loss of a regression."""
    if summary.learnt:
        return f"{summary.spread.mean:.2f}"
    return "none learnt" if summary.loss is None else f"loss {summary.loss:.4g}"


def _runs(summary: Summary) -> str:
    notes = [
        f"{count} {what}"
        for count, what in ((summary.diverged, "diverged"), (len(summary.failures), "failed"))
        if count
    ]
    return f"{len(summary.runs)}" + (f" ({', '.join(notes)})" if notes else "")


def _two_decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
