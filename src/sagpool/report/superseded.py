"""The note that names cells which a later request of the same name has replaced in a table."""

from collections.abc import Iterable
from typing import Any

from sagpool.bench.selection import SELECTED
from sagpool.bench.summary import Summary
from sagpool.bench.variants import Group, all_defaults
from sagpool.report import names

MOST = 10  # most kinds of cells that are named


def superseded_note(groups: Iterable[Group]) -> str:
    """A sentence with what differs from the cells shown; empty if no cell was replaced."""
    datasets: dict[str, list[str]] = {}  # by the method and what differs
    for group in groups:
        shown = {(s.cell.dataset, s.method): s for s in group.cells}
        for earlier in group.superseded:
            dataset = earlier.cell.dataset
            different = _different(earlier, shown[dataset, earlier.method])
            same = datasets.setdefault(f"{earlier.method} with {different} on ", [])
            same += [dataset] if dataset not in same else []
    if not datasets:
        return ""
    listed = [what + ", ".join(where) for what, where in datasets.items()]
    more = f"; and {len(listed) - MOST} more" if len(listed) > MOST else ""
    return (
        "Of cells that differ in the search or in settings such as the learning rate, only the "
        f"last requested one is shown. Left out here: {'; '.join(listed[:MOST])}{more}. “All "
        "cells” has them."
    )


def _different(earlier: Summary, later: Summary) -> str:
    """What two cells of one method differ in: ``lr 0.1 (shown: lr 0.2)``."""
    before, now = _compared(earlier), _compared(later)
    changed = [name for name in before | now if before.get(name) != now.get(name)]
    # A store lacks defaults of a plugin that is not loaded.
    left_out, shown = (
        names.settings({name: one.get(name, "default") for name in changed})
        for one in (before, now)
    )
    return f"{left_out} (shown: {shown})"


def _compared(summary: Summary) -> dict[str, Any]:
    """The search and all settings."""
    cell = summary.cell
    settings = all_defaults(cell.method) | cell.settings
    own = {name: value for name, value in settings.items() if name != SELECTED}
    return {"search": cell.search, **own}
