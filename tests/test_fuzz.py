"""A small part of ``make fuzz``, and that it notices what it is there for."""

import json
import runpy
import sys
import threading
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

OUTCOMES = ("accepted", "refused")
SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def fuzz(run_script, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *options: run_script("fuzz.py", "--here", "--json", *options)


def test_every_target_refuses_or_is_right(fuzz):
    done = fuzz("--scale", 0.002)
    assert done.code == 0, done.out
    counts = json.loads(done.out)
    assert counts.keys() == runpy.run_path(str(SCRIPTS / "fuzz.py"))["TARGETS"].keys()
    for name, found in counts.items():
        assert found.keys() <= set(OUTCOMES), (name, found)
    assert all(sum(one[what] for one in map(Counter, counts.values())) > 10 for what in OUTCOMES)


def test_the_same_seed_gives_the_same_inputs(fuzz):
    one, again, other = (
        fuzz("--only", "jsonl", "--scale", 0.02, "--seed", seed).out for seed in (3, 3, 4)
    )
    assert one == again != other


@pytest.mark.parametrize(
    ("target", "function", "replacement", "outcome"),
    [
        ("tu", "sagpool.graphs.tu.encode", lambda values: _swapped(values), "wrong"),
        ("jsonl", "sagpool.graphs.record_files.pack_records", lambda *_: 1 / 0, "traceback"),
        ("jsonl", "sagpool.graphs.record_files.pack_records", lambda *_: bytes(2**60), "memory"),
    ],
)
def test_failures_are_noticed(fuzz, monkeypatch, target, function, replacement, outcome):
    monkeypatch.setattr(function, replacement)
    done = fuzz("--only", target, "--scale", 0.005)
    assert done.code == 1
    assert json.loads(done.out)[target][outcome] > 0


def _swapped(values):
    from sagpool.graphs.raw_graphs import encode

    codes = encode(values)
    return codes._replace(names=codes.names[::-1])


def test_a_hang_is_noticed_and_the_rest_goes_on(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    fuzz, readers = import_module("fuzz"), import_module("fuzzing.readers")
    never = threading.Event()
    monkeypatch.setattr(readers.TU, "run", lambda _, random: random.random() < 0.2 and never.wait())
    monkeypatch.setattr(fuzz, "SECONDS", 0.5)
    ended = list(fuzz.run_all(0, [("tu", 0, 10)], 2))
    assert [one.number for one in ended] == list(range(10))
    outcomes = {one.outcome for one in ended}
    assert outcomes == {"accepted", "hang"}, ended


def test_the_audit_is_skipped_with_a_word(run_script, monkeypatch):
    monkeypatch.setitem(sys.modules, "pip_audit", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = run_script("audit.py")
    assert done.code == 0
    assert done.out.startswith("Audit skipped: pip-audit is not installed")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("socket.create_connection", lambda *_: (_ for _ in ()).throw(OSError()))
    done = run_script("audit.py")
    assert done.code == 0
    assert done.out == "Audit skipped: pypi.org cannot be reached.\n"


KNOWN = {"name": "a", "version": "1", "vulns": []}
UNKNOWN = {"name": "b", "skip_reason": "not found on PyPI"}
VULNERABLE = {
    "name": "c",
    "version": "2",
    "vulns": [{"id": "CVE-1", "fix_versions": ["2.1", "3"], "aliases": []}],
}


@pytest.mark.parametrize(
    ("packages", "code", "printed"),
    [
        ([KNOWN], 0, "1 packages audited, 0 vulnerable, 0 unknown.\n"),
        ([UNKNOWN, UNKNOWN], 0, "Audit skipped: pypi.org knows none of the 2 packages.\n"),
        (
            [KNOWN, UNKNOWN, VULNERABLE],
            1,
            "c 2: CVE-1, fixed in 2.1, 3\n2 packages audited, 1 vulnerable, 1 unknown.\n",
        ),
        (None, 0, "Audit skipped: pip-audit failed: no network.\n"),
    ],
)
def test_what_the_audit_has_found(packages, code, printed, run_script, monkeypatch):
    text = "" if packages is None else json.dumps({"dependencies": packages})
    done = SimpleNamespace(stdout=text, stderr="ERROR\nno network\n", returncode=1)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("socket.create_connection", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr("subprocess.run", lambda *_, **__: done)
    ended = run_script("audit.py")
    assert (ended.code, ended.out) == (code, printed)
