"""Comparisons of all methods with one reference method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sagpool.bench.claims.phrases import p_text, signed
from sagpool.bench.summary import Summary, on_same_splits
from sagpool.errors import SagpoolError
from sagpool.statistics import SIGNIFICANT, Difference, holm, paired_difference

MEANING = (
    "Differences in percentage points on the same splits, with corrected 95 % intervals; p of the "
    "corrected resampled t-test, after Holm's correction over all {count} comparisons."
)
NOTHING = (
    "Nothing can be compared with {reference}: that needs accuracies of it and of another method "
    "on the same splits, at least two of them. Regressions have no accuracies."
)


@dataclass(frozen=True, eq=False)
class Against:
    """A method minus the reference, on one data set."""

    summary: Summary
    reference: str
    difference: Difference
    runs: int
    holm: float  # p after Holm's correction over all comparisons with the reference

    @property
    def significant(self) -> bool:
        return self.holm < SIGNIFICANT

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.summary.cell.dataset,
            "method": self.summary.method,
            "against": self.reference,
            "difference": self.difference.mean,
            "ci95": self.difference.interval(),
            "p": self.difference.p,
            "holm_p": self.holm,
            "runs": self.runs,
        }

    def words(self) -> tuple[str, str, str]:
        """Difference, interval and p as text."""
        ends = self.difference.interval()
        interval = "–" if ends is None else " to ".join(map(signed, ends))
        return signed(self.difference.mean), interval, p_text(self.holm)


def compare_with(summaries: Sequence[Summary], reference: str) -> list[Against]:
    """Every method against the reference, on each data set that both were run on.

    Empty if nothing can be compared; `NOTHING` says why.

    Args:
        summaries: cells of one protocol
        reference: a method, optionally with settings: ``diffpool-h, losses none``
    """
    check_reference(summaries, reference)
    found = []
    for summary in summaries:
        other = next(
            (
                s
                for s in summaries
                if (s.method, s.cell.dataset) == (reference, summary.cell.dataset)
            ),
            None,
        )
        if other is None or other is summary:
            continue
        same = on_same_splits(summary, other)
        if same is not None and len(same[0]) > 1:
            difference = paired_difference(*same, summary.cell.settings["folds"])
            found.append((summary, difference, len(same[0])))
    adjusted = holm([difference.p for _, difference, _ in found])
    return [
        Against(summary, reference, difference, runs, p)
        for (summary, difference, runs), p in zip(found, adjusted, strict=True)
    ]


def check_reference(summaries: Sequence[Summary], reference: str) -> None:
    """Raise an error if there are results, but none of the reference."""
    known = dict.fromkeys(s.method for s in summaries)
    if known and reference not in known:
        listed = ", ".join(known)
        raise SagpoolError(
            f"There is no result of '{reference}' to compare with, only of {listed}."
        )
