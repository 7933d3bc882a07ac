"""The results of a store as a table on the terminal."""

import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from sagpool.bench.against import MEANING, Against
from sagpool.bench.display import HEADS, WORDS, cell_row, main_tests, test_columns, test_names
from sagpool.bench.majority import majority_note
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
    tests = test_names(summaries)
    for number, column in enumerate([*HEADS, *tests]):
        table.add_column(column, justify="left" if number < WORDS else "right", no_wrap=True)
    previous = None
    for summary in summaries:
        if previous not in (None, summary.cell.dataset):
            table.add_section()
        previous = summary.cell.dataset
        table.add_row(*cell_row(summary), *test_columns(summary, tests))
    console = table_console()
    console.print(table)
    lines = [*main_tests(summaries), *(line for s in summaries for line in _about_cell(s))]
    for line in filter(None, (*lines, majority_note(summaries))):
        console.print(line, highlight=False, soft_wrap=True)
    if any(summary.select is Select.TEST for summary in summaries):
        console.print(OPTIMISTIC, style="bold red", highlight=False, soft_wrap=True)


def _about_cell(summary: Summary) -> list[str]:
    """Remarks on a cell: the cost of its search, the optimism of a choice over all folds, ..."""
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


def print_against(found: Sequence[Against]) -> None:
    """Print one row for each comparison with the requested method."""
    if not found:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    heads = ("data set", f"against {found[0].reference}", "difference", "95 % interval", "p")
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number < 2 else "right", no_wrap=True)
    for one in found:
        table.add_row(one.summary.cell.dataset, one.summary.method, *one.words())
    console = table_console()
    console.print(table)
    console.print(MEANING.format(count=len(found)), highlight=False, soft_wrap=True)


def cells_json(summaries: Sequence[Summary], against: Sequence[Against]) -> list[dict[str, Any]]:
    """The cells as JSON, with the comparison for cells that were compared."""
    # By cell: a method may have several on a data set. A cell in two tables has the comparison of
    # the first.
    compared = {id(a.summary.cell): a.to_json() for a in reversed(against)}
    rows = []
    for summary in summaries:
        row = summary.to_json()
        if against:
            row["against"] = compared.get(id(summary.cell))
        rows.append(row)
    return rows


def print_json(value: object) -> None:
    """Print strict JSON, without NaN."""
    print(json.dumps(value, indent=2, allow_nan=False))
