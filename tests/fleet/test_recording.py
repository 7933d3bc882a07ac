"""Training with kernels, and recorded steps on a GPU."""

import gc
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sagpool.fleet import Training, recorded_size, recording, train
from sagpool.fleet.finished import Finished
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.lockstep import Lockstep, Sizes
from sagpool.fleet.order import on_device
from sagpool.fleet.pace import Pace
from sagpool.fleet.profile import Profile
from sagpool.fleet.recorded_size import GraphSizes, RecordedSize, Spread
from sagpool.fleet.recording import (
    Recorder,
    RecordingMemory,
    _Recording,
    can_record,
    free_cached_memory,
)
from sagpool.fleet.schedule import Slots, trained_on
from sagpool.fleet.scheduler import _compute_shared_values
from sagpool.fleet.work import Work
from sagpool.graphs import Graphs, load
from sagpool.graphs.counting import colors
from sagpool.models import Shape, build, methods
from sagpool.nn import SAGPool
from sagpool.nn.pool import selection
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


@pytest.mark.parametrize("method", ["sagpool-h", "set2set-g", "asap-h", "edgepool-h"])
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


class FakePass:
    """In place of a pass: notes the rows and entries of each batch that it was given."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def __call__(self, batch) -> None:
        self.sizes.append((batch.rows, batch.entries))


class FakeGraph:
    """In place of a CUDA graph."""

    def __init__(self, name: str) -> None:
        self.name, self.replays = name, 0

    def replay(self) -> None:
        self.replays += 1


def recorder_for(graphs: Graphs) -> Recorder:
    return Recorder(SAGPool(3), graphs, RecordingMemory(), Profile(graphs.device))


IDS = np.array([[0, 1, 2], [3, 4, -1]])


def test_a_pass_gets_some_spare_rows_and_entries(few):
    step = FakePass()
    recorder_for(few)([step], on_device(few, [IDS]))
    ((rows, entries),) = step.sizes
    needed = max(few.node_counts[:3].sum(), few.node_counts[3:5].sum() + 1) + 1
    assert 1.05 * needed <= rows <= 1.05 * needed + 3.5 * 3**0.5 * few.node_counts.std() + 64
    assert rows % 64 == 0
    assert few.batch_source.counts[:5].sum() <= entries


def test_a_recording_has_room_for_almost_every_batch():
    """Of graphs with 10 to 70 nodes, in batches of 128 that are drawn anew."""
    random = np.random.default_rng(0)
    counts = random.integers(10, 71, 1000)
    spread = Spread.of(counts)
    totals = counts[random.integers(0, 1000, (20_000, 128))].sum(1)
    first = int(min(totals))
    size = RecordedSize(((1, 128),), (first,), (first,), (None,)).with_spare(
        GraphSizes(spread, spread)
    )
    for found in (size.rows[0], size.entries[0]):
        assert (totals <= found).mean() > 0.999
        assert found < 1.02 * max(totals)


def test_tests_of_a_fixed_split_need_no_room():
    """Their graphs may be much larger than those in batches."""
    graphs = colors(seed=0, train=20, validation=20, test=20)
    chosen = trained_on(graphs, Training("gpool-h", split="fixed", folds=1))
    sizes = GraphSizes.of(graphs, chosen)
    assert len(chosen) == 40
    assert sizes.nodes.mean <= 25 < GraphSizes.of(graphs).nodes.mean


def test_many_rows_get_little_padding():
    wide = Spread(10.0, 20.0)
    needed = RecordedSize(((200, 400),), (4000,), (4000 * 200,), (None,))
    size = needed.with_spare(GraphSizes(wide, wide))
    assert size.rows == (4224,), "the next multiple of 64 after 1.05 times as many"
    assert size.fits(needed), "or it would be recorded for ever"


def test_batches_of_one_shape_have_the_same_size():
    """So that in a recording of a whole epoch it does not matter which batch is the largest."""
    size = RecordedSize(((2, 9), (2, 5), (2, 9)), (100, 70, 130), (900, 100, 400), (None,))
    size = size.with_spare(GraphSizes(Spread(0, 0), Spread(0, 0)))
    assert size.rows[0] == size.rows[2] >= 130 > 0
    assert size.entries[0] == size.entries[2] >= 900
    assert size.rows[1] < size.rows[0]


def test_which_recordings_fit():
    size = RecordedSize(((2, 9), (2, 5)), (128, 64), (512, 128), (7, None))
    assert size.fits(size)
    assert size.fits(size._replace(rows=(100, 64), entries=(512, 1)))
    assert not size.fits(size._replace(rows=(129, 1)))
    assert not size.fits(size._replace(entries=(1, 129)))
    assert not size.fits(size._replace(limits=(6, None)))
    assert not size.fits(size._replace(shapes=((2, 9), (2, 6))))
    large = RecordedSize(((200, 9),), (9000,), (9,), (None,))
    assert large.fits(large._replace(rows=(8000,)))
    assert not large.fits(large._replace(rows=(7000,))), "too much padding to be worth it"


def test_the_tightest_recording_that_fits_is_replayed(few):
    step, recorder = FakePass(), recorder_for(few)
    needed = max(few.node_counts[:3].sum(), few.node_counts[3:5].sum() + 1) + 1
    entries = int(few.batch_source.counts[:5].sum())
    for name, rows in (("loose", needed + 40), ("tight", needed + 3), ("too small", needed - 1)):
        flat = torch.zeros(6, dtype=torch.int32, device=few.device)
        size = RecordedSize(((2, 3),), (rows,), (entries,), (None,))
        recorder.recordings[size] = _Recording([FakeGraph(name)], flat)
    recorder.sizes = set(recorder.recordings)
    recorder([step], on_device(few, [IDS]))
    loose, tight, small = recorder.recordings.values()
    assert [one.graphs[0].replays for one in (loose, tight, small)] == [0, 1, 0]
    assert tight.flat.tolist() == IDS.ravel().tolist()
    assert not step.sizes


def test_the_first_pass_of_a_kind_is_not_recorded(few, monkeypatch):
    """It compiles kernels. The pass after it is recorded, and that alone changes nothing."""
    recorder = recorder_for(few)
    recorder.records, graph = True, FakeGraph("first")
    monkeypatch.setattr(recorder.memory, "record", lambda step: graph)
    step = FakePass()
    recorder([step], on_device(few, [IDS]))
    assert len(step.sizes) == 1
    assert not recorder.recordings
    recorder([step], on_device(few, [IDS]))
    assert len(step.sizes) == 1
    assert graph.replays == 1, "the recorded pass has to run too"
    recorder([step], on_device(few, [IDS[:, ::-1]]))
    assert graph.replays == 2
    assert len(recorder.recordings) == 1


def test_what_would_never_be_replayed_is_not_recorded(few, monkeypatch):
    """One batch of an epoch is so much larger that all others would be padding."""
    recorder, step = recorder_for(few), FakePass()
    recorder.records = True
    recorder.memory.known.add("steps")
    recorder.memory.known.add("whole steps")
    monkeypatch.setattr(recorder.memory, "record", lambda step: pytest.fail("recorded"))
    monkeypatch.setattr(recorded_size, "FEW_ROWS", 0)
    batches = on_device(few, [IDS, IDS])._replace(rows=(10_000, 64))
    recorder([step, step], batches)
    assert len(step.sizes) == 2


def test_passes_that_are_equal_are_recorded_once(few, monkeypatch):
    """And in their places they get their own batches."""
    recorder, recorded = recorder_for(few), []
    recorder.records = True
    recorder.memory.known.add("whole steps")

    def record(step):
        recorded.append(step)
        return SimpleNamespace(replay=step)

    monkeypatch.setattr(recorder.memory, "record", record)
    seen = []

    def train(batch):
        seen.append(("train", batch.ids.tolist()))

    def validate(batch):
        seen.append(("validate", batch.ids.tolist()))

    passes, first = [train, train, validate], [IDS, IDS[:, ::-1].copy(), IDS + 1]
    expected = [
        (name, ids.tolist())
        for name, ids in zip(("train", "train", "validate"), first, strict=True)
    ]
    recorder(passes, on_device(few, first))
    assert seen == expected
    assert len(recorded) == 2
    recorder(passes, on_device(few, first[::-1]))
    assert [ids for _, ids in seen[3:]] == [ids.tolist() for ids in first[::-1]]
    assert len(recorded) == 2


def test_nothing_is_collected_while_a_thread_records():
    """Another recording that is freed in between would make this one invalid."""
    threads = recording._Threads()
    assert gc.isenabled()
    with threads.recording():
        with threads.recording():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(DEVICE == "cpu", reason="only a GPU records")
def test_a_work_can_begin_while_another_one_records(few):
    """As in a search of several cells, which begins the next round of one after the other."""
    work, number = Work(few.to(DEVICE), [Training("sagpool-h")]), torch.zeros(1, device=DEVICE)

    def begin():
        _compute_shared_values(work)
        Profile(work.graphs.device, on=True)

    def step():
        number.add_(1)
        with ThreadPoolExecutor(1) as other:
            other.submit(begin).result()

    RecordingMemory().record(step).replay()
    assert number.item() == 1


def test_after_an_error_others_record_into_new_memory(few, monkeypatch):
    """torch cannot use memory again into which it has failed to record."""
    recorder = recorder_for(few)
    recorder.records = True
    recorder.memory.known.add("steps")
    recorder.memory._pool = object()
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def fail(step):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(recorder.memory, "record", fail)
    recorder([FakePass()], on_device(few, [IDS]))
    assert recorder.memory._pool is None


def test_kernels_of_another_fleet_need_no_pass_before_a_recording(few, monkeypatch):
    """If they are not all there after all, the pass runs, and the next one is recorded."""
    known, step, graph = {"steps"}, FakePass(), FakeGraph("one")
    recorder = Recorder(SAGPool(3), few, RecordingMemory(known), Profile(few.device))
    recorder.records, failures = True, [RuntimeError("operation not permitted")]
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def record(step):
        if failures:
            raise failures.pop()
        return graph

    monkeypatch.setattr(recorder.memory, "record", record)
    recorder([step], on_device(few, [IDS]))
    assert len(step.sizes) == 1, "it could not be recorded"
    recorder([step], on_device(few, [IDS]))
    assert len(step.sizes) == 1
    assert graph.replays == 1
    other = Recorder(SAGPool(3), few, RecordingMemory(known), Profile(few.device))
    other.records = True
    monkeypatch.setattr(other.memory, "record", record)
    other([step], on_device(few, [IDS]))
    assert len(step.sizes) == 1, "recorded at once"


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
    step, recorder = FakePass(), recorder_for(few)
    recorder.records = recorder.has_run = True
    recorder.memory.known.add("steps")
    monkeypatch.setattr(recorder.memory, "record", lambda step: FakeGraph("small"))
    recorder([step], on_device(few, [np.array([[0]])]))
    assert not step.sizes

    def recorded(step):
        if failures:
            raise failures.pop(0)
        return FakeGraph("large")

    monkeypatch.setattr(recorder.memory, "record", recorded)
    recorder([step], on_device(few, [np.arange(9)[None]]))
    assert [one.graphs[0].name for one in recorder.recordings.values()] == left
    assert recorder.records is records
    assert not failures
    assert len(step.sizes) == (0 if records else 1), "a pass that is not replayed has to run"


@pytest.mark.parametrize(
    ("few_rows", "names"),
    [(0, ["large", "small again"]), (2**19, ["small", "large"])],
    ids=["large batches", "small batches"],
)
def test_a_recording_that_is_larger_than_all_others_comes_first(few_rows, names, few, monkeypatch):
    """It takes as much memory beside them as alone; made again, they fit into its memory."""
    monkeypatch.setattr(recorded_size, "FEW_ROWS", few_rows)
    monkeypatch.setattr(recorded_size, "MAX_SPARE", 9)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    recorder, beside = recorder_for(few), recorder_for(few)
    beside.memory = recorder.memory
    beside.memory.add(beside)
    for one in (recorder, beside):
        one.records = True
    recorder.memory.known.add("steps")
    new = iter(["evaluation", "small", "large", "small again", "fourth", "fifth"])
    monkeypatch.setattr(recorder.memory, "record", lambda step: FakeGraph(next(new)))
    beside([FakePass()], on_device(few, [np.arange(12)[None]]))
    for rows in (100, 500, 100):  # the second recording would do for the third batch
        recorder([FakePass()], on_device(few, [IDS])._replace(rows=(rows,)))
    assert [one.graphs[0].name for one in recorder.recordings.values()] == names
    assert bool(beside.recordings) is bool(few_rows), "its memory is the same"
    recorder.memory.clear()  # by another recorder
    for rows in (100, 500):
        recorder([FakePass()], on_device(few, [IDS])._replace(rows=(rows,)))
    assert len(recorder.recordings) == 2, (
        "known sizes drop nothing, or two recorders might take turns"
    )


@pytest.mark.skipif(DEVICE == "cpu", reason="only a GPU records")
def test_recordings_of_growing_batches_take_no_more_memory_than_the_last(few):
    """On DD, where batches differ much, recordings once took all of the memory."""

    def reserved(sizes) -> int:
        free_cached_memory()
        before, memory = torch.cuda.memory_reserved(), RecordingMemory({"steps"})
        recorder = Recorder(SAGPool(3), few.to(DEVICE), memory, Profile(torch.device(DEVICE)))

        def step(batch):
            for _ in range(3):
                torch.ones(len(batch.ids), batch.rows, 64, device=DEVICE).square().sum()

        for rows in sizes:
            batches = on_device(few.to(DEVICE), [np.zeros((64, 1), np.int64)])
            recorder([step], batches._replace(rows=(rows,)))
        return torch.cuda.memory_reserved() - before

    growing = [20_000, 22_000, 24_000, 26_000]
    assert reserved([*growing, *growing]) <= 1.1 * reserved(growing[-1:])


@pytest.mark.parametrize("end", ["shrink", "clear"])
def test_recordings_are_freed_at_once(end, few, with_kernels):
    """Not only by garbage collection: until then others could not use the memory."""
    with_kernels()
    training = Training("nopool-g", hidden=4, batch_size=6, max_epochs=9, folds=2, validation=0.4)
    trainings = [replace(training, seed=seed) for seed in range(2)]
    fleets = [Fleet(few.to(DEVICE), trainings, Slots.fill(range(2), 2))]
    fleets[0].advance()
    recorders = [weakref.ref(recorder) for recorder in fleets[0].lockstep.recorders.values()]
    assert recorders
    gc.disable()
    try:
        fleets[0].shrink() if end == "shrink" else fleets.clear()
        assert not any(recorder() for recorder in recorders)
    finally:
        gc.enable()


def test_whole_epochs_give_the_same_curves_as_single_steps(few, with_kernels, monkeypatch):
    """With two steps and two chunks of validation."""
    training = Training("sagpool-g", hidden=2, batch_size=2, max_epochs=1, folds=2, validation=0.34)
    monkeypatch.setattr(Sizes, "of", lambda batch_size, parts: Sizes(batch_size, 1))
    with_kernels()

    def run(whole: bool) -> Finished:
        monkeypatch.setattr(Pace, "whole_epochs", lambda pace, members: whole)
        fleet = Fleet(few.to(DEVICE), [training], Slots.fill([0], 1), torch.float64)
        monkeypatch.setattr(fleet, "evaluate", lambda: {0: fleet.ended.members[0]})
        outcomes = fleet.advance()
        assert set(fleet.lockstep.recorders) == (
            {("steps", 0)} if whole else {("steps", 0), ("evaluation", 0), ("evaluation", 1)}
        )
        return outcomes[0]

    together, one_by_one = run(True), run(False)
    for name in vars(together.curve):
        np.testing.assert_allclose(
            *(getattr(result.curve, name) for result in (together, one_by_one)), rtol=0, atol=1e-9
        )


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
        fleet.settings.k[0] += 1  # a wrong k, which _load and refresh have to correct
        fleet.slots.running[0] = trainings.index(training)
        fleet._load([0])
        (found,) = (fleet.advance() | fleet.evaluate()).values()
        np.testing.assert_allclose(found.curve.train_loss, result.curve.train_loss, atol=1e-4)


@pytest.mark.parametrize("method", ["sagpool-g", "sortpool-g", "sortpool-g-conv1d"])
def test_a_step_copies_nothing_from_the_host(method, few, with_kernels, monkeypatch):
    """Not even the first one of a fleet without its empty slots, which is recorded at once."""
    training = Training(method, hidden=2, batch_size=6, max_epochs=9, folds=2, validation=0.4)
    trainings = [replace(training, seed=seed) for seed in range(2)]
    with_kernels()
    fleet = Fleet(few.to(DEVICE), trainings, Slots.fill(range(2), 2))
    fleet.slots.running[0] = -1
    fleet._compact()

    def step(lockstep, padded):
        with monkeypatch.context() as inside:
            inside.setattr(selection, "to_device", lambda *_: pytest.fail("copied"))
            trained.append(original(lockstep, padded))

    trained, original = [], Lockstep._step_on_device
    monkeypatch.setattr(Lockstep, "_step_on_device", step)
    fleet.advance()
    assert trained
