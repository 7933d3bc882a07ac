"""Tests that compare methods with each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sagpool.bench.claims.contrast import Compared, Contrast, Group, contrasts
from sagpool.bench.claims.evidence import Evidence
from sagpool.bench.claims.judgement import Judgement, Verdict, combine
from sagpool.bench.claims.phrases import Phrase, interval, listed, p_text, signed
from sagpool.bench.claims.reading import chosen_datasets, known_keys, names
from sagpool.bench.experiment import number
from sagpool.errors import SagpoolError
from sagpool.statistics import MARGIN, SIGNIFICANT


@dataclass(frozen=True)
class _Comparison(ABC):
    """The first method against each of the others, on the same splits.

    A list of methods stands for their mean.
    """

    first: Group
    others: tuple[Group, ...]
    datasets: tuple[str, ...]
    margin: float = MARGIN

    @classmethod
    def read(cls, entry: Any, options: Mapping[str, Any], datasets: Sequence[str]) -> Self:
        known_keys(options, ("datasets", "margin"))
        groups = entry if isinstance(entry, list) else []
        if len(groups) < 2:
            raise SagpoolError(f"needs a list of at least two methods, not {entry!r}")
        first, *others = map(names, groups)
        try:
            margin = number(options.get("margin", MARGIN))
        except (TypeError, ValueError):
            margin = 0
        if margin <= 0:
            raise SagpoolError(f"needs a margin above 0, not {options['margin']!r}")
        return cls(first, tuple(others), chosen_datasets(options, datasets), margin)

    @property
    def cells(self) -> Sequence[tuple[str, str]]:
        groups = (self.first, *self.others)
        return [(dataset, m) for dataset in self.datasets for group in groups for m in group]

    def judge(self, evidence: Evidence) -> Judgement:
        found, gaps = contrasts(evidence, self.first, self.others, self.datasets, self.margin)
        if not found:
            return Judgement(Verdict.NOT_TESTED, gaps=tuple(gaps))
        return Judgement(
            self.combine([self.verdict(one) for one in found]),
            tuple(map(_sentence, found)),
            tuple(self.certainty(one, len(found)) for one in found),
            tuple(gaps),
            tuple(line for one in found for line in one.lines()),
        )

    @abstractmethod
    def verdict(self, found: Contrast) -> Verdict:
        """The verdict of the comparison with one of the other methods."""

    def combine(self, verdicts: Sequence[Verdict]) -> Verdict:
        return combine(verdicts)

    def p(self, overall: Compared) -> str:
        return p_text(overall.p)

    def certainty(self, found: Contrast, count: int) -> Phrase:
        against = ("against ", *listed(found.second), ": ") if count > 1 else ()
        ends = found.overall.difference.interval()
        resolution = "unknown" if ends is None else f"±{(ends[1] - ends[0]) / 2:.1f}"
        return (*against, f"p {self.p(found.overall)}, resolution {resolution}")


class Better(_Comparison):
    """The first method is better over all data sets, and on each of them."""

    def verdict(self, found: Contrast) -> Verdict:
        overall, single = found.overall.outcome, {one.outcome for one in found.by_dataset.values()}
        if single == {"better"}:
            return Verdict.HOLDS
        if overall == "better" or "better" in single:
            return Verdict.IN_PART
        return Verdict.FAILS if {overall, *single} - {"undecided"} else Verdict.UNDECIDED


class NoWorse(_Comparison):
    """The first method is not worse by the margin or more over all data sets, and worse on none."""

    def verdict(self, found: Contrast) -> Verdict:
        worse = any(one.outcome == "worse" for one in found.by_dataset.values())
        if found.overall.p_no_worse < SIGNIFICANT:
            return Verdict.IN_PART if worse else Verdict.HOLDS
        return Verdict.FAILS if worse or found.overall.outcome == "worse" else Verdict.UNDECIDED

    def p(self, overall: Compared) -> str:
        return f"{p_text(overall.p_no_worse)} (worse by less than {self.margin:g})"


class Equivalent(_Comparison):
    """The difference over all data sets is below the margin, and significant on none."""

    def verdict(self, found: Contrast) -> Verdict:
        differ = any(_differs(one) for one in found.by_dataset.values())
        if found.overall.p_equivalent < SIGNIFICANT:
            return Verdict.IN_PART if differ else Verdict.HOLDS
        return Verdict.FAILS if differ or _differs(found.overall) else Verdict.UNDECIDED

    def p(self, overall: Compared) -> str:
        return f"{p_text(overall.p_equivalent)} (within ±{self.margin:g})"


class Differ(_Comparison):
    """The first method differs from at least one other on at least one data set."""

    def verdict(self, found: Contrast) -> Verdict:
        outcomes = {one.outcome for one in found.by_dataset.values()}
        if outcomes & {"better", "worse"}:
            return Verdict.HOLDS
        return Verdict.FAILS if outcomes == {"equivalent"} else Verdict.UNDECIDED

    def combine(self, verdicts: Sequence[Verdict]) -> Verdict:
        if Verdict.HOLDS in verdicts:
            return Verdict.HOLDS
        return Verdict.FAILS if set(verdicts) == {Verdict.FAILS} else Verdict.UNDECIDED


def _differs(compared: Compared) -> bool:
    return compared.p < SIGNIFICANT and compared.p_equivalent >= SIGNIFICANT


def _sentence(found: Contrast) -> Phrase:
    single = [
        f"{dataset} {signed(one.difference.mean)}"
        + ("" if one.outcome == "undecided" else f" {one.outcome}")
        for dataset, one in found.by_dataset.items()
    ]
    pair = (*listed(found.first), " − ", *listed(found.second))
    overall = f": {interval(found.overall.difference)}, {found.overall.outcome}"
    if len(single) == 1:
        return (*pair, f" on {next(iter(found.by_dataset))}{overall}")
    return (*pair, f"{overall} ({', '.join(single)})")
