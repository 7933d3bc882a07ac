"""The published results of a cell."""

from sagpool.bench.records import CellRecord

Published = dict[str, tuple[float | None, float | None]]  # mean and standard deviation, by test


def published(cell: CellRecord) -> dict[str, Published]:
    """What is published for a cell, by kind, in words; a kind without figures is left out."""
    found: dict[str, Published] = {}
    if cell.paper_mean is not None:
        found["results"] = {"": (cell.paper_mean, cell.paper_std)}
    if cell.paper_tests:
        found["results of tests"] = dict(cell.paper_tests)
    return found


def published_words(published: Published) -> str:
    """Such as ``61.5 ± 1.2``, or ``later 61.5 ± 1.2, test 61.5 ± 1``."""
    figures = {
        name: f"{mean:g}" if std is None else f"{mean:g} ± {std:g}"
        for name, (mean, std) in sorted(published.items())
    }
    return ", ".join(f"{name} {figure}".lstrip() for name, figure in figures.items())
