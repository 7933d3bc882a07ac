"""Verdicts on claims that no row can decide, by what complexity.py measured."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sagpool.bench.claims import Judged, Judgement, Method, Phrase, Verdict
from sagpool.bench.claims.judgement import combine

TOLERANCE = 0.3  # between the exponent of a law and the measured one
WHAT = {"time": "milliseconds", "memory": "bytes"}
LAWS = {"sagpool-h": {"nodes": 1, "edges": 1}, "diffpool-h": {"nodes": 2}}  # exponents
PAPERS_RATIO = "1/10"  # of the example in section 5.4


def with_measured(judged: Iterable[Judged], folders: Sequence[Path]) -> list[Judged]:
    """The same claims, in the order of their verdicts, with those that were measured."""
    measured: dict[str, Judgement] = {}
    for folder in folders:
        path = folder / "complexity.json"
        if path.exists():
            result = json.loads(path.read_text("utf-8"))
            measured["complexity"] = _growth(result["costs"], result["device"])
            measured["cluster-size"] = _cluster_sizes(result["clusters"])
    order = list(Verdict)
    return sorted(
        (one._replace(found=measured.get(one.claim.id, one.found)) for one in judged),
        key=lambda one: order.index(one.found.verdict),
    )


def exponent(costs: Sequence[Mapping[str, Any]], series: str, what: str) -> float | None:
    """The slope between the last two sizes on logarithmic axes; None if there is one size."""
    if len(costs) < 2:
        return None
    first, last = costs[-2:]
    return math.log(last[what] / first[what]) / math.log(last[series] / first[series])


def _growth(costs: Sequence[Mapping[str, Any]], device: str) -> Judgement:
    """SAGPool grows no faster than in proportion; DiffPool with the square of the nodes."""
    phrases: list[Phrase] = []
    verdicts = []
    for method, laws in LAWS.items():
        for series, law in laws.items():
            here = [c for c in costs if c["method"] == method and c["series"] == series]
            slopes = {name: exponent(here, series, what) for name, what in WHAT.items()}
            follow = {what: _follows(what, slope, law) for what, slope in slopes.items()}
            verdicts += follow.values()
            powers = ", ".join(
                f"{name} {slope:z.2f} ({follow[name]})".replace("-", "−")
                for name, slope in slopes.items()
                if slope is not None
            )
            claimed = f" in the {series} (claimed: {law}): {powers}"
            phrases.append(("Exponents of ", Method(method), claimed))
    certainty = (
        f"measured, one step on {device}; a law holds if the exponent is within {TOLERANCE} of it, "
        "or for memory that grows in proportion to a sum, below; if steps wait for the launch of "
        "their kernels, their time decides nothing"
    )
    return Judgement(combine(verdicts), tuple(phrases), ((certainty,),))


def _follows(what: str, slope: float | None, law: int) -> Verdict:
    """Whether time or memory grows by a law.

    SAGPool's grow with |V| + |E|, so with one of them they grow at most in proportion. Time that
    grows more slowly is that of launching kernels.
    """
    if slope is None or (law == 1 and what == "time" and slope < law - TOLERANCE):
        return Verdict.UNDECIDED
    least = -math.inf if law == 1 else law - TOLERANCE
    return Verdict.HOLDS if least <= slope <= law + TOLERANCE else Verdict.FAILS


def _cluster_sizes(found: Mapping[str, Any]) -> Judgement:
    one, graphs = found["ratios"][PAPERS_RATIO], found["graphs"]
    text = (
        f"{found['large']} of {graphs:,} graphs have over 1,000 nodes; at k = {PAPERS_RATIO}, "
        f"{one['expanded']:,} have fewer nodes than the {one['clusters']:,} clusters"
    )
    holds = 2 * one["expanded"] > graphs
    return Judgement(Verdict.HOLDS if holds else Verdict.FAILS, ((text,),), (("counted",),))
