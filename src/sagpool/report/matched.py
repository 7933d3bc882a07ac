"""Notes on cells that were compared at the same retention of nodes."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from sagpool.bench.records import CellRecord
from sagpool.bench.summary import Summary
from sagpool.bench.variants import Group


def matched_notes(group: Group) -> list[str]:
    """One note for each set of cells that have the ratio and the search budget in common."""
    matched = [s for s in group.cells if s.mismatch == ""]
    by_dataset: defaultdict[str, defaultdict[tuple[object, ...], list[Summary]]]
    by_dataset = defaultdict(lambda: defaultdict(list))
    for summary in matched:
        key = summary.cell.settings["ratio"], _budget(summary.cell)
        by_dataset[summary.cell.dataset][key].append(summary)
    several = any(len(sets) > 1 for sets in by_dataset.values())
    name_them = several or any(s.mismatch is None for s in group.cells)
    alone = [
        cells[0]
        for sets in by_dataset.values()
        for cells in sets.values()
        if len(sets) > 1 and len(cells) == 1
    ]
    compared = (
        [cells for cells in sets.values() if cells[0] not in alone] for sets in by_dataset.values()
    )
    notes = [
        _note([s for cells in some for s in cells], name_them=name_them)
        for some in zip_longest(*compared, fillvalue=())
    ]
    if alone:
        notes.append(
            f"Matched, but no other cell has the same ratio and search budget: {_listed(alone)}."
        )
    return notes


def _budget(cell: CellRecord) -> tuple[str, int]:
    """The kind of the search, and its number of candidates; one without a search."""
    # Halving per fold stores no ranking; candidates are all combinations of the values.
    values = [len(value) for value in cell.settings.values() if isinstance(value, list)]
    return cell.search, len(cell.ranking) or math.prod(values)


def _note(matched: Sequence[Summary], *, name_them: bool) -> str:
    left: dict[str, None] = {}
    for s in matched:
        assert s.cell.retention is not None
        percent = ", ".join(f"{100 * part:.0f}" for part in s.cell.retention.wanted)
        left[f"{percent} % on {s.cell.dataset}"] = None
    which = f": {_listed(matched)}" if name_them else ""
    return (
        f"Compared at the same retention of nodes, with the same search budget{which}. "
        f"The poolings leave {'; '.join(left)}."
    )


def _listed(summaries: Iterable[Summary]) -> str:
    methods: dict[str, list[str]] = {}
    for s in summaries:
        methods.setdefault(s.cell.dataset, []).append(s.method)
    return "; ".join(f"{', '.join(here)} on {dataset}" for dataset, here in methods.items())
