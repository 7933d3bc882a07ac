"""On which cells a claim is judged."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from sagpool.bench.claims.claim import Claim
from sagpool.bench.claims.evidence import CellRows, Evidence
from sagpool.bench.claims.judgement import Judgement, Verdict
from sagpool.bench.experiment import Experiment, Related
from sagpool.bench.variants import Chosen

RULE = (
    "A claim is judged on cells with searched settings, with settings chosen per fold or with "
    "fixed settings, never on a mixture: on cells that can test it; among these, on those of which "
    "more are complete; if equal, on the more numerous; if still equal, on the first in this "
    "order. If others can test it, too, their verdict is in the last column. All these cells have "
    "the same protocol. Cells with settings chosen by test accuracy are not used."
)
Cells = Mapping[tuple[str, str], CellRows]  # by data set and name of the method


class Judged(NamedTuple):
    claim: Claim
    found: Judgement
    chosen: Chosen | None  # the cells it is judged on; None if there are none, or none are needed
    others: Mapping[Chosen, Judgement] = MappingProxyType({})  # on cells chosen in other ways

    @property
    def marked(self) -> bool:
        """Whether a verdict rests on fewer rows than the claim is about."""
        return bool(self.found.gaps) and self.found.verdict is not Verdict.NOT_TESTED


class Changed(NamedTuple):
    claim: Claim
    chosen: Chosen  # the cells of both verdicts
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
    evidence = _evidence(experiment, cells, related)
    judged = [_judge(claim, evidence) for claim in experiment.claims]
    return sorted(judged, key=lambda one: order.index(one.found.verdict))


def related_changes(experiment: Experiment, cells: Mapping[Chosen, Cells]) -> list[Changed]:
    """The verdicts that change if the errors of related data sets are fully correlated.

    In between, for a weaker correlation, a verdict is one of the two.
    """
    independent = _evidence(experiment, cells)
    correlated = _evidence(experiment, cells, experiment.related)
    changes = []
    for claim in experiment.claims:
        apart, bound = _judgements(claim, independent), _judgements(claim, correlated)
        changes += [
            Changed(claim, way, apart[way].verdict, bound[way].verdict)
            for way in apart
            if apart[way].verdict is not bound[way].verdict
        ]
    return changes


def _evidence(
    experiment: Experiment, cells: Mapping[Chosen, Cells], related: Related = ()
) -> dict[Chosen, Evidence]:
    """By how the settings of the cells were chosen."""
    return {
        way: Evidence.of(experiment, cells.get(way, {}), related)
        for way in Chosen
        if way is not Chosen.BY_TEST
    }


def _judge(claim: Claim, evidence: Mapping[Chosen, Evidence]) -> Judged:
    """Judge one claim as `RULE` says."""
    found = _judgements(claim, evidence)
    ranks = {way: _rank(claim, evidence[way], found[way]) for way in found}
    best = max(ranks, key=lambda way: ranks[way])  # in a tie, the first
    others = {
        way: one
        for way, one in found.items()
        if way is not best and ranks[way].tested and ranks[way].usable
    }
    if ranks[best].usable == 0:
        return Judged(claim, found[best], None)
    return Judged(claim, found[best], best, others)


def _judgements(claim: Claim, evidence: Mapping[Chosen, Evidence]) -> dict[Chosen, Judgement]:
    return {way: claim.test.judge(one) for way, one in evidence.items()}


class _Rank(NamedTuple):
    tested: bool
    complete: int  # number of complete cells of the claim
    usable: int


def _rank(claim: Claim, evidence: Evidence, found: Judgement) -> _Rank:
    rows = [
        (dataset, evidence.cells.get((dataset, method))) for dataset, method in claim.test.cells
    ]
    usable = [(name, cell) for name, cell in rows if cell is not None and not cell.note]
    complete = sum(len(cell.accuracy) >= evidence.runs[name] for name, cell in usable)
    return _Rank(found.verdict is not Verdict.NOT_TESTED, complete, len(usable))
