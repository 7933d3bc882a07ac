"""Tables of other forms of methods beside the usual ones, and of other features."""

from typing import NamedTuple

import numpy as np
from published_rows import Key, Pair, Published, PublishedGroup, paired

from sagpool.bench.claims import CellRows, p_text
from sagpool.bench.claims.phrases import interval
from sagpool.bench.variants import Chosen
from sagpool.report import names
from sagpool.statistics import SIGNIFICANT, holm, paired_difference

HEADS = ("data set", "method", "changed", "training", "test", "difference (95 % interval)", "p")


class Changed(NamedTuple):
    """A cell, and the one that it is compared with."""

    key: Key
    usual: Key
    what: str
    pair: Pair


def baselines_section(published: Published) -> str:
    """Each form beside the usual one, and beside SAGPool; settings are fixed."""
    for group in published.groups:
        if group.chosen is Chosen.FIXED and not group.differences:
            found = every_changed(group)
            return _table(group, found) if found else ""
    return ""


def every_changed(group: PublishedGroup) -> list[Changed]:
    """The cells with unusual settings or features that have a usual one beside them."""
    return [one for key in group.cells if (one := _changed(group, key)) is not None]


def _changed(group: PublishedGroup, key: Key) -> Changed | None:
    """The comparison of a cell with unusual settings or features; None for other cells."""
    dataset, method = key
    plain_dataset, features = dataset.removesuffix(")").partition(" (")[::2]
    plain_method, settings = method.partition(", ")[::2]
    usual = (plain_dataset, plain_method)
    if usual == key or usual not in group.cells:
        return None
    pair = _paired(group.cells[key], group.cells[usual])
    return None if pair is None else Changed(key, usual, settings or features, pair)


def _paired(first: CellRows, second: CellRows) -> Pair | None:
    """As `paired`, also for other features of the same graphs.

    Splits depend on the classes, the seed and the fold. The fingerprints of the data differ.
    """
    if first.splits[2:] != second.splits[2:]:
        return None
    common = sorted(first.learnt.keys() & second.learnt.keys())
    if len(common) < 2:
        return None
    values = (np.array([cell.learnt[split] for split in common]) for cell in (first, second))
    return Pair(paired_difference(*values, first.folds), len(common))


def _table(group: PublishedGroup, found: list[Changed]) -> str:
    reference = {one.key: f"sagpool-{'h' if '-h' in one.usual[1] else 'g'}" for one in found}
    heads = [*HEADS, "splits", "− SAGPool", "paper"]
    lines = [_row(heads), _row(["---"] * 3 + ["---:"] * 7)]
    for one, p in zip(found, holm([one.pair.difference.p for one in found]), strict=True):
        sagpool = (one.key[0], reference[one.key])
        gain = ""
        if sagpool in group.cells and one.usual[1] != reference[one.key]:
            pair = paired(group.cells[one.key], group.cells[sagpool])
            gain = "" if pair is None else interval(pair.difference)
        paper = group.experiment.accuracy.get(one.usual)
        shown = f"{p_text(p).replace('<', '&lt;')}{' *' if p < SIGNIFICANT else ''}"
        cells = [
            *(one.usual[0], names.plain(one.usual[1]), one.what),
            *(both(group, one, part) for part in ("train_accuracy", "test_accuracy")),
            *(interval(one.pair.difference), shown, str(one.pair.splits), gain),
            "" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}",
        ]
        lines.append(_row(cells))
    return "\n".join(lines)


def both(group: PublishedGroup, one: Changed, part: str) -> str:
    """The usual mean and the changed one, in percent, over the splits that both have."""
    common = group.cells[one.key].learnt.keys() & group.cells[one.usual].learnt.keys()
    means = (
        100
        * np.mean(
            [
                float(row[part])
                for row in group.rows[key]
                if (int(row["seed"]), int(row["fold"])) in common
            ]
        )
        for key in (one.usual, one.key)
    )
    return " → ".join(f"{mean:.2f}" for mean in means)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
