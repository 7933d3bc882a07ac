"""Claims of a paper, and verdicts on them from the rows of a store."""

from sagpool.bench.claims.claim import Claim, read_claims
from sagpool.bench.claims.evidence import CellRows, Evidence
from sagpool.bench.claims.judgement import Gap, Judgement, Line, Verdict
from sagpool.bench.claims.judging import (
    RULE,
    Changed,
    Judged,
    judge_claims,
    related_changes,
)
from sagpool.bench.claims.kinds import COMPARED
from sagpool.bench.claims.phrases import Method, Phrase, p_text

__all__ = [
    "COMPARED",
    "RULE",
    "CellRows",
    "Changed",
    "Claim",
    "Evidence",
    "Gap",
    "Judged",
    "Judgement",
    "Line",
    "Method",
    "Phrase",
    "Verdict",
    "judge_claims",
    "p_text",
    "read_claims",
    "related_changes",
]
