"""The section of docs/poolers.md on cells without a search, or with another protocol."""

from collections.abc import Sequence

from control_tables import MISSING, with_seeds
from markdown_table import table_row
from published_rows import PublishedGroup, paired

from sagpool.bench.claims.phrases import interval
from sagpool.report import names

REFERENCES = ("random-h", "nopool-h", "sagpool-h", "mincut-h")


def unsearched_section(group: PublishedGroup, others: Sequence[PublishedGroup]) -> str:
    """Cells of other groups beside searched ones, on the splits that both have."""
    heads = ["data set", "method", "trainings", "accuracy"]
    heads += [f"− {names.plain(method)}" for method in REFERENCES]
    lines = [table_row(heads), table_row(["---", "---", *["---:"] * (len(heads) - 2)])]
    for other in others:
        for (dataset, method), cell in other.cells.items():
            row = [dataset, names.plain(method), str(len(cell.learnt))]
            row.append(with_seeds(other.spread((dataset, method))))
            for reference in REFERENCES:
                beside = group.cells.get((dataset, reference))
                pair = None if beside is None else paired(cell, beside)
                row.append(MISSING if pair is None else interval(pair.difference))
            lines.append(table_row(row))
    if len(lines) == 2:
        return "No finished cells."
    how = ["; ".join([str(other.chosen), *other.differences]) for other in others]
    return "\n".join([*lines, "", f"{'. '.join(dict.fromkeys(how)).capitalize()}."])
