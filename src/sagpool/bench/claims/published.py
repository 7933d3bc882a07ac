"""The test whether our results agree with published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from sagpool.bench.claims.contrast import usable
from sagpool.bench.claims.evidence import Evidence
from sagpool.bench.claims.judgement import Gap, Judgement, Line, Verdict
from sagpool.bench.claims.phrases import Method, Phrase, joined
from sagpool.bench.claims.reading import chosen_datasets, known_keys, names
from sagpool.errors import SagpoolError
from sagpool.statistics import MARGIN, SIGNIFICANT, Difference, holm, spread_ratio, welch

# Half of the widest 95 % interval, in points, with which a cell may agree: that a few trainings do
# not differ significantly says nothing.
WIDEST = 2 * MARGIN
DIFFERENT = ("higher", "lower")


@dataclass(frozen=True)
class AgreesWithPublished:
    """Our means agree with the published ones by Welch's test.

    The claim holds if all cells agree, and in part if some do and at most half of them differ.
    """

    methods: tuple[str, ...]
    datasets: tuple[str, ...]

    @classmethod
    def read(cls, entry: Any, options: Mapping[str, Any], datasets: Sequence[str]) -> Self:
        known_keys(options, ())
        if not isinstance(entry, dict):
            raise SagpoolError(f"must be a mapping with methods and datasets, not {entry!r}")
        known_keys(entry, ("methods", "datasets"))
        return cls(names(entry.get("methods")), chosen_datasets(entry, datasets))

    @property
    def cells(self) -> Sequence[tuple[str, str]]:
        return [(dataset, method) for method in self.methods for dataset in self.datasets]

    def judge(self, evidence: Evidence) -> Judgement:
        gaps: list[Gap] = []
        own: dict[tuple[str, str], Deviation] = {}
        for dataset, method in self.cells:
            found, said = _deviation(evidence, dataset, method)
            gaps += said
            if found is not None:
                own[dataset, method] = found
        gaps = list(dict.fromkeys(gaps))
        if not own:
            return Judgement(Verdict.NOT_TESTED, gaps=tuple(gaps))
        p = _corrected(evidence)
        lines = [one.line(p[key]) for key, one in own.items()]
        cells = "cells" if len(p) > 1 else "cell"
        family = f"Welch's test, Holm over {len(p)} published {cells}"
        return Judgement(
            _verdict(lines),
            _found(lines),
            ((family,), (_spreads([one.spreads for one in own.values()]),)),
            tuple(gaps),
            tuple(lines),
        )


class Deviation(NamedTuple):
    """One of our cells and the published one."""

    dataset: str
    method: str
    seeds: int
    difference: Difference
    spreads: tuple[float, float]  # standard deviations over the seeds: ours, published

    def line(self, p: float) -> Line:
        mean = self.difference.mean
        low, high = self.difference.interval() or (None, None)
        if p < SIGNIFICANT:
            outcome = "higher" if mean > 0 else "lower"
        else:
            outcome = "undecided" if high is None or high - mean > WIDEST else "agrees"
        return Line(self.dataset, (self.method,), (), mean, low, high, p, outcome, self.seeds)


def _deviation(
    evidence: Evidence, dataset: str, method: str
) -> tuple[Deviation | None, Sequence[Gap]]:
    published = evidence.published.get((dataset, method))
    if published is None:
        return None, [Gap(dataset, method, "nothing published")]
    rows, gaps = usable(evidence, dataset, method)
    if rows is None:
        return None, gaps
    means = np.array(list(rows.seed_means.values()))
    if len(means) < 2:
        few = f"{len(rows.accuracy)} of {evidence.runs[dataset]} runs, too few for a test"
        return None, [Gap(dataset, method, few)]
    difference = welch(means, published.mean, published.std, evidence.published_seeds)
    spreads = (float(means.std(ddof=1)), published.std)
    return Deviation(dataset, method, len(means), difference, spreads), gaps


@lru_cache(maxsize=8)  # several claims are judged by the same evidence
def _corrected(evidence: Evidence) -> dict[tuple[str, str], float]:
    """The p-value of every cell with a published result, whichever claims are about it.

    Holm's correction is over all of them, so a cell has the same p-value everywhere.
    """
    every = {key: _deviation(evidence, *key)[0] for key in evidence.published}
    p = {key: one.difference.p for key, one in every.items() if one is not None}
    return dict(zip(p, holm([*p.values()]), strict=True))


def _spreads(pairs: Sequence[tuple[float, float]]) -> str:
    """Our spread over seeds in units of the published one; empty if there is no ratio."""
    ratio = spread_ratio(pairs)
    if ratio is None:
        return ""
    used = sum(min(pair) > 0 for pair in pairs)
    spread = f"seed spread, ours / published: {ratio:.2f}"
    if used == len(pairs):
        return spread
    return f"{spread} (of {used} of {len(pairs)} cells; the others have a spread of 0)"


def _verdict(lines: Sequence[Line]) -> Verdict:
    differ, agree = differing(lines), sum(line.outcome == "agrees" for line in lines)
    if agree == len(lines):
        return Verdict.HOLDS
    if 2 * differ > len(lines):
        return Verdict.FAILS
    return Verdict.IN_PART if differ and agree else Verdict.UNDECIDED


def _found(lines: Sequence[Line]) -> tuple[Phrase, Phrase]:
    """How many cells differ, of all methods and of each."""
    outcomes = [line.outcome for line in lines]
    tested = list(dict.fromkeys(method for line in lines for method in line.first))
    differ, undecided = differing(lines), outcomes.count("undecided")
    if not differ:
        if undecided:
            found = f"no cell differs, but {undecided} of {len(lines)} are undecided"
        else:
            found = f"all {len(lines)} cells agree" if len(lines) > 1 else "the one cell agrees"
        return (found,), ("tested: ", *joined(((Method(one),) for one in tested), ", "))
    higher = outcomes.count("higher")
    more = f"; {undecided} undecided" if undecided else ""
    return (
        (f"{differ} of {len(lines)} cells differ; ours is higher in {higher or 'none'}{more}",),
        joined((_of_method(lines, one) for one in tested), ", "),
    )


def _of_method(lines: Sequence[Line], method: str) -> Phrase:
    here = [line for line in lines if line.first == (method,)]
    return (Method(method), f" {differing(here)} of {len(here)}")


def differing(lines: Sequence[Line]) -> int:
    """The number of cells that differ from the published ones."""
    return sum(line.outcome in DIFFERENT for line in lines)
