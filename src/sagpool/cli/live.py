"""What is seen while the bench runs: a table on a terminal, now and then a line elsewhere."""

import time
from collections.abc import Sequence
from types import TracebackType

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sagpool.bench.plan import Cell
from sagpool.bench.run import CellState
from sagpool.fleet import Progress

LINE_SECONDS = 30.0  # between two lines about one cell, where there is no terminal
WIDE, NARROW = 90, 70  # columns of a terminal that has room for everything, for most
SPARE_LINES = 7  # of the terminal, for what is not a cell


class LiveView:
    """Shows how far the cells are; call it with each state that has changed."""

    def __init__(self, cells: Sequence[Cell], console: Console) -> None:
        self.console = console
        self.states = [CellState(cell) for cell in cells]
        self.begin = time.monotonic()
        self.told: tuple[int, str] | None = None
        self.told_at = 0.0
        self.live = Live(
            get_renderable=self._render, console=console, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> "LiveView":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def __call__(self, state: CellState) -> None:
        place = next(i for i, known in enumerate(self.states) if known.cell is state.cell)
        self.states[place] = state
        if not self.console.is_terminal:
            self._line(place, state)

    def stop(self, words: str) -> None:
        """Put the table away and leave a last line."""
        self.live.stop()
        self.console.print(words, highlight=False)

    def _line(self, place: int, state: CellState) -> None:
        """Tell when a cell enters a stage, and what it does, every so often."""
        now = time.monotonic()
        new = self.told != (place, state.stage)
        if not new and now - self.told_at < LINE_SECONDS:
            return
        self.told, self.told_at = (place, state.stage), now
        parts = [
            f"[{place + 1}/{len(self.states)}] {state.cell.dataset.name} {state.cell.method}: "
            f"{state.stage}",
            f"{state.done}/{state.total} trainings" if state.total else "",
            f"{_mean(state)} so far" if state.accuracies and state.stage == "training" else "",
            _mean(state) if state.accuracies and state.stage == "done" else "",
            f"{_speed(state)} models·epochs/s" if _speed(state) else "",
            f"{_eta(state)} left" if _eta(state) else "",
            f"{len(state.lost)} failed" if state.lost else "",
            state.reason,
        ]
        self.console.print(
            ", ".join(part for part in parts if part), highlight=False, soft_wrap=True
        )

    def _render(self) -> RenderableType:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        wide = self.console.width >= WIDE
        table.add_column("data set", no_wrap=True)
        table.add_column("method", no_wrap=True)
        if self.console.width >= NARROW:
            table.add_column("stage", no_wrap=True, min_width=8)
        table.add_column("done", justify="right", no_wrap=True, min_width=7)
        table.add_column("mean", justify="right", no_wrap=True, min_width=7)
        if wide:
            table.add_column("models·epochs/s", justify="right", no_wrap=True)
        table.add_column("left", justify="right", no_wrap=True, min_width=6)
        shown = self._window(self.states)
        for state in shown:
            table.add_row(
                state.cell.dataset.name,
                state.cell.method,
                *([state.stage] if self.console.width >= NARROW else []),
                _done(state),
                _mean(state) if state.accuracies else "",
                *([_speed(state)] if wide else []),
                _eta(state),
                style=_STYLES.get(state.stage, ""),
            )
        finished = sum(state.stage in ("done", "failed") for state in self.states)
        hidden = (
            f", {len(self.states) - len(shown)} not shown" if len(shown) < len(self.states) else ""
        )
        passed = _duration(time.monotonic() - self.begin)
        footer = (
            f"{finished} of {len(self.states)} cells done in {passed}{hidden}. "
            "Ctrl-C stops; the same command goes on."
        )
        return Group(table, Text(footer, style="dim"))

    def _window(self, states: list[CellState]) -> list[CellState]:
        """As many cells as the terminal has lines for, those at work among them."""
        room = max(3, self.console.height - SPARE_LINES)
        waiting = [i for i, state in enumerate(states) if state.stage == "waiting"]
        first_waiting = waiting[0] if waiting else len(states)
        start = max(0, min(first_waiting - room // 2, len(states) - room))
        return states[start : start + room]


_STYLES = {"waiting": "dim", "searching": "bold", "training": "bold", "failed": "red"}


def _done(state: CellState) -> str:
    if not state.total:
        return ""
    failed = f" ({len(state.lost)} failed)" if state.lost else ""
    return f"{state.done}/{state.total}{failed}"


def _mean(state: CellState) -> str:
    return f"{100 * np.mean(state.accuracies):.2f} %"


def _speed(state: CellState) -> str:
    progress = _running(state)
    return f"{progress.epochs_per_second:.0f}" if progress else ""


def _eta(state: CellState) -> str:
    progress = _running(state)
    if progress is None or progress.eta_seconds is None:
        return ""
    return _duration(progress.eta_seconds)


def _running(state: CellState) -> Progress | None:
    return state.progress if state.stage in ("searching", "training") else None


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
