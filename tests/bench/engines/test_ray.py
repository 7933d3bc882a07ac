"""A real Ray cluster of several nodes on this machine gives the rows of the local engine.

Nodes and workers are slow to start, so all tests of a file share them.
"""

import gc
import os
import signal
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.bench import Store, run_experiment
from sagpool.bench.engines import Job, Local
from sagpool.bench.engines.engine import FailedTraining
from sagpool.errors import SagpoolError
from sagpool.fleet import Paused, Result, Training, train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.train import train_until
from sagpool.models import plugins, registry

ray = pytest.importorskip("ray")


def rows(results):
    """By training, without their duration."""
    return {result.training: result.row() | {"seconds": 0} for result in results}


def start_workers(engine):
    """Wait for both workers, so that both get a chunk."""
    engine.pool.fill(2, 2)
    while len(engine.pool.idle) < 2:
        list(engine.pool.answers(1))
    return engine


def job_of(graphs, *trainings, **options):
    return Job(
        graphs,
        trainings,
        **{"done": frozenset(), "precision": "float64", "keep_weights": lambda t: False, **options},
    )


def test_the_rows_of_the_local_engine(engine, watching, assert_equal, mutag, tmp_path, monkeypatch):
    """A long fleet and two short ones: the worker that has finished those gets a part of it."""
    from sagpool.bench.engines.chunks import Chunks

    parts, end = [], Chunks.end

    def spy(self, worker, given=()):
        parts.extend(given)
        end(self, worker, given)

    def train_until_split(graphs, trainings, *, on_progress, **options):
        """The two long trainings wait after an epoch until their worker has to split them."""
        worker, epoch = on_progress.__self__, Fleet.advance

        def wait(self, *args):
            outcomes = epoch(self, *args)
            deadline = time.monotonic() + 60  # then the test fails, as nothing was split
            while len(trainings) == 2 and not worker.split_into and time.monotonic() < deadline:
                time.sleep(0.01)
            return outcomes

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Fleet, "advance", wait)
            return train_until(graphs, trainings, on_progress=on_progress, **options)

    monkeypatch.setattr(Chunks, "end", spy)
    one = Training("sagpool-h", hidden=4, lr=0.01, folds=4)
    trainings = [replace(one, hidden=6, max_epochs=1)]
    # One worker gets the first two of these; the other gets the third after the one above.
    lengths = (9, 9, 1, 9)
    trainings += [replace(one, fold=fold, max_epochs=n) for fold, n in enumerate(lengths)]
    done = frozenset(trainings[4:])
    job = job_of(mutag, *trainings, done=done, keep_weights=lambda t: t.hidden == 6)
    used = start_workers(engine(train=train_until_split))
    seen, local = watching(), watching()
    used.run([job], seen)
    Local(tmp_path).run([job], local)
    results, expected = seen.of(job), local.of(job)
    assert len(results) == 4
    assert [len(part) for part in parts] == [1, 1], "the long fleet was split"
    assert_equal(rows(results), rows(expected))
    ours, theirs = (
        next(r for r in found if r.training.hidden == 6).weights for found in (results, expected)
    )
    for name, weights in theirs.items():
        np.testing.assert_allclose(ours[name], weights, rtol=1e-9)
    assert sum(result.weights is not None for result in results) == 1
    progress = seen.last(job)
    assert (progress.done, progress.total, progress.running) == (4, 4, 0)
    assert progress.epochs == 1 + sum(lengths[:3]), "no epoch was trained twice"
    assert used.device == "Ray: 2 CPUs on 2 machines"


def test_a_job_begins_while_another_has_a_straggler(
    engine, watching, assert_equal, mutag, tmp_path
):
    """The second job has another data set; a third follows it. The first ends last."""
    third_has_ended = tmp_path / "ended"

    def straggle(graphs, trainings, *, on_progress, **options):
        def wait(progress):
            deadline = time.monotonic() + 60
            while trainings[0].seed == 5 and time.monotonic() < deadline:
                if third_has_ended.exists():
                    break
                time.sleep(0.01)
            on_progress(progress)

        return train_until(graphs, trainings, on_progress=wait, **options)

    one = Training("gpool-h", hidden=4, lr=0.01, folds=4, max_epochs=2)
    other = replace(mutag[::2], name="half")
    first = job_of(mutag, replace(one, seed=5))
    second = job_of(other, *(replace(one, fold=fold) for fold in range(3)))
    third = job_of(other, replace(one, method="sagpool-g", fold=3), precision="float32")

    def follow(job):
        if job is third:
            third_has_ended.touch()
        return [third] if job is second else []

    seen = watching(follow)
    start_workers(engine(train=straggle)).run([first, second], seen)
    ends = [job for what, job in seen.order if what == "end"]
    assert ends == [second, third, first]
    for job in (first, second, third):
        local = watching()
        Local(tmp_path / "checkpoints").run([job], local)
        assert_equal(rows(seen.of(job)), rows(local.of(job)))
        assert (seen.last(job).done, seen.last(job).total) == (len(job.trainings),) * 2
        assert seen.last(job).epochs == 2 * len(job.trainings)


def test_paused_trainings_go_on_in_the_following_job(
    engine, watching, assert_equal, mutag, tmp_path, monkeypatch
):
    """Also after a worker has died. States of trainings that do not go on are dropped."""
    from sagpool.bench.engines import on_ray

    died, made, dropped = tmp_path / "died", [], []

    class Spied(on_ray.RunningJob):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(weakref.ref(self))

    def die_once(graphs, trainings, *, begun, **options):
        if begun and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return train_until(graphs, trainings, begun=begun, **options)

    monkeypatch.setattr(on_ray, "RunningJob", Spied)
    one = Training("sagpool-h", hidden=4, lr=0.01, folds=4, max_epochs=7)
    short = replace(one, fold=3, max_epochs=1)
    paused = [replace(one, fold=fold) for fold in range(3)]
    first = job_of(mutag, *paused, short, until=2)
    second = job_of(mutag, *paused[1:], until=5)
    third = job_of(mutag, paused[2], keep_weights=lambda t: True)

    class Watching(watching):
        def progress(self, job, progress):
            super().progress(job, progress)
            gc.collect()
            alive = [running for reference in made if (running := reference())]
            dropped.append(len(alive) == 1)
            states = {*alive[0].begun, *alive[0].paused}
            assert states <= set(job.trainings) - {short}

    following = {first: [second], second: [third], third: []}
    seen = Watching(following.__getitem__)
    engine(train=die_once).run([first], seen)
    assert died.exists()
    assert len(made) == 3
    assert all(dropped), "a job that has ended is freed with its states"
    kinds = [{o.training.fold: type(o) for o in seen.of(job)} for job in following]
    assert kinds[0] == {0: Paused, 1: Paused, 2: Paused, 3: Result}
    assert kinds[1:] == [{1: Paused, 2: Paused}, {2: Result}]
    epochs = [seen.last(job).epochs for job in following]
    assert epochs == [3 * 2 + 1, 2 * 3, 2], "no epoch was trained twice"

    (whole,) = train(mutag, [paused[2]], dtype=torch.float64, keep_weights=True)
    (result,) = seen.of(third)
    assert_equal(rows([result]), rows([whole]))
    for name, curve in vars(whole.curve).items():
        np.testing.assert_allclose(getattr(result.curve, name), curve, rtol=1e-9)
        for job, until in ((first, 2), (second, 5)):
            (part,) = (o.curve for o in seen.of(job) if o.training == paused[2])
            np.testing.assert_allclose(getattr(part, name), curve[:until], rtol=1e-9)
    for name, weights in whole.weights.items():
        np.testing.assert_allclose(result.weights[name], weights, rtol=1e-9)


def test_a_job_that_fails_does_not_stop_another(engine, watching, mutag):
    def stumble(graphs, trainings, **options):
        if trainings[0].hidden == 4:
            raise RuntimeError("planted")
        return train_until(graphs, trainings, **options)

    one = Training("gpool-h", hidden=4, folds=2, max_epochs=1)
    wide = replace(one, hidden=6)
    failing = job_of(mutag, one, replace(one, fold=1))
    other, following = job_of(mutag, wide), job_of(mutag, replace(wide, fold=1))
    nothing = job_of(mutag, wide, done=frozenset([wide]))
    jobs = iter([nothing, failing, other])
    seen = watching(lambda job: [following] if job is failing else [])
    engine(train=stumble).run(jobs, seen)
    assert {o.training for o in seen.of(failing)} == set(failing.trainings)
    assert {type(o) for o in seen.of(failing)} == {FailedTraining}
    assert all(o.reason.endswith(": planted") for o in seen.of(failing))
    assert [type(o) for o in seen.of(other) + seen.of(following)] == [Result, Result]
    assert seen.order[0] == ("end", nothing)
    ended = [job for what, job in seen.order if what == "end"]
    assert set(ended) == {nothing, failing, other, following}


def test_a_training_that_fails_is_recorded_and_the_others_continue(engine, small, tmp_path):
    died = tmp_path / "died"

    def stumble(graphs, trainings, **options):
        if any(one.seed == 1 and one.fold == 0 for one in trainings):
            raise RuntimeError("planted")
        if any(one.seed == 0 and one.fold == 1 for one in trainings) and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return train_until(graphs, trainings, **options)

    path = tmp_path / "runs.sqlite"

    def bench(engine):
        found = run_experiment(small, methods="gpool-h", store=path, engine=engine, device="cpu")
        (state,) = found.cells
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
    state, runs, failures = bench("local")
    assert (len(runs), failures, state.failures) == (4, [], [])


PLUGIN = """
from dataclasses import replace
from sagpool.models import build, register

@register("plugin-h", settings={"scale": 1.0})
def plugin_h(shape):
    wide = int(shape.hidden * shape.settings["scale"])
    return build("gpool-h", replace(shape, hidden=wide, settings={}))
"""


def test_workers_load_the_plugins_of_the_driver(
    engine, watching, assert_equal, mutag, tmp_path, monkeypatch
):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", dict(plugins._loaded))
    file = tmp_path / "plugin.py"
    file.write_text(PLUGIN)
    plugins.load_plugin(file)
    one = Training.from_dict({"method": "plugin-h", "hidden": 4, "scale": 1.5, "max_epochs": 1})
    job = job_of(mutag, one)
    seen, local = watching(), watching()
    used = engine(new=True)
    used.run([job], seen)
    Local(tmp_path).run([job], local)
    assert_equal(rows(seen.of(job)), rows(local.of(job)))

    registry.register("unknown-h", version="1")(registry.find_method("gpool-h").build)
    with pytest.raises(SagpoolError, match=r"^The workers .* lack the method 'unknown-h'"):
        used.run([job_of(mutag, Training("unknown-h"))], watching())
