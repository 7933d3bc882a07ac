"""The claims of an experiment file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sagpool.bench.claims.kinds import KINDS, Test
from sagpool.bench.claims.phrases import Phrase, with_methods
from sagpool.errors import SagpoolError
from sagpool.models.registry import suggestion

_KEYS = ("id", "claim", "where", "test")


@dataclass(frozen=True)
class Claim:
    """A sentence about results, with the test that decides it."""

    id: str
    text: Phrase
    where: str  # place in the paper
    kind: str  # one of `KINDS`
    test: Test


def read_claims(entries: Any, datasets: Sequence[str]) -> tuple[Claim, ...]:
    """Read the list of claims of an experiment with these data sets."""
    if not isinstance(entries, list):
        raise SagpoolError(f"claims must be a list, not {entries!r}")
    claims: dict[str, Claim] = {}
    for position, entry in enumerate(entries):
        place = f"claims[{position}]"
        if not isinstance(entry, dict):
            raise SagpoolError(f"{place} must be a mapping, not {entry!r}")
        for key in entry:
            if key not in _KEYS:
                raise SagpoolError(f"{place} has no '{key}'; {suggestion(key, _KEYS)}")
        for key in _KEYS[:3]:
            if not isinstance(entry.get(key), str) or not entry[key].strip():
                raise SagpoolError(f"{place}.{key} must be a text, not {entry.get(key)!r}")
        name = entry["id"]
        if name in claims:
            raise SagpoolError(f"{place}: there are two claims '{name}'")
        kind, test = _test(entry.get("test"), f"{place}.test", datasets)
        text = with_methods(entry["claim"].strip())
        claims[name] = Claim(name, text, entry["where"].strip(), kind, test)
    return tuple(claims.values())


def _test(entry: Any, place: str, datasets: Sequence[str]) -> tuple[str, Test]:
    if not isinstance(entry, dict) or not entry:
        raise SagpoolError(f"{place} must be a mapping with one of {', '.join(KINDS)}")
    found = [key for key in entry if key in KINDS]
    if not found:
        wrong = str(next(iter(entry)))
        raise SagpoolError(f"{place} has no '{wrong}'; {suggestion(wrong, KINDS)}")
    if len(found) > 1:
        raise SagpoolError(f"{place} has both '{found[0]}' and '{found[1]}'; write two claims")
    kind = found[0]
    options = {str(key): value for key, value in entry.items() if key != kind}
    try:
        return kind, KINDS[kind].read(entry[kind], options, datasets)
    except SagpoolError as error:
        raise SagpoolError(f"{place}: {kind} {error}") from None
