"""Training by kernels, and what of it is recorded where there is a GPU."""

import gc
import os
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.fleet import Training, train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.recording import Recorder, _Recording, can_record
from sagpool.fleet.schedule import Slots
from sagpool.graphs import Graphs, load
from sagpool.models import Shape, build, methods
from sagpool.nn import SAGPool
from sagpool.ops.device import triton_kernels

if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)
DEVICE = os.environ["SAGPOOL_TEST_DEVICE"]


@pytest.fixture
def by_kernels(use_kernels):
    return lambda: use_kernels(True)


@pytest.fixture(scope="module")
def few() -> Graphs:
    """The six smallest graphs of each class."""
    graphs = load("MUTAG")
    by_size = np.argsort(graphs.node_counts, kind="stable")
    return graphs[np.sort(np.concatenate([by_size[graphs.y[by_size] == c][:6] for c in (0, 1)]))]


@pytest.mark.parametrize("method", ["sagpool-h", "set2set-g"])
def test_by_kernels_a_training_takes_the_same_course(method, few, by_kernels):
    """Two trainings in one slot, which is refilled."""
    trainings = [
        Training(
            method, hidden=8, batch_size=6, lr=0.01, max_epochs=1, folds=2, seed=s, validation=0.4
        )
        for s in range(2)
    ]
    expected = train(few, trainings, members=1)
    by_kernels()
    results = train(few, trainings, members=1, device=DEVICE)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one.curve.train_loss, other.curve.train_loss, atol=1e-4)
        np.testing.assert_allclose(
            one.curve.validation_loss, other.curve.validation_loss, atol=1e-4
        )


def test_what_waits_for_the_device_is_not_recorded():
    shape = Shape(3, 2, hidden=4, k=3, max_nodes=9)
    cannot = {method for method in methods() if not can_record(build(method, shape))}
    assert "sagpool-h" not in cannot
    assert all("gat-augmentation" in name for name in cannot)
    assert not can_record(build("diffpool-h", shape).double())
    assert not can_record(SAGPool(3, min_score=0.1))


class Noted:
    """In place of a step: what room it was given."""

    def __init__(self) -> None:
        self.rooms: list[tuple[int, int]] = []

    def __call__(self, ids, rows, entries) -> None:
        self.rooms.append((rows, entries))


def test_a_step_gets_a_little_more_room_than_it_needs(few):
    step = Noted()
    recorder = Recorder(SAGPool(3), few)
    ids = np.array([[0, 1, 2], [3, 4, -1]])
    recorder(step, ids)
    ((rows, entries),) = step.rooms
    needed = max(few.node_counts[:3].sum(), few.node_counts[3:5].sum() + 1) + 1
    assert needed <= rows <= 1.015 * needed + 64
    assert rows % 64 == 0
    assert few.batch_source.counts[:5].sum() <= entries


def test_the_tightest_recording_that_fits_is_replayed(few):
    step, recorder = Noted(), Recorder(SAGPool(3), few)
    ids, replayed = np.array([[0, 1, 2], [3, 4, -1]]), []

    class Graph:
        def __init__(self, name):
            self.name = name

        def replay(self):
            replayed.append(self.name)

    needed = max(few.node_counts[:3].sum(), few.node_counts[3:5].sum() + 1) + 1
    entries = int(few.batch_source.counts[:5].sum())
    for name, rows in (("loose", needed + 40), ("tight", needed + 3), ("too small", needed - 1)):
        place = torch.zeros(2, 3, dtype=torch.int32, device=few.device)
        recorder.recordings.append(_Recording(Graph(name), place, rows, entries, (None,)))
    recorder(step, ids)
    assert replayed == ["tight"]
    assert recorder.recordings[1].ids.tolist() == ids.tolist()
    assert not step.rooms


OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory.")


@pytest.mark.parametrize(
    ("failures", "left", "records"),
    [
        ([], ["small", "large"], True),
        ([OUT_OF_MEMORY], ["large"], True),
        ([OUT_OF_MEMORY, OUT_OF_MEMORY], [], False),
        ([RuntimeError("operation not permitted when stream is capturing")], ["small"], False),
    ],
)
def test_a_recording_that_finds_no_room_takes_that_of_the_others(
    failures, left, records, few, monkeypatch
):
    step, recorder = Noted(), Recorder(SAGPool(3), few)
    monkeypatch.setattr(recorder, "records", True)
    monkeypatch.setattr(recorder, "_captured", lambda step: "small")
    recorder(step, np.array([[0]]))

    def captured(step):
        if failures:
            raise failures.pop(0)
        return "large"

    monkeypatch.setattr(recorder, "_captured", captured)
    recorder(step, np.arange(9)[None])
    assert [recording.graph for recording in recorder.recordings] == left
    assert recorder.records is records
    assert not failures
    assert len(step.rooms) == 2


@pytest.mark.parametrize("end", ["shrink", "clear"])
def test_what_was_recorded_is_let_go_of_at_once(end, few, by_kernels):
    """Not when Python looks for circles again; until then there would be no memory for others."""
    by_kernels()
    training = Training("sagpool-h", hidden=4, batch_size=6, max_epochs=9, folds=2, validation=0.4)
    trainings = [replace(training, seed=seed) for seed in range(2)]
    fleets = [Fleet(few.to(DEVICE), trainings, Slots.fill(range(2), 2))]
    fleets[0].epoch()
    recorder = weakref.ref(fleets[0].shards[0][1].recorder)
    assert recorder() is not None
    gc.disable()
    try:
        fleets[0].shrink() if end == "shrink" else fleets.clear()
        assert recorder() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("parts", [1, 2])
def test_members_with_a_k_of_their_own(parts, few, by_kernels):
    """A slot that is refilled brings its k along."""
    trainings = [
        Training(
            "sortpool-g", hidden=8, batch_size=6, max_epochs=1, folds=2, seed=s, validation=0.4
        )
        for s in range(2)
    ]
    expected = train(few, trainings)
    by_kernels()
    fleet = Fleet(few.to(DEVICE), trainings, Slots.fill(range(2), 1), parts=parts)
    for training, result in zip(trainings, expected, strict=True):
        fleet.k[0] += 1  # something else, which _enter and refresh have to put right
        fleet._enter(0, trainings.index(training))
        done = fleet.epoch()
        (found,) = done.values()
        np.testing.assert_allclose(found.curve.train_loss, result.curve.train_loss, atol=1e-4)
