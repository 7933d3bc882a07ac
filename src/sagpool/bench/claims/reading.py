"""Reads parts of the test of a claim; errors continue a sentence that names the test."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sagpool.errors import SagpoolError
from sagpool.models.registry import suggestion


def known_keys(entry: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in entry:
        if key not in known:
            hint = suggestion(key, known) if known else "it has no other keys"
            raise SagpoolError(f"has no '{key}'; {hint}")


def names(entry: Any) -> tuple[str, ...]:
    listed_names = entry if isinstance(entry, list) else [entry]
    if not listed_names or not all(isinstance(name, str) for name in listed_names):
        raise SagpoolError(f"needs a method or a list of methods, not {entry!r}")
    return tuple(listed_names)


def chosen_datasets(options: Mapping[str, Any], datasets: Sequence[str]) -> tuple[str, ...]:
    if "datasets" not in options:
        return tuple(datasets)
    chosen = options["datasets"]
    if not isinstance(chosen, list) or not chosen:
        raise SagpoolError(f"needs a list of data sets, not {chosen!r}")
    for name in chosen:
        if name not in datasets:
            raise SagpoolError(f"names the data set '{name}'; {suggestion(str(name), datasets)}")
    return tuple(chosen)
