"""Works on several data sets, side by side in several threads."""

import gc
import signal
import sys
import threading
import weakref
from dataclasses import replace

import pytest
import torch

import sagpool.fleet.lockstep
from sagpool.fleet import MemoryShortageError, train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.lane import GpuMemory, Lane
from sagpool.fleet.scheduler import COMPILING, Scheduler
from sagpool.fleet.state import FleetState
from sagpool.fleet.training import Paused
from sagpool.fleet.work import Work

CPU = torch.device("cpu")
DOUBLE = {"dtype": torch.float64}


@pytest.fixture
def threads(one_thread):
    yield torch.set_num_threads
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def half(mutag):
    """Every other graph, as another data set."""
    return replace(mutag[list(range(0, len(mutag), 2))], name="half")


@pytest.fixture(scope="module")
def trainings(kit):
    """Of three shapes."""
    return [*kit.trainings(3), *kit.trainings(2, hidden=16), *kit.trainings(2, "gpool-h")]


@pytest.fixture(scope="module")
def alone(mutag, half, trainings, one_thread):
    return [train(graphs, trainings, **DOUBLE) for graphs in (mutag, half)]


class Ends:
    """Notes how each work ended."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception | None] = {}

    def of(self, name: str, *following: Work):
        def on_end(error):
            assert name not in self.errors
            self.errors[name] = error
            return following

        return on_end


@pytest.mark.parametrize("count", [1, 2, 3])
def test_works_side_by_side_have_the_results_that_each_has_alone(
    count, mutag, half, trainings, alone, kit, threads
):
    threads(count)
    works = [Work(graphs, trainings, **DOUBLE) for graphs in (mutag, half)]
    Scheduler(CPU).run(works)
    for work, expected in zip(works, alone, strict=True):
        if count == 1:
            kit.same(work.outcomes(), expected)
        else:
            kit.close(work.outcomes(), expected, 1e-11)


def test_works_that_follow(mutag, half, trainings, alone, kit, threads):
    threads(2)
    ends = Ends()
    last = Work(mutag, trainings, **DOUBLE, on_end=ends.of("last"))
    second = Work(half, trainings, **DOUBLE, on_end=ends.of("second", last))
    Scheduler(CPU).run([Work(mutag, trainings[:2], on_end=ends.of("first", second))])
    assert ends.errors == {"first": None, "second": None, "last": None}
    kit.close(last.outcomes(), alone[0])
    kit.close(second.outcomes(), alone[1])


def test_paused_trainings_go_on(mutag, trainings, alone, kit, threads):
    threads(2)
    paused: list = []
    first = Work(mutag, trainings, **DOUBLE, until=2, on_result=paused.append)
    Scheduler(CPU).run([first])
    begun = {one.training: one.state for one in paused if isinstance(one, Paused)}
    assert len(begun) > len(trainings) // 2
    assert all(state.epoch == 2 for state in begun.values())
    rest = [one for one in trainings if one in begun]
    second = Work(mutag, rest, **DOUBLE, begun=begun)
    Scheduler(CPU).run([second])
    expected = [result for result in alone[0] if result.training in begun]
    kit.close(second.outcomes(), expected, 1e-11)


def fail_for_hidden(monkeypatch, hidden: int, error: Exception, calls: int = 1) -> None:
    """From the n-th step of these models on."""
    step, count = sagpool.fleet.lockstep.Lockstep._step_in_parts, 0

    def failing(lockstep, ids):
        nonlocal count
        if lockstep.stack.model.convs[0].linear.weight.shape[-1] == hidden:
            count += 1
            if count >= calls:
                raise error
        step(lockstep, ids)

    monkeypatch.setattr(sagpool.fleet.lockstep.Lockstep, "_step_in_parts", failing)


def test_an_error_in_one_thread_stops_and_saves_all(
    mutag, half, trainings, alone, kit, threads, monkeypatch, tmp_path
):
    threads(3)
    interval, scheduler = sys.getswitchinterval(), Scheduler(CPU)

    def works() -> list[Work]:
        return [
            Work(graphs, trainings, **DOUBLE, checkpoint=tmp_path / graphs.name)
            for graphs in (mutag, half)
        ]

    with monkeypatch.context() as patch:
        fail_for_hidden(patch, 16, ZeroDivisionError(), calls=6)
        with pytest.raises(ZeroDivisionError):
            scheduler.run(works())
    assert not any(thread.is_alive() for thread in scheduler.running.values())
    assert torch.get_num_threads() == 3
    assert sys.getswitchinterval() == interval
    again = works()
    Scheduler(CPU).run(again)
    assert torch.get_num_threads() == 3
    assert sys.getswitchinterval() == interval
    for work, expected in zip(again, alone, strict=True):
        kit.close(work.outcomes(), expected, 1e-11)


OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory.")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("calls", [1, 5])
def test_a_work_that_does_not_fit_is_given_up_alone(
    count, calls, mutag, half, trainings, alone, kit, threads, monkeypatch, tmp_path
):
    threads(count)
    ends = Ends()
    small = [one for one in trainings if one.hidden == 8]
    file = tmp_path / "large"
    large = Work(mutag, trainings[3:5], on_end=ends.of("large"), checkpoint=file)
    others = Work(half, small, **DOUBLE, on_end=ends.of("others"))
    fail_for_hidden(monkeypatch, 16, OUT_OF_MEMORY, calls)
    Scheduler(CPU).run([large, others])
    assert isinstance(ends.errors.pop("large"), MemoryShortageError)
    assert ends.errors == {"others": None}
    kit.close(others.outcomes(), [r for r in alone[1] if r.training.hidden == 8], 1e-11)
    saved = Work(mutag, trainings[3:5], checkpoint=file)
    saved.prepare(1)
    begun = {number for fleet in saved.fleets for number in fleet.members}
    assert begun or calls == 1, "what it had was not saved"


@pytest.mark.parametrize("where", ["build", "epoch"])
def test_a_fleet_waits_while_others_have_the_memory(
    where, mutag, half, trainings, alone, kit, threads, monkeypatch
):
    threads(2)
    ends, tried = Ends(), []
    full = threading.Event()
    full.set()

    def end(error):
        full.clear()
        return ends.of("others")(error)

    def out_of_memory_while_full(fleet) -> None:
        if fleet.shape.hidden == 16:
            tried.append(full.is_set())
            if full.is_set():
                raise OUT_OF_MEMORY

    name = "_allocate" if where == "build" else "_train_and_validate"
    original = getattr(Fleet, name)

    def limited(fleet, *arguments):
        out_of_memory_while_full(fleet)
        return original(fleet, *arguments)

    monkeypatch.setattr(Fleet, name, limited)
    large = Work(mutag, trainings[3:5], **DOUBLE, members=1, on_end=ends.of("large"))
    others = Work(half, trainings[:3], **DOUBLE, members=1, on_end=end)
    Scheduler(CPU).run([large, others])
    assert ends.errors == {"large": None, "others": None}
    assert tried[0]
    assert not tried[-1]
    kit.close(large.outcomes(), alone[0][3:5])


def test_a_fleet_that_cannot_be_rebuilt_is_a_lack_of_memory(mutag, kit, monkeypatch):
    fail_for_hidden(monkeypatch, 8, OUT_OF_MEMORY, calls=4)
    empty, built = FleetState.empty, []

    def limited(weights):
        built.extend([weights] if len(weights) else [])
        if len(built) > 1 and len(weights):
            raise OUT_OF_MEMORY
        return empty(weights)

    monkeypatch.setattr(FleetState, "empty", limited)
    with pytest.raises(MemoryShortageError):
        train(mutag, kit.trainings(3), members=3)


def test_data_that_nobody_else_has_is_not_mistaken_for_other_data(mutag, trainings):
    """Two objects may have the same id, one after the other."""
    graphs = mutag[list(range(100))]
    source, scheduler = weakref.ref(graphs), Scheduler(CPU)
    work = Work(graphs, trainings[:1])
    scheduler._add(work)
    del graphs
    gc.collect()
    assert work.graphs.node_counts.tolist() == mutag.node_counts[:100].tolist()
    assert source() is not None or not scheduler.data


def test_an_interrupt_does_not_wait_for_a_moment_without_events(mutag, kit, threads):
    """Two fleets have always something to report if the callback takes as long as an epoch."""
    threads(2)
    scheduler, calls = Scheduler(CPU), []

    def slow(progress):
        calls.append(progress)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        assert len(calls) < 9, "the interrupt was not noticed"
        while scheduler.events.empty() and len(scheduler.running) == 2:
            pass

    trainings = kit.trainings(2, max_epochs=99, patience=99)
    with pytest.raises(KeyboardInterrupt):
        scheduler.run([Work(mutag, trainings, on_progress=slow)])


@pytest.fixture
def saving(mutag, trainings, tmp_path):
    """A scheduler that waits for the state of one fleet to write a checkpoint."""
    scheduler = Scheduler(CPU, checkpoint_seconds=0)
    work = Work(mutag, trainings, checkpoint=tmp_path / "run.npz")
    scheduler._add(work)
    work.checkpoint.unlink()
    task = work.fleets[0]
    thread = threading.Thread(target=lambda: None)
    thread.start()
    scheduler.running[task] = thread
    return scheduler, work, task


def test_a_checkpoint_does_not_wait_for_a_fleet_that_has_ended(saving):
    scheduler, work, task = saving
    scheduler.saved_at[work], task.wanted = float("inf"), True
    scheduler._after(task, None)
    assert work.checkpoint.exists()
    assert scheduler.saved_at[work] < float("inf")


def test_a_checkpoint_does_not_wait_for_a_fleet_that_waits_for_memory(saving):
    scheduler, work, task = saving
    scheduler._save_from_time_to_time()
    assert not task.wanted
    assert work.checkpoint.exists()


def test_fleets_wait_until_the_memory_that_they_reserve_is_free():
    memory, entered, done = GpuMemory(10), threading.Event(), threading.Event()

    def reserve_much() -> None:
        with memory.reserving() as reserve:
            entered.set()
            reserve(99)  # more than there is: all of it
            assert memory.free == 0
        done.set()

    thread = threading.Thread(target=reserve_much)
    with memory.reserving() as reserve:
        reserve(4)
        assert memory.free == 6
        thread.start()
        entered.wait()
        assert not done.is_set()
    thread.join()
    assert done.is_set()
    assert memory.free == 10


def test_on_a_gpu_only_fleets_of_new_shapes_are_held_back(mutag, kit, monkeypatch):
    """The later rounds of a search have many short fleets, of which none compiles a kernel."""
    monkeypatch.setattr("sagpool.fleet.scheduler.planned_memory", lambda device: 1e9)
    monkeypatch.setattr(Lane, "run", lambda lane: None)
    scheduler = Scheduler(torch.device("cuda"))

    def start(*sizes: int) -> int:
        """Returns how many fleets are running."""
        for hidden in sizes:
            work = Work(mutag, [replace(one, hidden=hidden) for one in kit.trainings(2)])
            work.prepare(1)
            for fleet in work.fleets:
                scheduler._queue(fleet)
        scheduler._start()
        return len(scheduler.running)

    assert start(*range(2, 9)) == COMPILING
    for fleet in scheduler.running:
        scheduler.crew.known_shape(fleet).has_trained = True
    assert start() == 2 * COMPILING
    for fleet in scheduler.running:
        scheduler.crew.known_shape(fleet).has_trained = True
    assert start(8, 7, 6, 8, 7, 6) == 13


def test_a_shape_has_trained_after_an_epoch_whether_recorded_or_not(mutag, kit):
    scheduler = Scheduler(CPU)
    scheduler.run([Work(mutag, kit.trainings(1))])
    assert [known.has_trained for known in scheduler.crew.shapes.values()] == [True]
