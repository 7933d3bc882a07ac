"""Checkpoint files: written completely or not at all, no pickles, clear errors if damaged."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sagpool
from sagpool.errors import SagpoolError
from sagpool.fleet import train
from sagpool.fleet.checkpoint import Checkpoint, identity_of
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots


@pytest.fixture
def trainings(kit):
    return kit.trainings(4, max_epochs=3)


@pytest.fixture
def file(mutag, trainings, tmp_path) -> Path:
    """Of a run that was stopped after two epochs, with one result and one waiting training."""
    path = tmp_path / "runs" / "fleet.npz"
    shorter = replace(trainings[0], max_epochs=1)
    trainings[0] = shorter

    def stop(progress):
        if progress.epochs >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(mutag, trainings, members=2, checkpoint=path, on_progress=stop)
    return path


def rewrite(file: Path, **changes) -> None:
    """Change entries of the JSON part."""
    with np.load(file) as arrays:
        content = dict(arrays)
    meta = json.loads(content["meta"].tobytes())
    content["meta"] = np.frombuffer(json.dumps(meta | changes).encode(), np.uint8)
    np.savez(file, **content)


def test_it_holds_running_waiting_and_finished_trainings(file, trainings, mutag, kit):
    with np.load(file, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)
        identity = json.loads(arrays["meta"].tobytes())["identity"]
    saved = Checkpoint.load(file, identity)
    (slots,) = saved.fleets
    assert slots.running.tolist() == [1, 3]
    assert list(slots.waiting) == [2]
    assert {number: member.epoch for number, member in saved.members.items()} == {1: 2, 3: 1}
    assert saved.members[1].steps == 4
    assert len(saved.members[1].curve) == 2
    kit.same(list(saved.results.values()), train(mutag, trainings, members=2)[:1])


def test_loading_gives_what_was_saved(mutag, kit, tmp_path):
    """Also for a diverged training, whose scores are NaN."""
    trainings = kit.trainings(4, lr=0.01)
    trainings[0] = replace(trainings[0], lr=1e6)
    fleet = Fleet(
        mutag, trainings, Slots.fill(range(4), 3), torch.float64, keep_weights=lambda training: True
    )
    results = {}
    for _ in range(2):
        results |= fleet.advance()
        fleet.refill()
    identity = identity_of(mutag, trainings, torch.float64, lambda training: True)
    before = Checkpoint(identity, results, [fleet.slots], fleet.members())
    before.save(tmp_path / "file.npz")
    after = Checkpoint.load(tmp_path / "file.npz", identity)
    (slots,) = after.fleets
    kit.same(list(after.results.values()), list(results.values()))
    assert [r.seconds for r in after.results.values()] == [r.seconds for r in results.values()]
    assert slots.running.tolist() == fleet.slots.running.tolist()
    assert slots.waiting == fleet.slots.waiting
    assert after.members.keys() == before.members.keys()
    for number, member in before.members.items():
        for name, value in vars(member).items():
            loaded = getattr(after.members[number], name)
            assert (
                torch.equal(loaded, value) if isinstance(value, torch.Tensor) else loaded == value
            )


def test_without_a_file_there_is_no_checkpoint(tmp_path):
    assert Checkpoint.load(tmp_path / "none.npz", "mine") is None


def test_a_failed_save_leaves_the_old_file_and_nothing_else(file, monkeypatch):
    old = file.read_bytes()

    def half(stream, **arrays):
        stream.write(old[: len(old) // 2])
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(SagpoolError, match=r"^The checkpoint .*fleet\.npz cannot be written: No s"):
        Checkpoint("mine").save(file)
    monkeypatch.setattr(np, "savez", lambda stream, **arrays: os.kill(os.getpid(), 2))
    with pytest.raises(KeyboardInterrupt):
        Checkpoint("mine").save(file)
    assert file.read_bytes() == old
    assert [path.name for path in file.parent.iterdir()] == ["fleet.npz"]


def test_a_folder_that_cannot_be_created_is_an_error(mutag, trainings, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SagpoolError, match=r"^The checkpoint .*deeper/c\.npz "):
        train(mutag, trainings, checkpoint=tmp_path / "file" / "deeper" / "c.npz")


@pytest.mark.parametrize("other", ["trainings", "order", "dtype", "weights", "features", "graphs"])
def test_a_checkpoint_of_other_trainings_is_refused(other, file, mutag, trainings):
    graphs, options = mutag, {}
    if other == "trainings":
        trainings = [*trainings[:3], replace(trainings[3], lr=0.5)]
    if other == "order":
        trainings = trainings[::-1]
    if other == "dtype":
        options = {"dtype": torch.float64}
    if other == "weights":
        options = {"keep_weights": True}
    if other == "features":
        graphs = sagpool.load("MUTAG", "degree")
    if other == "graphs":
        graphs = mutag[:-1]
    old = file.read_bytes()
    with pytest.raises(SagpoolError, match=r"^The checkpoint .* belongs to other trainings; name "):
        train(graphs, trainings, members=2, checkpoint=file, **options)
    assert file.read_bytes() == old


def test_a_checkpoint_of_another_version_is_refused(file, mutag, trainings):
    rewrite(file, format=99)
    with pytest.raises(
        SagpoolError, match=r"^The checkpoint .* is of another version of sagpool; name"
    ):
        train(mutag, trainings, checkpoint=file)


class Trap:
    """Creates a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_pickles_are_not_loaded(tmp_path, mutag, trainings):
    file, sprung = tmp_path / "trap.npz", tmp_path / "sprung"
    np.savez(file, meta=np.array([Trap(sprung)], dtype=object))
    with pytest.raises(SagpoolError, match=r"is damaged \(.*\); remove it\.$"):
        train(mutag, trainings, checkpoint=file)
    assert not sprung.exists()


@pytest.mark.parametrize("content", [b"", b"text", b"[1]", b"PK\x03\x04", b"\x93NUMPY"])
def test_other_kinds_of_files_are_refused(content, tmp_path, mutag, trainings):
    file = tmp_path / "else.npz"
    file.write_bytes(content)
    with pytest.raises(SagpoolError, match=r"^The checkpoint .*else\.npz is damaged \("):
        train(mutag, trainings, checkpoint=file)
    with file.open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(SagpoolError, match=r"^The checkpoint .*else\.npz is damaged \("):
        train(mutag, trainings, checkpoint=file)


@pytest.mark.parametrize("change", [{"results": []}, {"members": {"7": {}}}, {"fleets": [{}]}])
def test_inconsistent_content_is_refused(change, file, mutag, trainings):
    rewrite(file, **change)
    with pytest.raises(SagpoolError, match=r"^The checkpoint .* is damaged \("):
        train(mutag, trainings, checkpoint=file)


def test_a_checkpoint_that_lacks_a_training_is_refused(file, mutag, trainings):
    """Otherwise the run would wait for it."""
    rewrite(file, fleets=[{"running": [1], "waiting": []}])
    with pytest.raises(SagpoolError, match=r"is damaged \(it lacks trainings\); remove it\.$"):
        train(mutag, trainings, checkpoint=file)


def test_a_damaged_file_is_refused_or_gives_the_same(file, kit):
    """Some bytes are never read, such as the time stamp of an entry."""
    whole = file.read_bytes()
    with np.load(file) as arrays:
        identity = json.loads(arrays["meta"].tobytes())["identity"]
    expected = Checkpoint.load(file, identity)
    draws, refused = random.Random(1), 0
    for attempt in range(300):
        broken = bytearray(whole)
        if attempt % 3:
            broken[draws.randrange(len(whole))] ^= 1 << draws.randrange(8)
        else:
            del broken[draws.randrange(len(whole)) :]
        file.write_bytes(broken)
        try:
            loaded = Checkpoint.load(file, identity)
        except SagpoolError:
            refused += 1
        else:
            kit.same(list(loaded.results.values()), list(expected.results.values()))
            assert loaded.members.keys() == expected.members.keys()
    assert refused > 200
