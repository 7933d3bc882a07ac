"""A run that is stopped anywhere and continued gives the same results, bit for bit."""

import random
from types import SimpleNamespace

import pytest

import sagpool.fleet.checkpoint
import sagpool.fleet.fleet
import sagpool.fleet.lockstep
from sagpool.fleet import train
from sagpool.fleet.checkpoint import Checkpoint

MEMBERS = 5  # with four or more, the fleet may go on with an empty slot


def many(kit):
    """More trainings than slots, all of one shape but the last."""
    return [*kit.trainings(9, "sagpool-g", hidden=4), *kit.trainings(1, "gpool-h", hidden=4)]


class Events:
    """Counts the points at which a run might be stopped, and stops it at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.last, self.dead = 0, None, False
        for module, name in (
            (sagpool.fleet.lockstep, "pack"),
            (sagpool.fleet.lockstep, "adam_step"),
            (sagpool.fleet.lockstep, "validate"),
            (sagpool.fleet.fleet, "predict"),
        ):
            monkeypatch.setattr(module, name, self.counted(getattr(module, name)))
        save = Checkpoint.save

        def save_if_alive(checkpoint, path):
            if not self.dead:
                save(checkpoint, path)

        monkeypatch.setattr(Checkpoint, "save", save_if_alive)

    def counted(self, function):
        def call(*arguments):
            self.happen()
            return function(*arguments)

        return call

    def happen(self, *_: object) -> None:
        self.count += 1
        if self.count == self.last:
            self.dead = self.kill
            raise KeyboardInterrupt

    def end_at(self, last: int | None, *, kill: bool = False) -> None:
        """Stop at the n-th event; a kill saves nothing."""
        self.count, self.last, self.kill, self.dead = 0, last, kill, False


@pytest.fixture
def run(mutag, kit, monkeypatch, tmp_path) -> SimpleNamespace:
    events = Events(monkeypatch)

    def to_the_end(seconds: float = 0.0) -> list:
        return train(
            mutag,
            many(kit),
            members=MEMBERS,
            keep_weights=True,
            on_result=events.happen,
            on_progress=events.happen,
            checkpoint=tmp_path / "fleet.npz",
            checkpoint_seconds=seconds,
        )

    return SimpleNamespace(events=events, to_the_end=to_the_end, file=tmp_path / "fleet.npz")


@pytest.fixture(scope="module")
def uninterrupted(mutag, kit):
    return train(mutag, many(kit), members=MEMBERS, keep_weights=True)


def random_points(events: Events, seed: str) -> list[int]:
    points = random.Random(seed).sample(range(1, events.count), 8)
    events.end_at(None)
    return points


def test_these_trainings_end_at_different_epochs(uninterrupted):
    epochs = [result.epochs for result in uninterrupted]
    assert len(set(epochs[:-1])) > 2


def test_interrupted_at_8_points(run, uninterrupted, kit):
    kit.same(run.to_the_end(), uninterrupted)
    for point in random_points(run.events, "interrupt"):
        run.file.unlink()
        run.events.end_at(point)
        with pytest.raises(KeyboardInterrupt):
            run.to_the_end(seconds=1e9)  # saved only at the interrupt
        assert run.file.exists()
        run.events.end_at(None)
        kit.same(run.to_the_end(), uninterrupted)


def test_killed_at_8_points(run, uninterrupted, kit):
    run.to_the_end()
    for point in random_points(run.events, "kill"):
        run.file.unlink()
        run.events.end_at(point, kill=True)
        with pytest.raises(KeyboardInterrupt):
            run.to_the_end()
        run.events.end_at(None)
        kit.same(run.to_the_end(), uninterrupted)


def test_interrupted_again_and_again(run, uninterrupted, kit):
    for attempt in range(200):
        run.events.end_at(17 + attempt % 5)
        try:
            results = run.to_the_end(seconds=1e9)
        except KeyboardInterrupt:
            continue
        break
    else:
        raise AssertionError("it never ended")
    assert attempt > 3
    kit.same(results, uninterrupted)


def test_a_failing_callback_loses_no_result(mutag, kit, tmp_path):
    """Several end at the same epoch, and the callback fails at the first of them."""
    trainings = kit.trainings(5, max_epochs=2, patience=9)
    expected = train(mutag, trainings, members=3)
    file = tmp_path / "fleet.npz"

    def fail(result: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        train(mutag, trainings, members=3, checkpoint=file, on_result=fail)
    reported: list = []
    kit.same(
        train(mutag, trainings, members=3, checkpoint=file, on_result=reported.append), expected
    )
    # Those with a low learning rate come first.
    assert [result.training for result in reported] == [trainings[3], trainings[2]]


def test_a_finished_run_does_not_train_again(run, uninterrupted, kit):
    run.to_the_end()
    run.events.end_at(1)
    kit.same(run.to_the_end(), uninterrupted)
    assert run.events.count == 0
