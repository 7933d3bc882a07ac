"""The remaining time of an experiment, estimated from the progress of its cells."""

from collections.abc import Sequence
from typing import NamedTuple

from sagpool.bench import CellState


class TimeLeft(NamedTuple):
    seconds: float
    at_least: bool  # whether some of the remaining work is not known yet


def time_left(states: Sequence[CellState]) -> TimeLeft | None:
    """The remaining time of all cells together; None if unknown.

    Cells that train side by side share the device. So the remaining trainings take as long as at
    the present rate of all cells together, but not less than the slowest cell needs for its own.
    """
    unfinished = [state for state in states if state.stage not in ("done", "failed")]
    rate, longest = 0.0, 0.0
    for state in unfinished:
        seconds = _eta_seconds(state)
        if seconds is not None and state.done < state.total:
            rate += (state.total - state.done) / max(seconds, 1e-9)
            longest = max(longest, seconds)
    if not rate:
        return None
    count = sum(state.total - state.done + (state.later or 0) for state in unfinished)
    unknown = any(
        state.later is None or (is_running(state) and _eta_seconds(state) is None)
        for state in unfinished
    )
    return TimeLeft(max(longest, count / rate), unknown)


def is_running(state: CellState) -> bool:
    return state.stage in ("searching", "training")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _eta_seconds(state: CellState) -> float | None:
    return state.progress.eta_seconds if state.progress else None
