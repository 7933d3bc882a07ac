"""On which cells a claim is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sagpool.bench.claims.claim import Claim
from sagpool.bench.claims.evidence import CellRows, Evidence
from sagpool.bench.claims.judgement import Judgement, Verdict
from sagpool.bench.experiment import Experiment
from sagpool.bench.variants import Chosen

RULE = (
    "Every claim is judged on cells whose settings were chosen in one way, fixed or searched, and "
    "never on a mixture: on those of which the claim has the most complete cells, then the most "
    "cells; if the numbers are equal, on searched settings. Settings chosen by test accuracy and "
    "other protocols are not used."
)
Cells = Mapping[tuple[str, str], CellRows]  # by data set and name of the method


class Judged(NamedTuple):
    claim: Claim
    found: Judgement
    chosen: Chosen | None  # the cells it is judged on; None if there are none, or none are needed

    @property
    def marked(self) -> bool:
        """Whether a verdict rests on fewer rows than the claim is about."""
        return bool(self.found.gaps) and self.found.verdict is not Verdict.NOT_TESTED


def judge_claims(experiment: Experiment, cells: Mapping[Chosen, Cells]) -> list[Judged]:
    """Judge all claims. Claims that do not hold come first, untested ones last."""
    order = list(Verdict)
    judged = [_judge(claim, experiment, cells) for claim in experiment.claims]
    return sorted(judged, key=lambda one: order.index(one.found.verdict))


def _judge(claim: Claim, experiment: Experiment, cells: Mapping[Chosen, Cells]) -> Judged:
    """Judge one claim as `RULE` says."""
    known = {way: Evidence.of(experiment, cells.get(way, {})) for way in Chosen}
    del known[Chosen.BY_TEST]
    chosen = max(known, key=lambda way: _completeness(claim, known[way]))  # in a tie, the first
    found = claim.test.judge(known[chosen])
    return Judged(claim, found, chosen if any(_completeness(claim, known[chosen])) else None)


def _completeness(claim: Claim, evidence: Evidence) -> tuple[int, int]:
    """Number of complete cells of the claim, and number of its usable cells."""
    rows = [evidence.cells.get(key) for key in claim.test.cells]
    usable = [cell for cell in rows if cell is not None and not cell.note]
    return sum(len(cell.accuracy) >= evidence.runs for cell in usable), len(usable)
