"""The section of docs/poolers.md on cells without a search, or with another protocol."""

from collections.abc import Sequence

from control_tables import MISSING, with_seeds
from markdown_table import table_row
from published_rows import CellRows, PublishedGroup, paired

from sagpool.bench.claims.phrases import interval
from sagpool.report import names

REFERENCES = ("random-h", "nopool-h", "sagpool-h", "mincut-h")


def unsearched_section(group: PublishedGroup, others: Sequence[PublishedGroup]) -> str:
    """A table for each other group: its cells beside searched ones, on the splits of both."""
    return "\n\n".join(_table(group, other) for other in others) or "No finished cells."


def _table(group: PublishedGroup, other: PublishedGroup) -> str:
    heads = ["data set", "method", "trainings", "accuracy"]
    heads += [f"− {names.plain(method)}" for method in REFERENCES]
    lines = [table_row(heads), table_row(["---", "---", *["---:"] * (len(heads) - 2)])]
    for (dataset, method), cell in other.cells.items():
        accuracy = with_seeds(other.spread((dataset, method)))
        beside = (_difference(cell, group.cells.get((dataset, name))) for name in REFERENCES)
        row = [dataset, names.plain(method), str(len(cell.learnt)), accuracy, *beside]
        lines.append(table_row(row))
    how = "; ".join([str(other.chosen), *other.differences])
    return "\n".join([*lines, "", f"{how[0].upper()}{how[1:]}."])


def _difference(cell: CellRows, reference: CellRows | None) -> str:
    pair = None if reference is None else paired(cell, reference)
    return MISSING if pair is None else interval(pair.difference)
