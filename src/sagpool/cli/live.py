"""Progress of an experiment: a live table on a terminal, otherwise a line now and then."""

import time

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sagpool.bench import CellState

LINE_SECONDS = 30.0  # between two lines about one cell, without a terminal
WIDE, NARROW = (
    90,
    70,
)  # columns of the terminal that all columns of the table need, and most of them
SPARE_LINES = 7  # of the terminal, besides the cells


class LiveView:
    """Shows the progress of all cells; to be passed to `run_experiment` as ``watch``."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.states: list[CellState] = []  # all of them are announced before the first one starts
        self.begin = time.monotonic()
        self.last_line: tuple[int, str] | None = None
        self.last_line_at = 0.0
        self.live = Live(
            get_renderable=self._render, console=self.console, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> "LiveView":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.live.stop()
        if kind is KeyboardInterrupt:
            self.console.print("Stopped. Run the same command to continue.", highlight=False)

    def __call__(self, state: CellState) -> None:
        if state not in self.states:
            self.states.append(state)
        elif self.console.is_terminal:
            self.live.start()
        else:
            self._print_line(self.states.index(state), state)

    def _print_line(self, number: int, state: CellState) -> None:
        """Print a line when a cell enters a stage, and every `LINE_SECONDS`."""
        now = time.monotonic()
        new = self.last_line != (number, state.stage)
        if not new and now - self.last_line_at < LINE_SECONDS:
            return
        self.last_line, self.last_line_at = (number, state.stage), now
        parts = [
            f"[{number + 1}/{len(self.states)}] {state.cell.dataset.name} {state.cell.method}: "
            f"{state.stage}",
            f"{state.done}/{state.total} trainings" if state.total else "",
            f"{_mean(state)} so far" if state.accuracies and state.stage == "training" else "",
            _mean(state) if state.accuracies and state.stage == "done" else "",
            f"{_speed(state)} models·epochs/s" if _speed(state) else "",
            f"{_eta(state)} left" if _eta(state) else "",
            f"{len(state.failures)} failed" if state.failures else "",
            state.reason,
        ]
        self.console.print(", ".join(filter(None, parts)), highlight=False, soft_wrap=True)

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
        hidden = len(self.states) - len(shown)
        more = f", {hidden} not shown" if hidden else ""
        passed = _duration(time.monotonic() - self.begin)
        footer = (
            f"{finished} of {len(self.states)} cells done in {passed}{more}. "
            "Ctrl-C stops; the same command continues."
        )
        return Group(table, Text(footer, style="dim"))

    def _window(self, states: list[CellState]) -> list[CellState]:
        """As many cells as the terminal has lines for, including the running one."""
        lines = max(3, self.console.height - SPARE_LINES)
        waiting = [i for i, state in enumerate(states) if state.stage == "waiting"]
        first_waiting = waiting[0] if waiting else len(states)
        start = max(0, min(first_waiting - lines // 2, len(states) - lines))
        return states[start : start + lines]


_STYLES = {"waiting": "dim", "searching": "bold", "training": "bold", "failed": "red"}


def _done(state: CellState) -> str:
    if not state.total:
        return ""
    failed = f" ({len(state.failures)} failed)" if state.failures else ""
    return f"{state.done}/{state.total}{failed}"


def _mean(state: CellState) -> str:
    return f"{100 * np.mean(state.accuracies):.2f} %"


def _speed(state: CellState) -> str:
    return f"{state.progress.epochs_per_second:.0f}" if state.progress else ""


def _eta(state: CellState) -> str:
    seconds = state.progress.eta_seconds if state.progress else None
    return "" if seconds is None else _duration(seconds)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
