"""The kinds of tests that a claim may have, by their names in an experiment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from sagpool.bench.claims.comparison import Better, Differ, Equivalent, NoWorse
from sagpool.bench.claims.evidence import Evidence
from sagpool.bench.claims.judgement import Judgement, Verdict
from sagpool.bench.claims.parameters import Parameters
from sagpool.bench.claims.published import AgreesWithPublished
from sagpool.bench.claims.reading import known_keys
from sagpool.bench.claims.spreads import Steadier
from sagpool.errors import SagpoolError


class Test(Protocol):
    """Decides whether a claim holds."""

    @classmethod
    def read(cls, entry: Any, options: Mapping[str, Any], datasets: Sequence[str]) -> Self:
        """Read the test; an error continues a sentence that begins with the name of the entry.

        Args:
            entry: the value of the kind's name
            options: the other keys of the entry
            datasets: data sets of the experiment
        """

    @property
    def cells(self) -> Sequence[tuple[str, str]]:
        """The data sets and methods whose rows decide the claim."""

    def judge(self, evidence: Evidence) -> Judgement: ...


@dataclass(frozen=True)
class Untested:
    """A claim that rows cannot decide, with the reason."""

    reason: str

    @classmethod
    def read(cls, entry: Any, options: Mapping[str, Any], datasets: Sequence[str]) -> Self:
        known_keys(options, ())
        if not isinstance(entry, str):
            raise SagpoolError(f"needs a sentence with the reason, not {entry!r}")
        return cls(entry)

    cells = ()

    def judge(self, evidence: Evidence) -> Judgement:
        return Judgement(Verdict.NOT_TESTED, ((self.reason,),))


KINDS: dict[str, type[Test]] = {
    "better": Better,
    "no-worse": NoWorse,
    "equivalent": Equivalent,
    "differ": Differ,
    "steadier": Steadier,
    "agrees-with-published": AgreesWithPublished,
    "parameters": Parameters,
    "untested": Untested,
}
COMPARED = ("better", "no-worse", "equivalent", "differ")  # two methods, by their accuracies
