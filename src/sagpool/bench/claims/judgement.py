"""The verdict on a claim."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sagpool.bench.claims.phrases import Phrase


class Verdict(StrEnum):
    FAILS = "does not hold"
    IN_PART = "holds in part"
    UNDECIDED = "undecided"
    HOLDS = "holds"
    NOT_TESTED = "not tested"


class Gap(NamedTuple):
    """Rows that a claim needs and that are missing, incomplete or from other data."""

    dataset: str  # empty for all data sets
    method: str  # empty for all methods
    reason: str


@dataclass(frozen=True)
class Line:
    """One comparison for a claim; values are in percentage points, or ratios of spreads."""

    dataset: str  # empty for the mean over the data sets
    first: tuple[str, ...]  # methods; several count as their mean
    second: tuple[str, ...]  # empty for the published result
    value: float
    low: float | None  # 95 % interval, if there is one
    high: float | None
    p: float  # after Holm's correction
    outcome: str
    runs: int  # number of our runs, or of splits that both methods have in common


@dataclass(frozen=True)
class Judgement:
    """A verdict with its reasons."""

    verdict: Verdict
    found: tuple[Phrase, ...] = ()
    certainty: tuple[Phrase, ...] = ()
    gaps: tuple[Gap, ...] = ()
    lines: tuple[Line, ...] = ()


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim that consists of several."""
    found = set(verdicts)
    if len(found) <= 1:
        return found.pop() if found else Verdict.NOT_TESTED
    if found & {Verdict.HOLDS, Verdict.IN_PART}:
        return Verdict.IN_PART
    return Verdict.FAILS if Verdict.FAILS in found else Verdict.UNDECIDED
