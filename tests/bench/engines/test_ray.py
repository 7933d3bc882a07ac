"""A real Ray cluster of several nodes on this machine gives the rows of the local engine.

Nodes are slow to start, so all tests use one cluster.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sagpool.bench import Store, run_experiment
from sagpool.bench.engines import Job, Local
from sagpool.bench.engines.cluster import connected
from sagpool.bench.engines.engine import FailedTraining
from sagpool.errors import SagpoolError
from sagpool.fleet import Training, train
from sagpool.models import plugins, registry

ray = pytest.importorskip("ray")

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU each, and one for the driver."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OMP_NUM_THREADS", "1")
        # Otherwise Ray takes half a minute to notice that a machine is gone.
        health = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_timeout_ms": 5000,
            "health_check_failure_threshold": 3,
        }
        head = {**NODE, "num_cpus": 0, "include_dashboard": False, "_system_config": health}
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(2):
                made.add_node(**NODE)
            with connected(made.address):
                yield made
        finally:
            made.shutdown()


@pytest.fixture
def engine(cluster):
    from sagpool.bench.engines.on_ray import Ray

    made = []

    def leave():
        for one in made:
            for worker in list(one.pool.workers):
                one.pool.drop(worker)

    def make(**options):
        leave()  # the cluster has room for the workers of one engine
        made.append(Ray(**{"split_seconds": 0, **options}))
        return made[-1]

    yield make
    leave()


def rows(results):
    """By training, without their duration."""
    return {result.training: result.row() | {"seconds": 0} for result in results}


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for training, row in ours.items():
        for name, value in row.items():
            if isinstance(value, float):
                assert value == pytest.approx(theirs[training][name], rel=1e-9), name
            else:
                assert value == theirs[training][name], name


def test_the_rows_of_the_local_engine(engine, mutag, tmp_path, monkeypatch):
    """A long fleet and two short ones: the worker that has finished those gets a part of it."""
    from sagpool.bench.engines.chunks import Chunks

    parts, end = [], Chunks.end

    def spy(self, worker, given=()):
        parts.extend(given)
        end(self, worker, given)

    def train_until_split(graphs, trainings, *, on_progress, **options):
        """The two long trainings wait after an epoch until their worker has to split them."""
        worker = on_progress.__self__

        def wait(progress):
            deadline = time.monotonic() + 60  # then the test fails, as nothing was split
            while len(trainings) == 2 and not worker.split_into and time.monotonic() < deadline:
                time.sleep(0.01)
            on_progress(progress)

        return train(graphs, trainings, on_progress=wait, **options)

    monkeypatch.setattr(Chunks, "end", spy)
    one = Training("sagpool-h", hidden=4, lr=0.01, folds=4)
    trainings = [replace(one, hidden=6, max_epochs=1)]
    # One worker gets the first two of these; the other gets the third after the one above.
    lengths = (10, 10, 1, 10)
    trainings += [replace(one, fold=fold, max_epochs=n) for fold, n in enumerate(lengths)]
    job = Job(mutag, tuple(trainings), frozenset(trainings[4:]), "float64", lambda t: t.hidden == 6)
    results, progress = [], []
    used = engine(train=train_until_split)
    used.pool.fill(2, 2)
    while len(used.pool.idle) < 2:  # so that both workers get a chunk
        list(used.pool.answers(1))
    used.run(job, results.append, progress.append)
    assert len(results) == 4
    assert [bool(part.state) for part in parts] == [True, True], "the long fleet was split"
    expected = []
    Local(tmp_path).run(job, expected.append, lambda progress: None)
    assert_equal(rows(results), rows(expected))
    ours, theirs = (
        next(r for r in found if r.training.hidden == 6).weights for found in (results, expected)
    )
    for name, weights in theirs.items():
        np.testing.assert_allclose(ours[name], weights, rtol=1e-9)
    assert sum(result.weights is not None for result in results) == 1
    assert (progress[-1].done, progress[-1].total, progress[-1].running) == (4, 4, 0)
    assert progress[-1].epochs == 1 + sum(lengths[:3]), "no epoch was trained twice"
    assert used.device == "Ray: 2 CPUs on 2 machines"


def test_a_training_that_fails_is_recorded_and_the_others_continue(engine, small, tmp_path):
    died = tmp_path / "died"

    def stumble(graphs, trainings, **options):
        if any(one.seed == 1 and one.fold == 0 for one in trainings):
            raise RuntimeError("planted")
        if any(one.seed == 0 and one.fold == 1 for one in trainings) and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return train(graphs, trainings, **options)

    path = tmp_path / "runs.sqlite"

    def bench(engine):
        (state,) = run_experiment(small, methods="gpool-h", store=path, engine=engine).cells
        with Store.reading(path) as store:
            return state, store.runs(), store.failures()

    state, runs, failures = bench(engine(train=stumble))
    assert died.exists()
    assert [(run.seed, run.fold) for run in runs] == [(0, 0), (0, 1), (1, 1)]
    assert [(one.seed, one.fold) for one in failures] == [(1, 0)]
    assert failures[0].reason.startswith("RuntimeError in test_ray.py, line ")
    assert failures[0].reason.endswith(": planted")
    assert [type(one) for one in state.failures] == [FailedTraining]
    assert (state.stage, state.done, state.total) == ("done", 3, 4)
    # It is missing, so the same command tries it again.
    state, runs, failures = bench(engine())
    assert (len(runs), failures, state.failures) == (4, [], [])


PLUGIN = """
from dataclasses import replace
from sagpool.models import build, register

@register("plugin-h", settings={"scale": 1.0})
def plugin_h(shape):
    wide = int(shape.hidden * shape.settings["scale"])
    return build("gpool-h", replace(shape, hidden=wide, settings={}))
"""


def test_workers_load_the_plugins_of_the_driver(engine, mutag, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", dict(plugins._loaded))
    file = tmp_path / "plugin.py"
    file.write_text(PLUGIN)
    plugins.load_plugin(file)
    one = Training.from_dict({"method": "plugin-h", "hidden": 4, "scale": 1.5, "max_epochs": 1})
    results, expected = [], []
    engine().run(job_of(mutag, one), results.append, lambda progress: None)
    Local(tmp_path).run(job_of(mutag, one), expected.append, lambda progress: None)
    assert_equal(rows(results), rows(expected))

    registry.register("unknown-h", version="1")(registry.find_method("gpool-h").build)
    with pytest.raises(SagpoolError, match=r"^The workers .* lack the method 'unknown-h'"):
        engine().run(job_of(mutag, Training("unknown-h")), results.append, lambda progress: None)


def job_of(graphs, training):
    return Job(graphs, (training,), frozenset(), "float64", lambda training: False)


RUN = [sys.executable, "-c", "from sagpool.cli.main import main; main()", "bench"]
OPTIONS = {
    "datasets": "MUTAG",
    "methods": "gpool-h",
    "seeds": 8,
    "folds": 4,
    "precision": "float64",
}
SETTINGS = {"hidden": 4, "patience": 100, "max_epochs": 60}
TRAININGS = 32


class Command:
    """``sagpool bench`` in a separate process."""

    def __init__(self, cluster, store: Path) -> None:
        self.store = store
        self.process = subprocess.Popen(
            [
                *(*RUN, "--store", str(store), "--members", "2", "--precision", "float64"),
                *("--dataset", "MUTAG", "--method", "gpool-h", "--seeds", "8", "--folds", "4"),
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


def test_a_killed_worker_and_a_lost_machine(cluster, tmp_path):
    stores = [tmp_path / "local.sqlite", tmp_path / "ray.sqlite"]
    lost = cluster.add_node(**NODE)
    command = Command(cluster, stores[1])
    command.wait_for(lambda: count(stores[1]) and workers_of(lost))
    stays = next(node for node in cluster.worker_nodes if node is not lost and workers_of(node))
    os.kill(workers_of(stays)[0], signal.SIGKILL)
    before = count(stores[1])
    command.wait_for(lambda: count(stores[1]) > before)
    cluster.remove_node(lost, allow_graceful=False)
    command.end()
    assert command.process.returncode == 0, command.err
    run_experiment(settings=SETTINGS, store=stores[0], device="cpu", **OPTIONS)
    found = []
    for path in stores:
        with Store.reading(path) as store:
            found.append({run.key: vars(run) for run in store.runs()})
            assert store.failures() == []
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


def test_ctrl_c_and_a_killed_driver_lose_no_rows(cluster, engine, tmp_path):
    store = tmp_path / "runs.sqlite"
    stopped = Command(cluster, store)
    stopped.wait_for(lambda: count(store))
    os.killpg(stopped.process.pid, signal.SIGINT)
    assert stopped.end() == ""
    assert stopped.process.returncode == 130, stopped.err
    assert stopped.err.splitlines()[-1] == "Stopped. Run the same command to continue."
    assert "Traceback" not in stopped.err
    first = count(store)
    assert 0 < first < TRAININGS

    killed = Command(cluster, store)
    killed.wait_for(lambda: count(store) > first)
    killed.process.kill()
    killed.end()
    second = count(store)
    assert first < second < TRAININGS

    last = run_experiment(settings=SETTINGS, store=store, engine=engine(), **OPTIONS)
    assert (len(last.summaries[0].runs), last.failure) == (TRAININGS, "")
    with Store.reading(store) as rows:
        by_command = [run.invocation for run in rows.runs()]
    assert [by_command.count(number) for number in (1, 2, 3)] == [
        first,
        second - first,
        TRAININGS - second,
    ]
