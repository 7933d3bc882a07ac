"""Counts the graphs that are left out while reading."""

from __future__ import annotations

import logging

from sagpool.errors import SagpoolError

log = logging.getLogger("sagpool")

MAX_LISTED = 20  # skipped graphs that are logged one by one


class Skipped:
    """Counts skipped graphs: logs the first ones, and the total at the end."""

    def __init__(self, name: str, what: str = "molecules") -> None:
        self.name, self.what, self.count, self.read = name, what, 0, 0

    def add(self, place: str, reason: str) -> None:
        self.count += 1
        if self.count <= MAX_LISTED:
            log.warning("%s is left out: %s.", place, reason)

    def __enter__(self) -> Skipped:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None or not self.count:
            return
        if not self.read:
            raise SagpoolError(
                f"{self.name}: no molecule could be read; all {self.count} were left out."
            )
        log.warning("%s: %d %s were left out.", self.name, self.count, self.what)
