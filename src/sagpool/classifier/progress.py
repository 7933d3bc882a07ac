"""The progress of a fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

NETS = 5  # work of a net, in units of a simple candidate


@dataclass(frozen=True)
class FitProgress:
    """The progress of a fit."""

    stage: str  # the current activity
    fraction: float  # fraction of all work
    seconds_left: float | None  # None until an estimate is possible


class Clock:
    """Computes the fraction of all work that is done, and the remaining time.

    Args:
        simple: number of simple candidates
        nets: number of nets
        on_progress: called by `tell`
    """

    def __init__(self, simple: int, nets: int, on_progress: Callable[[FitProgress], None]) -> None:
        self.total, self.on_progress = simple + NETS * nets, on_progress
        self.start, self.done = time.monotonic(), 0.0

    def finish(self, nets: int = 0) -> None:
        """A simple candidate is done, or ``nets`` nets."""
        self.done += NETS * nets or 1

    def tell(self, stage: str, fraction: float, nets: int = 0) -> None:
        """``fraction`` of a simple candidate is done, or of ``nets`` that train together."""
        at = min(1.0, (self.done + fraction * (NETS * nets or 1)) / self.total)
        left = (time.monotonic() - self.start) * (1 - at) / at if at > 0 else None
        self.on_progress(FitProgress(stage, at, left))
