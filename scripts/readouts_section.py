"""The section of docs/poolers.md on other readouts: does the pooling or the readout decide?"""

from collections.abc import Iterable, Sequence

from baselines_section import Changed, both, every_changed
from control_tables import row
from published_rows import Key, PublishedGroup, paired

from sagpool.bench.claims import p_text
from sagpool.bench.claims.phrases import interval
from sagpool.models import method_settings
from sagpool.report import names
from sagpool.statistics import SIGNIFICANT, holm

HEADS = ("data set", "method", "readout", "training", "test", "difference (95 % interval)", "p")
RANDOM = "random-h, readout sum"  # a control that keeps random nodes and counts them


def readouts_section(group: PublishedGroup, usual: Sequence[Key]) -> str:
    """Methods with another readout beside the same ones, and the usual ones beside random nodes."""
    datasets = [*group.experiment.datasets]
    found = [one for one in every_changed(group) if one.what.startswith("readout ")]
    order = [*dict.fromkeys(method for _, method in usual)]
    found.sort(key=lambda one: (datasets.index(one.usual[0]), order.index(one.usual[1])))
    if not found:
        return "No finished cells."
    lines = [row(HEADS), row(["---"] * 3 + ["---:"] * 4)]
    for one, p in zip(found, holm([one.pair.difference.p for one in found]), strict=True):
        shown = f"{p_text(p).replace('<', '&lt;')}{' *' if p < SIGNIFICANT else ''}"
        parts = (both(group, one, part) for part in ("train_accuracy", "test_accuracy"))
        cells = [one.usual[0], names.plain(one.usual[1]), _readouts(one), *parts]
        lines.append(row([*cells, interval(one.pair.difference), shown]))
    sentences = [beside for name in datasets if (beside := _beside_random(group, usual, name))]
    return "\n".join([*lines, "", *sentences])


def _readouts(one: Changed) -> str:
    usual = method_settings(one.usual[1])["readout"]
    return f"{usual} → {one.what.removeprefix('readout ')}"


def _beside_random(group: PublishedGroup, usual: Iterable[Key], dataset: str) -> str:
    """How many of the usual methods differ from random nodes with sums; empty without these."""
    control = group.cells.get((dataset, RANDOM))
    if control is None:
        return ""
    cells = {method: group.cells[name, method] for name, method in usual if name == dataset}
    pairs = {method: pair for method, cell in cells.items() if (pair := paired(cell, control))}
    corrected = holm([pair.difference.p for pair in pairs.values()])
    signs = [
        (pair.difference.mean > 0) - (pair.difference.mean < 0) if p < SIGNIFICANT else 0
        for pair, p in zip(pairs.values(), corrected, strict=True)
    ]
    best = max(pairs, key=lambda method: pairs[method].difference.mean)
    return (
        f"- **{dataset}.** Of {len(pairs)} methods with their usual readout, {signs.count(1)} are "
        f"better than Random_h with sums, {signs.count(-1)} worse. The best, {names.plain(best)}, "
        f"differs by {interval(pairs[best].difference)}."
    )
