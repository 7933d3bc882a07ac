"""How far a fit is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

NETS = 5  # times the work of a simple candidate


@dataclass(frozen=True)
class FitProgress:
    """How far a fit is."""

    stage: str  # what is being done
    fraction: float  # of all work
    seconds_left: float | None  # None as long as nothing is known


class Clock:
    """Fractions of all work, and the time that is left.

    Args:
        simple: number of simple candidates
        nets: number of nets
        on_progress: called by `tell`
    """

    def __init__(self, simple: int, nets: int, on_progress: Callable[[FitProgress], None]) -> None:
        self.total, self.on_progress = simple + NETS * nets, on_progress
        self.start, self.done = time.monotonic(), 0.0

    def finish(self, nets: int = 0) -> None:
        """A simple candidate is done, or this many nets."""
        self.done += NETS * nets or 1

    def tell(self, stage: str, fraction: float, nets: int = 0) -> None:
        """``fraction`` of a simple candidate is done, or of ``nets`` that train together."""
        at = min(1.0, (self.done + fraction * (NETS * nets or 1)) / self.total)
        left = (time.monotonic() - self.start) * (1 - at) / at if at > 0 else None
        self.on_progress(FitProgress(stage, at, left))
