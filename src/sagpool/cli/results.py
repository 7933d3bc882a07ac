"""The results of a store as a table on the terminal."""

import json
from collections.abc import Sequence

from rich import box
from rich.table import Table

from sagpool.bench.display import HEADS, WORDS, cell_row
from sagpool.bench.selection import BY_TEST, OPTIMISTIC, Select
from sagpool.bench.summary import Summary
from sagpool.cli.console import table_console

_SELECTED = {
    Select.OVER_FOLDS: "over the folds",
    Select.PER_FOLD: "per fold",
    Select.TEST: BY_TEST,
}


def print_results(summaries: Sequence[Summary]) -> None:
    """One row for each cell; accuracies in percent."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, column in enumerate(HEADS):
        table.add_column(column, justify="left" if number < WORDS else "right", no_wrap=True)
    previous = None
    for summary in summaries:
        if previous not in (None, summary.cell.dataset):
            table.add_section()
        previous = summary.cell.dataset
        table.add_row(*cell_row(summary))
    console = table_console()
    console.print(table)
    for summary in summaries:
        for line in _about_cell(summary):
            console.print(line, highlight=False, soft_wrap=True)
    if any(summary.select is Select.TEST for summary in summaries):
        console.print(OPTIMISTIC, style="bold red", highlight=False, soft_wrap=True)


def _about_cell(summary: Summary) -> list[str]:
    """What its search has cost, how much better a choice over all folds would look, and so on."""
    cell, lines = summary.cell, []
    how = _SELECTED[summary.select]
    if cell.cost is not None:
        lines.append(f"search ({cell.search}, {how}): {cell.cost}")
    if summary.over_folds is not None and summary.optimism is not None:
        lines.append(
            f"chosen over all folds, the mean would be {summary.over_folds:.2f} % "
            f"({summary.optimism:+z.2f} points)"
        )
    if summary.mismatch:
        lines.append(f"not matched: {summary.mismatch}")
    return [f"{cell.dataset} {cell.method}: {line}" for line in lines]


def print_json(value: object) -> None:
    """Strict JSON, without NaN."""
    print(json.dumps(value, indent=2, allow_nan=False))
