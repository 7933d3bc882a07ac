"""Comparisons of all pairs of methods, as a coloured matrix and as a list."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sagpool.bench.claims import p_text
from sagpool.bench.summary import Pair
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.page import template
from sagpool.report.section import Part, Section
from sagpool.report.table import Table, listing, method, numbers, words
from sagpool.statistics import SIGNIFICANT

STRONGEST = 0.45  # highest opacity
FULL = 8.0  # difference in percentage points that gets the highest opacity


def section(content: Content) -> Section:
    parts = [
        Part(content.label(dataset), html=_matrix(content, dataset, pairs))
        for dataset in content.datasets
        if (pairs := [pair for pair in content.pairs if pair.dataset == dataset])
    ]
    if parts:
        parts.append(Part("All pairs as a list", _table(content), folded=True))
    return Section(
        "pairs",
        "Which differences are real?",
        parts,
        [
            "Row minus column, in percentage points of test accuracy on the same splits; below it "
            "p after Holm's correction over all pairs of the data set. Bold: p below "
            f"{SIGNIFICANT}. The test is the corrected resampled t-test of Nadeau and Bengio, "
            "which accounts for the overlap of the training sets of a cross-validation."
        ],
    )


@dataclass(frozen=True)
class Square:
    """The row's method minus the column's method."""

    difference: str
    p: str
    significant: bool
    better: bool
    opacity: float


def _matrix(content: Content, dataset: str, pairs: Sequence[Pair]) -> Markup:
    """The matrix, in which each pair of methods appears on both sides of the diagonal."""
    squares: dict[tuple[str, str], Square] = {}
    for pair in pairs:
        difference = pair.comparison.difference
        squares[pair.first, pair.second] = _square(difference, pair.holm)
        squares[pair.second, pair.first] = _square(-difference, pair.holm)
    compared = {first for first, _ in squares}
    methods = [s.method for s in content.of(dataset) if s.method in compared]
    return Markup(
        template("pairs.html").render(
            title=content.label(dataset),
            methods=[names.html(method) for method in methods],
            rows=[[squares.get((row, column)) for column in methods] for row in methods],
        )
    )


def _square(difference: float, p: float) -> Square:
    return Square(
        difference=f"{difference:+z.1f}".replace("-", "−"),
        p=p_text(p),
        significant=p < SIGNIFICANT,
        better=difference > 0,
        opacity=round(STRONGEST * min(1.0, abs(difference) / FULL), 3),
    )


def _table(content: Content) -> Table:
    pairs = content.pairs
    return listing(
        "pairs",
        "All pairs of methods: difference of the mean test accuracies on the same splits, in "
        "points, with the corrected resampled t-test (Nadeau and Bengio) and Holm's correction "
        "over all pairs of the data set.",
        [
            words("data set", [content.label(pair.dataset) for pair in pairs]),
            words("first", [method(pair.first) for pair in pairs]),
            words("second", [method(pair.second) for pair in pairs]),
            numbers("difference", [pair.comparison.difference for pair in pairs], "+.2f"),
            numbers("p", [p_text(pair.comparison.p) for pair in pairs]),
            numbers("p (Holm)", [p_text(pair.holm) for pair in pairs]),
            numbers("splits", [pair.comparison.runs for pair in pairs], "d"),
        ],
        [
            {
                "dataset": pair.dataset,
                "first": pair.first,
                "second": pair.second,
                "difference": pair.comparison.difference,
                "p": pair.comparison.p,
                "holm_p": pair.holm,
                "significant": pair.holm < SIGNIFICANT,
                "splits": pair.comparison.runs,
            }
            for pair in pairs
        ],
    )
