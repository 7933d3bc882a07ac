"""Tables of other forms of methods beside the usual ones, and of other features."""

from changed_cells import Changed, before_and_after, changed_cells
from markdown_table import starred, table_row
from published_rows import Published, PublishedGroup, paired

from sagpool.bench.claims.phrases import interval
from sagpool.bench.variants import Chosen
from sagpool.report import names
from sagpool.statistics import holm

HEADS = ("data set", "method", "changed", "training", "test", "difference (95 % interval)", "p")


def baselines_section(published: Published) -> str:
    """Each form beside the usual one, and beside SAGPool; settings are fixed."""
    for group in published.groups:
        if group.chosen is Chosen.FIXED and not group.differences:
            found = changed_cells(group)
            return _table(group, found) if found else ""
    return ""


def _table(group: PublishedGroup, found: list[Changed]) -> str:
    reference = {one.key: f"sagpool-{'h' if '-h' in one.usual[1] else 'g'}" for one in found}
    heads = [*HEADS, "splits", "− SAGPool", "paper"]
    lines = [table_row(heads), table_row(["---"] * 3 + ["---:"] * 7)]
    for one, p in zip(found, holm([one.pair.difference.p for one in found]), strict=True):
        sagpool = (one.key[0], reference[one.key])
        gain = ""
        if sagpool in group.cells and one.usual[1] != reference[one.key]:
            pair = paired(group.cells[one.key], group.cells[sagpool])
            gain = "" if pair is None else interval(pair.difference)
        paper = group.experiment.accuracy.get(one.usual)
        cells = [
            *(one.usual[0], names.plain(one.usual[1]), one.what),
            *before_and_after(group, one),
            *(interval(one.pair.difference), starred(p), str(one.pair.splits), gain),
            "" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}",
        ]
        lines.append(table_row(cells))
    return "\n".join(lines)
