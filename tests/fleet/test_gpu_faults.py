"""``scripts/gpu_faults.py`` with benches that keep or break their promises."""

import sqlite3
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch

from sagpool.fleet import lockstep, train

SCRIPTS = Path(__file__).parents[2] / "scripts"
WHOLE = {"a": (0, 0.5), "b": (0, 0.25)}  # diverged and loss, by key


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("gpu_faults")


def write(store: Path, rows: dict[str, tuple[int, float]]) -> None:
    connection = sqlite3.connect(store)
    connection.execute("DROP TABLE IF EXISTS runs")
    connection.execute("CREATE TABLE runs (key, method, seed, fold, diverged, test_loss)")
    for number, (key, values) in enumerate(rows.items()):
        connection.execute("INSERT INTO runs VALUES (?, 'm', 0, ?, ?, ?)", (key, number, *values))
    connection.commit()
    connection.close()


FAULT, STOPPED = "fault\n", "fault\nrows 1\n"
FIRST = {"a": WHOLE["a"]}


@pytest.mark.parametrize(
    ("name", "codes", "notes", "stored", "problem"),
    [
        ("memory-once", [0], FAULT, [WHOLE], ""),
        ("memory-once", [0], "step 1\n", [WHOLE], "did not happen"),
        ("memory-once", [70], FAULT, [WHOLE], "exit code 70"),
        ("memory-once", [0], FAULT, [FIRST], "1 rows are missing"),
        ("memory-once", [0], FAULT, [WHOLE | {"b": (0, 0.26)}], "other rows"),
        ("int-early", [130, 0], STOPPED, [FIRST, WHOLE], ""),
        ("int-early", [0], STOPPED, [WHOLE], "exit code 0"),
        ("term-late", [143, 0], STOPPED, [{}, WHOLE], "1 rows were lost"),
        ("term-late", [143, 0], STOPPED, [{"a": (0, 0.6)}, WHOLE], "stopped run differ"),
        ("term-late", [143, 2], STOPPED, [FIRST, FIRST], "cannot be continued"),
        ("poison", [0], "fault\npoisoned m 0 0\n", [WHOLE | {"a": (1, 9.0)}], ""),
        ("poison", [0], "fault\npoisoned m 0 0\n", [WHOLE], "not recorded as diverged"),
        ("poison", [0], "fault\npoisoned m 0 1\n", [WHOLE | {"a": (1, 9.0)}], "diverged"),
    ],
)
def test_what_is_noticed(name, codes, notes, stored, problem, script, monkeypatch, tmp_path):
    runs = iter(zip(codes, stored, strict=True))

    def start(*_):
        code, rows = next(runs)
        write(tmp_path / "runs.sqlite", rows)
        (tmp_path / "notes").write_text(notes)
        return script.Process(code, "")

    monkeypatch.setattr(script, "start", start)
    write(tmp_path / "whole.sqlite", WHOLE)
    expected = script.read(tmp_path / "whole.sqlite")
    trial = script.try_fault(name, tmp_path, 1, False, expected)
    assert problem in trial.problem
    assert bool(trial.problem) == bool(problem)


def test_faults_come_in_the_middle_of_a_step(script, mutag, kit, monkeypatch, tmp_path):
    """Memory runs out in the third one, and all trainings still end as without that."""
    expected = train(mutag, kit.trainings(2), dtype=torch.float64)
    notes = script.Notes(tmp_path / "notes")
    monkeypatch.setattr(lockstep, "adam_step", lockstep.adam_step)
    script.disturb_steps((3,), partial(torch.empty, script.TOO_MUCH), notes, on_gpu=False)
    kit.close(train(mutag, kit.trainings(2), dtype=torch.float64), expected)
    assert len(notes.read("fault")) == 1
    assert len(notes.read("step")) > 3
