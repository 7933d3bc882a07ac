"""On which cells a claim is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sagpool.bench.claims.claim import Claim
from sagpool.bench.claims.evidence import CellRows, Evidence
from sagpool.bench.claims.judgement import Judgement, Verdict
from sagpool.bench.experiment import Experiment, Related
from sagpool.bench.variants import Chosen

RULE = (
    "Every claim is judged on cells whose settings were all chosen in the same way, fixed or "
    "searched, and never on a mixture: in the way for which more of its cells are complete; if "
    "equal, the way with more cells; if still equal, searched. Settings chosen by test accuracy "
    "and other protocols are not used."
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


class Changed(NamedTuple):
    claim: Claim
    verdict: Verdict  # for independent data sets
    bound: Verdict  # for fully correlated errors of related ones


def judge_claims(
    experiment: Experiment, cells: Mapping[Chosen, Cells], related: Related = ()
) -> list[Judged]:
    """Judge all claims. Claims that do not hold come first, untested ones last.

    Args:
        experiment: has the claims
        cells: the rows, by how their settings were chosen
        related: data sets whose errors are taken as fully correlated
    """
    order = list(Verdict)
    judged = [_judge(claim, experiment, cells, related) for claim in experiment.claims]
    return sorted(judged, key=lambda one: order.index(one.found.verdict))


def related_changes(experiment: Experiment, cells: Mapping[Chosen, Cells]) -> list[Changed]:
    """The verdicts that change if the errors of related data sets are fully correlated.

    In between, for a weaker correlation, a verdict is one of the two.
    """
    bounds = judge_claims(experiment, cells, experiment.related)
    bound = {one.claim.id: one.found.verdict for one in bounds}
    return [
        Changed(one.claim, one.found.verdict, bound[one.claim.id])
        for one in judge_claims(experiment, cells)
        if one.found.verdict is not bound[one.claim.id]
    ]


def _judge(
    claim: Claim, experiment: Experiment, cells: Mapping[Chosen, Cells], related: Related
) -> Judged:
    """Judge one claim as `RULE` says."""
    known = {way: Evidence.of(experiment, cells.get(way, {}), related) for way in Chosen}
    del known[Chosen.BY_TEST]
    chosen = max(known, key=lambda way: _completeness(claim, known[way]))  # in a tie, the first
    found = claim.test.judge(known[chosen])
    return Judged(claim, found, chosen if any(_completeness(claim, known[chosen])) else None)


def _completeness(claim: Claim, evidence: Evidence) -> tuple[int, int]:
    """Number of complete cells of the claim, and number of its usable cells."""
    rows = [evidence.cells.get(key) for key in claim.test.cells]
    usable = [cell for cell in rows if cell is not None and not cell.note]
    return sum(len(cell.accuracy) >= evidence.runs for cell in usable), len(usable)
