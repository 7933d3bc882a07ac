"""The learnt ratio: the fraction of nodes that models keep, by level, size and class."""

from sagpool.bench.summary import Summary
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.table import Table, listing, numbers, words


def section(content: Content) -> Section:
    learnt = [s for s in content.shown if content.ratios[s.runs[0].key]]
    return Section(
        "ratios",
        "The learnt ratio",
        [Part(f"{content.label(s.cell.dataset)}: {s.method}", _table(content, s)) for s in learnt],
        [
            "The fraction of nodes that is kept, in percent: the mean over up to 400 test graphs "
            "of the first run of a cell. Only for methods that choose the fraction for each graph.",
        ]
        if learnt
        else [],
    )


def _table(content: Content, summary: Summary) -> Table:
    """A row for each size and each class, a column for each level."""
    found = content.ratios[summary.runs[0].key]
    groups = list(dict.fromkeys((one.grouping, one.name, one.graphs) for one in found))
    levels = list(dict.fromkeys(one.level for one in found))
    ratio = {(one.level, one.grouping, one.name): 100 * one.ratio for one in found}
    return listing(
        f"ratios-{summary.cell.dataset}-{content.cell_id(summary)}",
        f"{summary.cell.dataset}, {summary.method}: kept nodes in percent, by size and by class.",
        [
            words("graphs", [f"{name} nodes" if by == "size" else name for by, name, _ in groups]),
            numbers("number", [count for *_, count in groups], "d"),
            *(
                numbers(f"level {level}", [ratio[level, by, name] for by, name, _ in groups], ".1f")
                for level in levels
            ),
        ],
        [{"dataset": summary.cell.dataset, "method": summary.method, **o._asdict()} for o in found],
    )
