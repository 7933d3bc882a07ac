"""Cells and rows of tables in Markdown."""

from collections.abc import Iterable

from sagpool.bench.claims import p_text
from sagpool.statistics import SIGNIFICANT


def table_row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def p_cell(p: float) -> str:
    """A p-value; its "<" is escaped, since it would begin a tag."""
    return p_text(p).replace("<", "&lt;")


def starred(p: float) -> str:
    """A p-value, with a star if it is significant."""
    return f"{p_cell(p)} *" if p < SIGNIFICANT else p_cell(p)
