"""Comparisons of methods on the same splits, on each data set and over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sagpool.bench.claims.evidence import CellRows, Evidence
from sagpool.bench.claims.judgement import Gap, Line
from sagpool.statistics import Difference, holm, mean_difference, outcome, paired_difference

Group = tuple[str, ...]  # methods; several count as their mean


@dataclass(frozen=True)
class Compared:
    """One group of methods against another, with p-values after Holm's correction."""

    difference: Difference
    runs: int
    p: float
    p_equivalent: float
    p_no_worse: float

    @property
    def outcome(self) -> str:
        return outcome(self.difference, self.p, self.p_equivalent)


@dataclass(frozen=True)
class Contrast:
    """One group of methods against another on all data sets of a claim that have rows."""

    first: Group
    second: Group
    overall: Compared
    by_dataset: dict[str, Compared]

    def lines(self) -> list[Line]:
        compared = list(self.by_dataset.items())
        if len(compared) > 1:
            compared.append(("", self.overall))
        return [self._line(dataset, one) for dataset, one in compared]

    def _line(self, dataset: str, one: Compared) -> Line:
        low, high = one.difference.interval() or (None, None)
        pair = (self.first, self.second)
        return Line(dataset, *pair, one.difference.mean, low, high, one.p, one.outcome, one.runs)


def contrasts(
    evidence: Evidence,
    first: Group,
    others: Sequence[Group],
    datasets: Sequence[str],
    margin: float,
) -> tuple[list[Contrast], list[Gap]]:
    """Compare the first group with each of the others.

    Holm's correction is over the comparisons on single data sets, and over those of the means.
    """
    differences: dict[tuple[Group, str], tuple[Difference, int]] = {}
    gaps: list[Gap] = []
    for dataset in datasets:
        for other in others:
            found, missing = _difference(evidence, dataset, first, other)
            gaps += missing
            if found is not None:
                differences[other, dataset] = found
    compared = dict(zip(differences, _corrected(list(differences.values()), margin), strict=True))
    overall = {}
    for other in dict.fromkeys(group for group, _ in differences):
        here = {dataset: found for (group, dataset), found in differences.items() if group == other}
        by_dataset = {dataset: difference for dataset, (difference, _) in here.items()}
        mean = mean_difference(by_dataset, evidence.related)
        overall[other] = (mean, sum(runs for _, runs in here.values()))
    corrected = _corrected(list(overall.values()), margin)
    return [
        Contrast(
            first, other, mean, {d: one for (group, d), one in compared.items() if group == other}
        )
        for other, mean in zip(overall, corrected, strict=True)
    ], list(dict.fromkeys(gaps))


def usable(evidence: Evidence, dataset: str, method: str) -> tuple[CellRows | None, list[Gap]]:
    """The rows of a cell, if a claim may use them, and remarks about them."""
    rows = evidence.cells.get((dataset, method))
    if rows is None:
        return None, [Gap(dataset, method, "no rows")]
    if rows.note:
        return None, [Gap(dataset, "", rows.note)]
    runs, complete = len(rows.accuracy), evidence.runs[dataset]
    gaps = [] if runs >= complete else [Gap(dataset, method, f"{runs} of {complete} runs")]
    return rows, gaps


def _difference(
    evidence: Evidence, dataset: str, first: Group, second: Group
) -> tuple[tuple[Difference, int] | None, list[Gap]]:
    cells, gaps = [], []
    for method in (*first, *second):
        rows, said = usable(evidence, dataset, method)
        gaps += said
        cells.append(rows)
    present = [rows for rows in cells if rows is not None]
    if len(present) < len(cells):
        return None, gaps
    both = " and ".join((*first, *second))
    if len({rows.splits for rows in present}) > 1:
        return None, [*gaps, Gap(dataset, "", f"{both} have other splits")]
    common = sorted(set.intersection(*(set(rows.learnt) for rows in present)))
    if len(common) < 2:
        return None, [*gaps, Gap(dataset, "", f"{both} have no splits in common")]
    accuracy = np.array([[rows.accuracy[split] for split in common] for rows in present])
    ours, theirs = accuracy[: len(first)].mean(0), accuracy[len(first) :].mean(0)
    return (paired_difference(ours, theirs, present[0].folds), len(common)), gaps


def _corrected(found: Sequence[tuple[Difference, int]], margin: float) -> list[Compared]:
    p, equivalent, no_worse = (
        holm(values)
        for values in (
            [difference.p for difference, _ in found],
            [difference.p_equivalent(margin) for difference, _ in found],
            [difference.p_above(-margin) for difference, _ in found],
        )
    )
    return [
        Compared(*one, *values) for one, *values in zip(found, p, equivalent, no_worse, strict=True)
    ]
