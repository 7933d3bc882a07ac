"""Comparisons of all pairs of methods as a coloured matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sagpool.bench.summary import Pair
from sagpool.report import names
from sagpool.report.listings import p_value
from sagpool.report.results import SIGNIFICANT

STRONGEST = 0.45  # opacity
FULL = 8.0  # points of difference at which it is reached


@dataclass(frozen=True)
class Square:
    """The row's method less the column's."""

    difference: str
    p: str
    significant: bool
    better: bool
    opacity: float


@dataclass(frozen=True)
class Heat:
    """One data set; methods are both rows and columns."""

    title: str
    methods: Sequence[Markup]
    rows: Sequence[Sequence[Square | None]]


def heat(title: str, methods: Sequence[str], pairs: Sequence[Pair]) -> Heat:
    """All pairs of one data set, each of them on both sides of the diagonal."""
    known: dict[tuple[str, str], Square] = {}
    for pair in pairs:
        difference = pair.comparison.difference
        known[pair.first, pair.second] = _square(difference, pair.holm)
        known[pair.second, pair.first] = _square(-difference, pair.holm)
    rows = [[known.get((row, column)) for column in methods] for row in methods]
    return Heat(title, [names.html(method) for method in methods], rows)


def _square(difference: float, p: float) -> Square:
    return Square(
        difference=f"{difference:+z.1f}".replace("-", "−"),
        p=p_value(p),
        significant=p < SIGNIFICANT,
        better=difference > 0,
        opacity=round(STRONGEST * min(1.0, abs(difference) / FULL), 3),
    )
