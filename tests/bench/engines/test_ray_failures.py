"""Killed workers, lost machines and a stopped command lose no rows.

The trainings of a command take long enough to interfere with them.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sagpool.bench import Store, run_experiment

ray = pytest.importorskip("ray")

RUN = [sys.executable, "-c", "from sagpool.cli.main import main; main()", "bench"]
OPTIONS = {
    "datasets": "MUTAG",
    "methods": "gpool-h",
    "seeds": 6,
    "folds": 4,
    "precision": "float64",
}
SETTINGS = {"hidden": 4, "patience": 100, "max_epochs": 30}
TRAININGS = 24


class Command:
    """``sagpool bench`` in a separate process."""

    def __init__(self, cluster, store: Path) -> None:
        self.store = store
        self.process = subprocess.Popen(
            [
                *(*RUN, "--store", str(store), "--members", "2", "--precision", "float64"),
                *("--dataset", "MUTAG", "--method", "gpool-h", "--seeds", "6", "--folds", "4"),
                *(f"--set={name}={value}" for name, value in SETTINGS.items()),
                *("--engine", "ray", "--address", cluster.address),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, condition) -> None:
        """Wait until it holds; fail if the command ends before."""
        while not condition():
            if self.process.poll() is not None:
                pytest.fail(self.process.stderr.read())
            time.sleep(0.02)

    def end(self) -> str:
        out, self.err = self.process.communicate(timeout=300)
        return out


def count(store: Path) -> int:
    if not store.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    except sqlite3.OperationalError:  # it is being created
        return 0


def workers_of(node) -> list[int]:
    """The processes that train on a node."""
    (raylet,) = node.all_processes["raylet"]
    found = []
    for folder in Path("/proc").iterdir():
        try:
            title = (folder / "cmdline").read_text()
            parent = int((folder / "stat").read_text().rsplit(") ", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if title.startswith("ray::Worker") and parent == raylet.process.pid:
            found.append(int(folder.name))
    return found


def interrupt(command: Command) -> None:
    command.wait_for(lambda: count(command.store))
    os.killpg(command.process.pid, signal.SIGINT)
    assert command.end() == ""
    assert command.process.returncode == 130, command.err
    assert command.err.splitlines()[-1] == "Stopped. Run the same command to continue."
    assert "Traceback" not in command.err


def kill(command: Command) -> None:
    before = count(command.store)
    command.wait_for(lambda: count(command.store) > before)
    command.process.kill()
    command.end()


def lose_a_worker_and_a_machine(command: Command, cluster, lost) -> None:
    before = count(command.store)
    command.wait_for(lambda: count(command.store) > before and workers_of(lost))
    nodes = (cluster.head_node, *cluster.worker_nodes)
    stays = next(node for node in nodes if node is not lost and workers_of(node))
    os.kill(workers_of(stays)[0], signal.SIGKILL)
    before = count(command.store)
    command.wait_for(lambda: count(command.store) > before)
    cluster.remove_node(lost, allow_graceful=False)
    command.end()
    assert command.process.returncode == 0, command.err


def test_no_row_is_lost_or_trained_twice(cluster, add_node, assert_equal, tmp_path):
    """A command is stopped by Ctrl-C, the next one is killed, the last one loses its workers."""
    stores = [tmp_path / "local.sqlite", tmp_path / "ray.sqlite"]
    interrupt(Command(cluster, stores[1]))
    first = count(stores[1])
    assert 0 < first < TRAININGS
    kill(Command(cluster, stores[1]))
    second = count(stores[1])
    assert first < second < TRAININGS
    lost = add_node()
    lose_a_worker_and_a_machine(Command(cluster, stores[1]), cluster, lost)

    run_experiment(settings=SETTINGS, store=stores[0], device="cpu", **OPTIONS)
    found = []
    for path in stores:
        with Store.reading(path) as store:
            found.append({run.key: vars(run) for run in store.runs()})
            assert store.failures() == []
    by_command = [row["invocation"] for row in found[1].values()]
    assert [by_command.count(number) for number in (1, 2, 3)] == [
        first,
        second - first,
        TRAININGS - second,
    ]
    circumstances = ("seconds", "finished", "invocation", "curve")
    ours, theirs = (
        {
            key: {name: value for name, value in row.items() if name not in circumstances}
            for key, row in rows.items()
        }
        for rows in found
    )
    assert len(theirs) == TRAININGS
    assert_equal(ours, theirs)
