"""Training with kernels, and recorded steps on a GPU."""

import gc
import os
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.fleet import Training, train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.recording import Recorder, _Recording, _Size, can_record
from sagpool.fleet.schedule import Slots
from sagpool.graphs import Graphs, load
from sagpool.models import Shape, build, methods
from sagpool.nn import SAGPool
from sagpool.ops.device import triton_kernels

if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)
DEVICE = os.environ["SAGPOOL_TEST_DEVICE"]


@pytest.fixture
def with_kernels(use_kernels):
    return lambda: use_kernels(True)


@pytest.fixture(scope="module")
def few() -> Graphs:
    """The six smallest graphs of each class."""
    graphs = load("MUTAG")
    by_size = np.argsort(graphs.node_counts, kind="stable")
    return graphs[np.sort(np.concatenate([by_size[graphs.y[by_size] == c][:6] for c in (0, 1)]))]


@pytest.mark.parametrize("method", ["sagpool-h", "set2set-g"])
def test_training_with_kernels_gives_the_same_curve(method, few, with_kernels):
    """Two trainings in one slot, which is refilled."""
    trainings = [
        Training(
            method, hidden=8, batch_size=6, lr=0.01, max_epochs=1, folds=2, seed=s, validation=0.4
        )
        for s in range(2)
    ]
    expected = train(few, trainings, members=1)
    with_kernels()
    results = train(few, trainings, members=1, device=DEVICE)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one.curve.train_loss, other.curve.train_loss, atol=1e-4)
        np.testing.assert_allclose(
            one.curve.validation_loss, other.curve.validation_loss, atol=1e-4
        )


def test_methods_that_wait_for_the_device_are_not_recorded():
    shape = Shape(3, 2, hidden=4, k=3, max_nodes=9)
    cannot = {method for method in methods() if not can_record(build(method, shape))}
    assert "sagpool-h" not in cannot
    assert all("gat-augmentation" in name for name in cannot)
    assert not can_record(build("diffpool-h", shape).double())
    assert not can_record(SAGPool(3, min_score=0.1))


class FakeStep:
    """In place of a step: records the sizes that it was given."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def __call__(self, ids, rows, entries) -> None:
        self.sizes.append((rows, entries))


def test_a_step_gets_some_spare_rows_and_entries(few):
    step = FakeStep()
    recorder = Recorder(SAGPool(3), few)
    ids = np.array([[0, 1, 2], [3, 4, -1]])
    recorder(step, ids)
    ((rows, entries),) = step.sizes
    needed = max(few.node_counts[:3].sum(), few.node_counts[3:5].sum() + 1) + 1
    assert needed <= rows <= 1.015 * needed + 64
    assert rows % 64 == 0
    assert few.batch_source.counts[:5].sum() <= entries


def test_the_tightest_recording_that_fits_is_replayed(few):
    step, recorder = FakeStep(), Recorder(SAGPool(3), few)
    ids, replayed = np.array([[0, 1, 2], [3, 4, -1]]), []

    class Graph:
        def __init__(self, name):
            self.name = name

        def replay(self):
            replayed.append(self.name)

    needed = max(few.node_counts[:3].sum(), few.node_counts[3:5].sum() + 1) + 1
    entries = int(few.batch_source.counts[:5].sum())
    for name, rows in (("loose", needed + 40), ("tight", needed + 3), ("too small", needed - 1)):
        buffer = torch.zeros(2, 3, dtype=torch.int32, device=few.device)
        recorder.recordings.append(_Recording(Graph(name), buffer, _Size(rows, entries, (None,))))
    recorder(step, ids)
    assert replayed == ["tight"]
    assert recorder.recordings[1].ids.tolist() == ids.tolist()
    assert not step.sizes


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
def test_if_a_recording_does_not_fit_the_others_are_dropped(
    failures, left, records, few, monkeypatch
):
    step, recorder = FakeStep(), Recorder(SAGPool(3), few)
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
    assert len(step.sizes) == 2


@pytest.mark.parametrize("end", ["shrink", "clear"])
def test_recordings_are_freed_at_once(end, few, with_kernels):
    """Not only by garbage collection: until then others could not use the memory."""
    with_kernels()
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
def test_members_with_different_k(parts, few, with_kernels):
    """A refilled slot has the k of its new member."""
    trainings = [
        Training(
            "sortpool-g", hidden=8, batch_size=6, max_epochs=1, folds=2, seed=s, validation=0.4
        )
        for s in range(2)
    ]
    expected = train(few, trainings)
    with_kernels()
    fleet = Fleet(few.to(DEVICE), trainings, Slots.fill(range(2), 1), parts=parts)
    for training, result in zip(trainings, expected, strict=True):
        fleet.k[0] += 1  # a wrong k, which _load and refresh have to correct
        fleet._load(0, trainings.index(training))
        done = fleet.epoch()
        (found,) = done.values()
        np.testing.assert_allclose(found.curve.train_loss, result.curve.train_loss, atol=1e-4)
