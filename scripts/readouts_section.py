"""The section of docs/poolers.md on other readouts: does the pooling or the readout decide?"""

from collections.abc import Iterable, Sequence

from changed_cells import Changed, before_and_after, changed_cells
from markdown_table import p_cell, starred, table_row
from published_rows import Key, PublishedGroup, paired

from sagpool.bench.claims.phrases import interval
from sagpool.models import method_settings
from sagpool.report import names
from sagpool.statistics import SIGNIFICANT, holm

HEADS = ("data set", "method", "readout", "training", "test", "difference (95 % interval)", "p")
SUMS = ", readout sum"
CONTROLS = ("random-h", "nopool-h")  # their readouts are sums, so they count nodes


def readouts_section(group: PublishedGroup, usual: Sequence[Key]) -> str:
    """Methods with another readout beside the usual one, and both beside controls with sums."""
    datasets = [*group.experiment.datasets]
    found = [one for one in changed_cells(group) if one.what.startswith("readout ")]
    order = [*dict.fromkeys(method for _, method in usual)]
    found.sort(key=lambda one: (datasets.index(one.usual[0]), order.index(one.usual[1])))
    if not found:
        return "No finished cells."
    lines = [table_row(HEADS), table_row(["---"] * 3 + ["---:"] * 4)]
    for one, p in zip(found, holm([one.pair.difference.p for one in found]), strict=True):
        cells = [
            one.usual[0],
            names.plain(one.usual[1]),
            _readouts(one),
            *before_and_after(group, one),
        ]
        lines.append(table_row([*cells, interval(one.pair.difference), starred(p)]))
    beside = [
        line
        for name in datasets
        for control in CONTROLS
        if (line := _beside_control(group, usual, name, f"{control}{SUMS}"))
    ]
    return "\n".join([*lines, "", *beside])


def _readouts(one: Changed) -> str:
    usual = method_settings(one.usual[1])["readout"]
    return f"{usual} → {one.what.removeprefix('readout ')}"


def _beside_control(group: PublishedGroup, usual: Iterable[Key], dataset: str, control: str) -> str:
    """How many methods differ from a control with sums; empty without these."""
    if (dataset, control) not in group.cells:
        return ""
    usual_here = [method for name, method in usual if name == dataset]
    with_sums = [
        method for name, method in group.cells if name == dataset and method.endswith(SUMS)
    ]
    found = [f"Of {_beside(group, dataset, usual_here, control, 'with their usual readout')}"]
    if others := [method for method in with_sums if method != control]:
        found.append(f"Of {_beside(group, dataset, others, control, 'with sums')}")
    shown = f"{names.plain(control.removesuffix(SUMS))} with sums"
    return f"- **{dataset}, compared with {shown}.** {' '.join(found)}"


def _beside(
    group: PublishedGroup, dataset: str, methods: Iterable[str], control: str, readout: str
) -> str:
    cells = {method: group.cells[dataset, method] for method in methods}
    reference = group.cells[dataset, control]
    pairs = {method: pair for method, cell in cells.items() if (pair := paired(cell, reference))}
    corrected = holm([pair.difference.p for pair in pairs.values()])
    signs = [
        (pair.difference.mean > 0) - (pair.difference.mean < 0) if p < SIGNIFICANT else 0
        for pair, p in zip(pairs.values(), corrected, strict=True)
    ]
    best = max(pairs, key=lambda method: pairs[method].difference.mean)
    p = p_cell(dict(zip(pairs, corrected, strict=True))[best])
    return (
        f"{len(pairs)} methods {readout}, {signs.count(1)} are better, {signs.count(-1)} worse. "
        f"The best, {names.plain(best.removesuffix(SUMS))}, differs by "
        f"{interval(pairs[best].difference)}; p {p} after correction over these methods."
    )
