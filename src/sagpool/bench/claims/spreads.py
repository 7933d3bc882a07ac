"""Tests that compare how much the per-seed means vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from sagpool.bench.claims.contrast import usable
from sagpool.bench.claims.evidence import Evidence
from sagpool.bench.claims.judgement import Gap, Judgement, Line, Verdict, combine
from sagpool.bench.claims.phrases import Method, p_text
from sagpool.bench.claims.reading import chosen_datasets, known_keys, names
from sagpool.errors import SagpoolError
from sagpool.statistics import SIGNIFICANT, compare_spreads, holm, spread_ratio

_VERDICTS = {
    "steadier": Verdict.HOLDS,
    "less steady": Verdict.FAILS,
    "undecided": Verdict.UNDECIDED,
}


@dataclass(frozen=True)
class Steadier:
    """The per-seed means of the first method vary less than those of the second."""

    first: str
    second: str
    datasets: tuple[str, ...]

    @classmethod
    def read(cls, entry: Any, options: Mapping[str, Any], datasets: Sequence[str]) -> Self:
        known_keys(options, ("datasets",))
        pair = names(entry)
        if len(pair) != 2:
            raise SagpoolError(f"needs a list of two methods, not {entry!r}")
        return cls(*pair, chosen_datasets(options, datasets))

    @property
    def cells(self) -> Sequence[tuple[str, str]]:
        pair = (self.first, self.second)
        return [(dataset, method) for dataset in self.datasets for method in pair]

    def judge(self, evidence: Evidence) -> Judgement:
        gaps: list[Gap] = []
        ratios = []
        for dataset in self.datasets:
            found, said = self._compare(evidence, dataset)
            gaps += said
            ratios += [found] if found else []
        if not ratios:
            return Judgement(Verdict.NOT_TESTED, gaps=tuple(gaps))
        lines = [
            Line(
                one.dataset, (self.first,), (self.second,), one.value, None, None, p,
                _outcome(one.value, p), one.seeds,
            )
            for one, p in zip(ratios, holm([one.p for one in ratios]), strict=True)
        ]  # fmt: skip
        listed = ", ".join(f"{line.dataset} {line.value:.2f} ({line.outcome})" for line in lines)
        return Judgement(
            combine(_VERDICTS[line.outcome] for line in lines),
            (("spread of ", Method(self.first), " / ", Method(self.second), f": {listed}"),),
            ((f"p {', '.join(p_text(line.p) for line in lines)}",),),
            tuple(gaps),
            tuple(lines),
        )

    def _compare(self, evidence: Evidence, dataset: str) -> tuple[Ratio | None, list[Gap]]:
        gaps: list[Gap] = []
        both = []
        for method in (self.first, self.second):
            rows, said = usable(evidence, dataset, method)
            gaps += said
            both.append({} if rows is None else rows.seed_means)
        common = sorted(both[0].keys() & both[1].keys())
        if len(common) < 3:
            return None, gaps
        first, second = (np.array([means[seed] for seed in common]) for means in both)
        ratio = spread_ratio([(float(first.std(ddof=1)), float(second.std(ddof=1)))])
        if ratio is None:
            return None, gaps
        return Ratio(dataset, ratio, compare_spreads(first, second), len(common)), gaps


class Ratio(NamedTuple):
    """The ratio of the spreads of two methods on a data set."""

    dataset: str
    value: float
    p: float
    seeds: int


def _outcome(ratio: float, p: float) -> str:
    if p >= SIGNIFICANT:
        return "undecided"
    return "steadier" if ratio < 1 else "less steady"
