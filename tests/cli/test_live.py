"""The live view of several cells at once, and its estimate of the time left."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from sagpool.bench import CellState
from sagpool.cli import live
from sagpool.cli.live import LINE_SECONDS, LiveView
from sagpool.cli.time_left import time_left


@pytest.fixture
def clock(monkeypatch):
    """The time, which only passes when a test says so."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(live.time, "monotonic", lambda: clock.now)
    return clock


def state(method, stage="waiting", done=0, total=10, eta=None, **more):
    progress = None
    if stage in ("searching", "training"):
        progress = SimpleNamespace(epochs_per_second=50.0, eta_seconds=eta)
    cell = SimpleNamespace(dataset=SimpleNamespace(name="MUTAG"), method=method)
    return CellState(cell, stage=stage, done=done, total=total, progress=progress, **more)


def shown(states, height=30, width=100):
    """The lines of the live table, and its footer."""
    console = Console(file=io.StringIO(), width=width, height=height)
    view = LiveView(console)
    view.states = list(states)
    console.print(view._render())
    *table, footer = filter(None, map(str.strip, console.file.getvalue().splitlines()))
    return table[2:], footer


def test_running_cells_come_first(clock):
    states = [
        state("first", "done", 10, accuracies=[0.7]),
        state("second"),
        state("third", "training", 4, eta=30.0, accuracies=[0.5, 0.7]),
        state("fourth", "searching", 2, eta=20.0, round=3, later=None),
    ]
    table, footer = shown(states)
    assert [line.split()[1] for line in table] == ["third", "fourth", "second", "first"]
    assert table[0].split()[2:] == ["training", "4/10", "60.00", "%", "50", "30", "s"]
    assert table[1].split()[2:] == ["searching", "(3)", "2/10", "50", ">", "20", "s"]
    assert footer.startswith("1 of 4 cells done in 0 s; at least ")
    table, footer = shown(states, height=3)
    assert [line.split()[1] for line in table] == ["third", "fourth", "second"]
    assert "1 not shown" in footer


def test_the_time_left_is_that_of_the_slowest_cell_or_of_all_at_their_common_rate():
    alone = [state("a", "training", 5, eta=10.0)]
    assert time_left(alone) == (10.0, False)
    tail = [state("a", "training", 9, eta=40.0), state("b", "training", 0, eta=5.0)]
    assert time_left(tail) == (40.0, False)
    # Five trainings in ten seconds, so ten more take twenty more.
    waiting = [*alone, state("b")]
    assert time_left(waiting) == (pytest.approx(30.0), False)
    grid = [state("a", "searching", 5, eta=10.0, round=1, later=20)]
    assert time_left(grid) == (pytest.approx(50.0), False)


def test_what_is_not_known_is_said():
    halving = [state("a", "searching", 5, eta=10.0, round=1, later=None)]
    assert time_left(halving) == (10.0, True)
    begun = [state("a", "training", 5, eta=10.0), state("b", "training", 0)]
    assert time_left(begun) == (pytest.approx(30.0), True)
    assert time_left([state("a", "training"), state("b")]) is None
    assert time_left([state("a", "done", 10)]) is None


def test_without_a_terminal_there_are_few_lines(clock):
    console = Console(file=io.StringIO(), width=200)
    states = [state(f"method-{number}") for number in range(24)]
    with LiveView(console) as view:
        for one in states:
            view(one)
        for one in states:
            one.stage = "training"
            one.progress = SimpleNamespace(epochs_per_second=50.0, eta_seconds=60.0)
        for _ in range(10 * int(LINE_SECONDS)):
            for one in states:
                view(one)
            clock.now += 1
        for one in states:
            one.stage, one.done, one.progress = "done", 10, None
            view(one)
    lines = console.file.getvalue().splitlines()
    begun, later, done = lines[:24], lines[24:-24], lines[-24:]
    assert begun[1] == (
        "[2/24] MUTAG method-1: training, 0/10 trainings, 50 models·epochs/s, 60 s left"
    )
    assert len(later) in (9, 10), "one for each LINE_SECONDS, not one for each cell"
    assert len({line.split("]")[0] for line in later}) == len(later), "about each cell in turn"
    assert all(line.endswith("; in all about 60 s left") for line in later)
    assert done[23] == "[24/24] MUTAG method-23: done, 10/10 trainings"


def test_a_cell_that_failed_says_why(clock):
    console = Console(file=io.StringIO(), width=200)
    one = state("a")
    with LiveView(console) as view:
        view(one)
        one.stage, one.reason = "failed", "There is not enough memory."
        view(one)
    assert console.file.getvalue() == (
        "[1/1] MUTAG a: failed, 0/10 trainings, There is not enough memory.\n"
    )
