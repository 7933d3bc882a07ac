"""Progress of an experiment: a live table on a terminal, otherwise an occasional line."""

import time

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sagpool.bench import CellState
from sagpool.cli.console import new_console
from sagpool.cli.time_left import duration, is_running, time_left

LINE_SECONDS = 30.0  # time between two lines, without a terminal
WIDE, NARROW = (
    90,
    70,
)  # columns of the terminal that all columns of the table need, and most of them
SPARE_LINES = 7  # lines of the terminal that are not for cells


class LiveView:
    """Shows the progress of all cells; to be passed to `run_experiment` as ``watch``."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or new_console(stderr=True)
        self.states: list[CellState] = []  # all cells are announced before the first one starts
        self.begin = time.monotonic()
        # Stage and time of the last line of each cell.
        self.lines: dict[CellState, tuple[str, float]] = {}
        self.live = Live(
            get_renderable=self._render, console=self.console, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> "LiveView":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.live.stop()
        if kind and issubclass(kind, KeyboardInterrupt):
            self.console.print("Stopped. Run the same command to continue.", highlight=False)

    def __call__(self, state: CellState) -> None:
        if state not in self.states:
            self.states.append(state)
        elif self.console.is_terminal:
            self.live.start()
        else:
            self._print_line(state)

    def _print_line(self, state: CellState) -> None:
        """Print a line when a cell enters a stage, and one every `LINE_SECONDS`."""
        now = time.monotonic()
        stage, _ = self.lines.get(state, ("waiting", now))
        if state.stage == stage:
            printed = {one: at for one, (_, at) in self.lines.items() if is_running(one)}
            first = min(printed, key=lambda one: printed[one], default=None)
            newest = max((at for _, at in self.lines.values()), default=now)
            if state is not first or now - newest < LINE_SECONDS:
                return
        self.lines[state] = (state.stage, now)
        parts = [
            f"[{self.states.index(state) + 1}/{len(self.states)}] {state.cell.dataset.name} "
            f"{state.cell.method}: {_stage(state)}",
            f"{state.done}/{state.total} trainings" if state.total else "",
            f"{_mean(state)} so far" if state.accuracies and state.stage == "training" else "",
            _mean(state) if state.accuracies and state.stage == "done" else "",
            f"{_speed(state)} models·epochs/s" if _speed(state) else "",
            f"{_eta(state)} left" if _eta(state) else "",
            f"{len(state.failures)} failed" if state.failures else "",
            state.reason,
        ]
        left = self._left() if len(self.states) > 1 and state.stage == stage else ""
        line = ", ".join(filter(None, parts)) + (f"; in all {left}" if left else "")
        self.console.print(line, highlight=False, soft_wrap=True)

    def _left(self) -> str:
        """The remaining time of all cells; empty if unknown."""
        left = time_left(self.states)
        if left is None:
            return ""
        return f"{'at least' if left.at_least else 'about'} {duration(left.seconds)} left"

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
                *([_stage(state)] if self.console.width >= NARROW else []),
                _done(state),
                _mean(state) if state.accuracies else "",
                *([_speed(state)] if wide else []),
                _eta(state),
                style=_STYLES.get(state.stage, ""),
            )
        finished = sum(state.stage in ("done", "failed") for state in self.states)
        hidden = len(self.states) - len(shown)
        more = f", {hidden} not shown" if hidden else ""
        passed = duration(time.monotonic() - self.begin)
        left = self._left()
        footer = (
            f"{finished} of {len(self.states)} cells done in {passed}{more}"
            f"{f'; {left}' if left else ''}. Ctrl-C stops; the same command continues."
        )
        return Group(table, Text(footer, style="dim"))

    def _window(self, states: list[CellState]) -> list[CellState]:
        """As many cells as the terminal has lines for: running cells first, then waiting ones."""
        lines = max(3, self.console.height - SPARE_LINES)
        order = {"waiting": 1, "failed": 2, "done": 3}
        return sorted(states, key=lambda state: order.get(state.stage, 0))[:lines]


_STYLES = {"waiting": "dim", "searching": "bold", "training": "bold", "failed": "red"}


def _stage(state: CellState) -> str:
    later = state.stage == "searching" and state.round > 1
    return f"searching ({state.round})" if later else state.stage


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
    return "" if seconds is None else ("" if state.later == 0 else "> ") + duration(seconds)
