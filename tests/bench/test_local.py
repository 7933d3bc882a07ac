"""The local engine resumes interrupted fleets."""

import json
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sagpool.bench import run_experiment
from sagpool.bench.engines import Job, Local
from sagpool.fleet import Training


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def job(mutag, trainings, done=(), **changes):
    return replace(
        Job(mutag, tuple(trainings), frozenset(done), "float64", lambda t: False), **changes
    )


pytestmark = pytest.mark.usefixtures("one_thread")


class StoppedError(Exception):
    pass


def run(folder, job, *, stop_at=None, members=2):
    """The reported results and the number of epochs; stops after ``stop_at`` epochs."""
    results, epochs = [], {}

    class Stopping:
        def outcome(self, job, outcome):
            results.append(outcome)

        def progress(self, job, seen):
            epochs[seen.total] = seen.epochs
            if stop_at and seen.epochs >= stop_at:
                raise StoppedError

        def ended(self, job, problem):
            assert not problem
            return ()

    engine = Local(folder, members=members, checkpoint_seconds=0)
    try:
        engine.run([job], Stopping())
    except StoppedError:
        assert stop_at
    return results, sum(epochs.values())


@pytest.fixture
def six():
    one = Training("gpool-h", hidden=4, folds=3, max_epochs=4, lr=0.01)
    return [replace(one, seed=seed, fold=fold) for seed in range(2) for fold in range(3)]


def rows(results):
    return {
        json.dumps({k: v for k, v in result.row().items() if k != "seconds"}) for result in results
    }


def test_every_training_is_reported_and_nothing_is_left(folder, mutag, six):
    results, epochs = run(folder, job(mutag, six))
    assert {result.training for result in results} == set(six)
    assert epochs == 24
    assert not folder.exists()


def test_finished_trainings_are_skipped(folder, mutag, six):
    results, epochs = run(folder, job(mutag, six, done=six[:4]))
    assert {result.training for result in results} == set(six[4:])
    assert epochs == 8


def test_a_stopped_fleet_resumes_with_the_same_results(folder, mutag, six):
    expected = rows(run(folder, job(mutag, six))[0])
    before, _ = run(folder, job(mutag, six), stop_at=14)
    assert len(before) == 2
    done = [result.training for result in before]
    after, epochs = run(folder, job(mutag, six, done=done))
    assert epochs == 10
    assert rows(after) == expected
    assert not folder.exists()


def test_a_row_that_was_lost_after_its_training_is_reported_again(folder, mutag, six):
    """As when the disk was full for the store, and not for the checkpoint."""
    before, _ = run(folder, job(mutag, six), stop_at=14)
    after, _ = run(folder, job(mutag, six))
    assert {result.training for result in after} == set(six)
    assert len(before) == 2


def test_a_stopped_fleet_comes_before_new_trainings(folder, mutag, six):
    run(folder, job(mutag, six[:3]), stop_at=6)
    results, epochs = run(folder, job(mutag, six))
    assert {result.training for result in results} == set(six)
    assert epochs == 12, "of the second fleet; the first had 6 of its 12 left"


def test_a_stopped_fleet_waits_while_only_some_of_its_trainings_are_wanted(folder, mutag, six):
    run(folder, job(mutag, six), stop_at=6)
    (kept,) = folder.iterdir()
    results, epochs = run(folder, job(mutag, six[:2]))
    assert {result.training for result in results} == set(six[:2])
    assert epochs == 8
    assert list(folder.iterdir()) == [kept]
    _, epochs = run(folder, job(mutag, six, done=six[:2]))
    assert epochs == 18
    assert not folder.exists()


@pytest.mark.parametrize("other", ["precision", "graphs", "keep_weights"])
def test_a_checkpoint_of_another_job_is_left_alone(folder, mutag, six, other):
    run(folder, job(mutag, six), stop_at=6)
    (kept,) = folder.iterdir()
    changes = {"precision": "float32", "graphs": mutag[:180], "keep_weights": lambda t: True}
    _, epochs = run(folder, job(mutag, six, **{other: changes[other]}))
    assert epochs == 24
    assert list(folder.iterdir()) == [kept]


def test_a_damaged_checkpoint_is_ignored(folder, mutag, six, caplog):
    folder.mkdir()
    (folder / "broken.npz").write_bytes(b"PK")
    with caplog.at_level(logging.WARNING):
        results, _ = run(folder, job(mutag, six))
    assert {result.training for result in results} == set(six)
    assert "broken.npz is damaged" in caplog.text
    assert (folder / "broken.npz").exists()


def test_a_checkpoint_of_another_version_is_ignored(folder, mutag, six, caplog, monkeypatch):
    run(folder, job(mutag, six), stop_at=6)
    (kept,) = folder.iterdir()
    monkeypatch.setattr("sagpool.fleet.checkpoint.FORMAT", 99)
    with caplog.at_level(logging.WARNING):
        run(folder, job(mutag, six), stop_at=6)
        assert len(list(folder.iterdir())) == 2
        results, epochs = run(folder, job(mutag, six))
    assert "is of another version of sagpool" in caplog.text
    assert {result.training for result in results} == set(six)
    assert epochs == 18
    assert list(folder.iterdir()) == [kept]


def test_half_written_files_of_a_killed_process_are_removed(folder, mutag, six):
    folder.mkdir()
    (folder / ".MUTAG-1.npz.abc.part").write_bytes(b"half")
    run(folder, job(mutag, six[:1]))
    assert not folder.exists()


def test_a_checkpoint_without_missing_trainings_is_removed(folder, mutag, six):
    run(folder, job(mutag, six[:3]), stop_at=6)
    run(folder, job(mutag, six, done=six[:3]))
    assert not folder.exists()


def test_a_bench_that_was_killed_after_its_last_row_leaves_no_checkpoint(tmp_path, monkeypatch):
    store = tmp_path / "runs.sqlite"
    values = {"hidden": 4, "max_epochs": 2}
    bench = partial(run_experiment, "demo", methods="gpool-h", settings=values, store=store)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda path, **_: path)
        bench(seeds=1, folds=3, device="cpu", checkpoint_seconds=0)
    assert list(tmp_path.glob("runs.sqlite-checkpoints/*.npz"))
    bench(seeds=1, folds=3, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["runs.sqlite"]
