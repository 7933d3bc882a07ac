"""The sections of the report, one module per topic.

A section module returns the text, figures and tables of its topic from one function,
``section(content)``. The page, ``figures/`` and ``tables/`` are made from the list `SECTIONS`, or
from `OF_REGRESSIONS`.
"""

from collections.abc import Callable

from sagpool.report.content import Content
from sagpool.report.section import Section
from sagpool.report.sections import (
    accuracy,
    against,
    cells,
    claims,
    costs,
    curves,
    kept,
    pairs,
    parameters,
    profile,
    provenance,
    ranks,
    ratios,
    results,
    scores,
    search,
    sensitivity,
    tests,
)

SECTIONS: list[Callable[[Content], Section]] = [
    claims.section,
    results.section,
    tests.section,
    accuracy.section,
    scores.section,
    against.section,
    pairs.section,
    ranks.section,
    curves.section,
    search.section,
    sensitivity.section,
    costs.section,
    profile.section,
    parameters.section,
    ratios.section,
    kept.section,
    cells.section,
    provenance.section,
]
# For stores with only regressions, which have no accuracies to compare.
OF_REGRESSIONS = [scores.section, profile.section, cells.section, provenance.section]
