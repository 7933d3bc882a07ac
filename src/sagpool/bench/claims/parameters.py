"""Tests of the number of parameters, which need no rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from sagpool.bench.claims.evidence import Evidence
from sagpool.bench.claims.judgement import Gap, Judgement, Verdict
from sagpool.bench.claims.phrases import Method, joined
from sagpool.bench.claims.reading import known_keys, names
from sagpool.errors import SagpoolError
from sagpool.models import Shape, count_parameters, method_version, methods

SIZES = (20, 100, 500)  # nodes of the largest graph
RATIOS = (0.25, 0.5)
CHANNELS, CLASSES = 128, 2  # as in the paper's Figure 4
ALIKE = 0.01  # relative difference below which two counts are the same


@dataclass(frozen=True)
class Parameters:
    """The numbers of parameters, for graphs of several sizes and all pooling ratios."""

    relation: str
    methods: tuple[str, ...]

    @classmethod
    def read(cls, entry: Any, options: Mapping[str, Any], datasets: Sequence[str]) -> Self:
        known_keys(options, ())
        if not isinstance(entry, dict) or len(entry) != 1:
            raise SagpoolError(f"must have one of {', '.join(RELATIONS)}, not {entry!r}")
        known_keys(entry, RELATIONS)
        ((relation, listed_methods),) = entry.items()
        compared = names(listed_methods)
        if relation in COMPARING and len({*compared}) < 2:
            raise SagpoolError(
                f"needs a list of at least two different methods for '{relation}', not "
                f"{listed_methods!r}"
            )
        return cls(relation, compared)

    cells = ()

    def judge(self, evidence: Evidence) -> Judgement:
        unknown = [method for method in self.methods if method not in methods()]
        if unknown:
            gaps = tuple(Gap("", method, "not a registered method") for method in unknown)
            return Judgement(Verdict.NOT_TESTED, gaps=gaps)
        counts = {m: _counts(m, method_version(m)) for m in self.methods}
        first, *others = counts.values()
        holds = RELATIONS[self.relation](first, others)
        verdict = Verdict.HOLDS if all(holds) else Verdict.IN_PART if any(holds) else Verdict.FAILS
        found = joined(((Method(m), f" {_range(c)}") for m, c in counts.items()), ", ")
        sizes = f"counted, graphs of {SIZES[0]} to {SIZES[-1]} nodes, ratios 1/4 and 1/2"
        return Judgement(verdict, (found,), ((sizes,),))


Counts = list[int]  # for all sizes and ratios
RELATIONS: dict[str, Callable[[Counts, list[Counts]], list[bool]]] = {
    "constant": lambda first, others: [len(set(one)) == 1 for one in (first, *others)],
    "growing": lambda first, others: [len(set(one)) > 1 for one in (first, *others)],
    "fewer": lambda first, others: [
        all(a < b for a, b in zip(first, other, strict=True)) for other in others
    ],
    "same": lambda first, others: [
        all(abs(a - b) <= ALIKE * b for a, b in zip(first, other, strict=True)) for other in others
    ],
}

COMPARING = ("fewer", "same")  # the first method with the others


@cache  # the same models are counted for several claims
def _counts(method: str, version: str) -> Counts:
    return [
        count_parameters(
            method,
            Shape(
                CHANNELS, CLASSES, hidden=CHANNELS, ratio=ratio, k=round(ratio * nodes),
                max_nodes=nodes,
            ),
        )
        for ratio in RATIOS
        for nodes in SIZES
    ]  # fmt: skip


def _range(counts: Counts) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
