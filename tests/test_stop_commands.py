"""``scripts/stop_commands.py`` with programs that keep or break the promises of a command."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
PROGRAM = """
import sys, time
from pathlib import Path
here = Path(sys.argv[1])
{before}
time.sleep(0.2)
(here / "out.csv").write_text("{result}")
"""


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("stop_commands")


@pytest.mark.parametrize(
    ("before", "result", "problem"),
    [
        ("", "right", ""),
        ("", "wrong", "other results"),
        ("(here / 'notes.txt').write_text('ours')", "right", "notes.txt was changed"),
        ("(here / 'model.txt').unlink(missing_ok=True)", "right", "model.txt was changed"),
        ("(here / 'x.part').write_text('')", "right", "left behind: ['x.part']"),
        ("raise ValueError", "right", "exit code 1: Traceback"),
        ("if any(here.glob('began')): sys.exit(2)\n(here / 'began').touch()", "right", "again"),
    ],
)
@pytest.mark.parametrize("way", ["kill", "term"])
def test_what_is_noticed(way, before, result, problem, script, monkeypatch, tmp_path):
    program = PROGRAM.format(before=before, result=result)

    def run(words, here, base):
        command = [sys.executable, "-c", program, str(here)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    monkeypatch.setattr(script, "run", run)
    with script.folder(full=False, room=0) as here:
        (here / "out.csv").write_text("right")
        expected = script.COMMANDS["predict"].results(here)
    trial = script.try_once("predict", way, tmp_path, 0.6, 100, expected, Random(1))
    assert problem in trial.problem
    assert bool(trial.problem) == bool(problem)
