"""Published results of methods that this package lacks, from an experiment file."""

from sagpool.report.content import Content
from sagpool.report.section import Part
from sagpool.report.table import Cell, Head, RowGroup, Table, text

CAPTION = (
    "Test accuracy in percent as published by others: mean, and standard deviation where known. "
    "None of these methods was run here; splits, settings and the meaning of ± may differ, so "
    "these figures are not compared with ours."
)


def published_elsewhere(content: Content) -> list[Part]:
    """A separate table, since the protocols differ; none if the experiment lists no results."""
    found = content.experiment.elsewhere if content.experiment else {}
    datasets = list(dict.fromkeys(name for row in found.values() for name in row))
    if not datasets:
        return []
    rows, records = list[list[Cell]](), list[dict[str, object]]()
    for name, row in found.items():
        cells = [text(name)]
        for dataset in datasets:
            one = row.get(dataset)
            std = "" if one is None or one.std is None else f" ± {one.std:.2f}"
            cells.append(text("" if one is None else f"{one.mean:.2f}{std}"))
            if one is not None:
                records.append({"method": name, "dataset": dataset, **one._asdict()})
        rows.append(cells)
    heads = [Head(text("method")), *(Head(text(name), number=True) for name in datasets)]
    table = Table("elsewhere", CAPTION, heads, [RowGroup("", rows)], records)
    return [Part("Published by others", table)]
