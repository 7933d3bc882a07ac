"""A fleet that does not fit into memory shrinks."""

import gc
import logging
import weakref

import numpy as np
import pytest
import torch

import sagpool.fleet.fleet
import sagpool.fleet.lockstep
from sagpool.fleet import MemoryShortageError, train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.memory import out_of_memory_suppressed
from sagpool.fleet.schedule import Slots


class Memory:
    """A function that runs out of memory from its n-th call on, with more members than fit."""

    def __init__(self, monkeypatch, where: str, fits: int, calls: int, error=None) -> None:
        module = sagpool.fleet.fleet if where == "predict" else sagpool.fleet.lockstep
        self.sizes, function = [], getattr(module, where)

        def limited(*arguments):
            first = arguments[0]
            size = arguments[2] if where == "predict" else len(first.weights)
            self.sizes.append(size)
            if len(self.sizes) >= calls and size > fits:
                if where == "adam_step":
                    function(*arguments)  # its changes have to be undone
                raise error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
            return function(*arguments)

        monkeypatch.setattr(module, where, limited)


def limit_slots(monkeypatch, fits: int) -> None:
    empty = sagpool.fleet.fleet.FleetState.empty

    def limited(weights):
        if len(weights) > fits:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return empty(weights)

    monkeypatch.setattr(sagpool.fleet.fleet.FleetState, "empty", limited)


def fail_to_load(monkeypatch, calls: set[int], error: type[Exception]) -> None:
    """Raise where these members would be loaded, counted from 1."""
    state = sagpool.fleet.fleet.FleetState
    put, count = state.put, 0

    def failing(self, slots, *arguments):
        nonlocal count
        count += len(slots)
        if calls & set(range(count - len(slots) + 1, count + 1)):
            raise error
        put(self, slots, *arguments)

    monkeypatch.setattr(state, "put", failing)


@pytest.fixture(scope="module")
def trainings(kit):
    return kit.trainings(9)


@pytest.fixture(scope="module")
def undisturbed(mutag, trainings):
    return train(mutag, trainings, members=6, dtype=torch.float64)


@pytest.mark.parametrize(("fits", "calls"), [(1, 2), (3, 7), (1, 12)])
def test_a_fleet_continues_with_half_of_its_slots(
    fits, calls, mutag, trainings, undisturbed, kit, monkeypatch, caplog
):
    memory = Memory(monkeypatch, "adam_step", fits, calls)
    reported: list = []
    progress: list = []
    with caplog.at_level(logging.WARNING, "sagpool"):
        results = train(
            mutag,
            trainings,
            members=6,
            dtype=torch.float64,
            on_result=reported.append,
            on_progress=progress.append,
        )
    kit.close(results, undisturbed)
    assert sorted(map(id, reported)) == sorted(map(id, results))
    assert progress[-1].epochs == sum(result.epochs for result in results), (
        "some epochs were repeated"
    )
    assert max(memory.sizes[: calls + 1]) > fits
    assert max(memory.sizes[-5:]) <= fits
    # 6 slots, or the 4 that are left once the queue is empty.
    after = 2 if calls == 12 else 3
    first_message = f"Out of memory: continuing with {after} members, batches in 1 parts."
    assert caplog.messages[0] == first_message


def test_one_member_that_does_not_fit_takes_more_parts(
    mutag, trainings, undisturbed, kit, monkeypatch, caplog
):
    """Slots are halved first: parts slow down every member."""
    pack, sizes = sagpool.fleet.lockstep.pack, []

    def limited(graphs, ids):
        sizes.append(sum(map(len, ids)))
        if sizes[-1] > 30:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return pack(graphs, ids)

    monkeypatch.setattr(sagpool.fleet.lockstep, "pack", limited)
    with caplog.at_level(logging.WARNING, "sagpool"):
        results = train(mutag, trainings[:6], members=6, dtype=torch.float64)
    kit.close(results, undisturbed[:6])
    assert sizes[:5] == [480, 240, 80, 40, 20]
    assert max(sizes[4:]) == 20
    assert [message.split("with ")[1] for message in caplog.messages] == [
        "3 members, batches in 1 parts.",
        "1 members, batches in 1 parts.",
        "1 members, batches in 2 parts.",
        "1 members, batches in 4 parts.",
    ]


@pytest.mark.parametrize("fits", [1, 2])
def test_a_fleet_that_cannot_be_built_starts_with_fewer_slots(
    fits, mutag, trainings, undisturbed, kit, monkeypatch
):
    limit_slots(monkeypatch, fits)
    running: list = []
    results = train(
        mutag,
        trainings,
        members=6,
        dtype=torch.float64,
        on_progress=lambda progress: running.append(progress.running),
    )
    kit.close(results, undisturbed)
    assert max(running) == 1


def test_it_is_an_error_if_no_fleet_can_be_built(mutag, trainings, monkeypatch):
    limit_slots(monkeypatch, 0)
    with pytest.raises(MemoryShortageError, match="fits into the memory of cpu"):
        train(mutag, trainings, members=6)


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_memory_may_run_out_in_a_refill(
    members, after, mutag, trainings, undisturbed, kit, monkeypatch
):
    """The slot is assigned by then, but its new member is not loaded.

    The first attempt to shrink fails as well.
    """
    first = members + after + 1
    fail_to_load(monkeypatch, {first, first + min(members, 2)}, torch.OutOfMemoryError)
    progress: list = []
    count = members + 4
    options = {"members": members, "dtype": torch.float64, "on_progress": progress.append}
    results = train(mutag, trainings[:count], **options)
    kit.close(results, undisturbed[:count])
    assert progress[-1].epochs == sum(result.epochs for result in results), (
        "some epochs were repeated"
    )


@pytest.fixture(scope="module")
def four_at_a_time(mutag, trainings):
    return train(mutag, trainings, members=4)


@pytest.mark.parametrize("call", [5, 6, 7])
def test_a_run_whose_refill_failed_can_be_continued(
    call, mutag, trainings, four_at_a_time, kit, monkeypatch, tmp_path
):
    options = {"members": 4, "checkpoint": tmp_path / "run.npz"}
    with monkeypatch.context() as patch:
        fail_to_load(patch, {call}, ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            train(mutag, trainings, **options)
    kit.same(train(mutag, trainings, **options), four_at_a_time)


@pytest.mark.parametrize("calls", [1, 2])
def test_memory_may_run_out_in_the_evaluation(
    calls, mutag, trainings, undisturbed, kit, monkeypatch
):
    """The epoch before it is undone and repeated."""
    Memory(monkeypatch, "predict", 1, calls)
    results = train(mutag, trainings, members=6, dtype=torch.float64)
    kit.close(results, undisturbed)


def test_a_failed_epoch_changes_nothing(mutag, kit, monkeypatch):
    fleet = Fleet(mutag, kit.trainings(3, max_epochs=9), Slots.fill(range(3), 3))
    fleet.advance()
    before = fleet.members()
    for where in ("adam_step", "validate"):
        with monkeypatch.context() as patch:
            patch.setattr(sagpool.fleet.lockstep, where, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                fleet.advance()
    for number, member in fleet.members().items():
        for name, value in vars(member).items():
            old = getattr(before[number], name)
            assert torch.equal(value, old) if isinstance(value, torch.Tensor) else value == old


def test_shrinking_removes_empty_slots_first(mutag, kit):
    trainings = kit.trainings(4, max_epochs=3, patience=9)
    fleet = Fleet(mutag, trainings, Slots(np.array([-1, 0, 1, 2])), torch.float64)
    fleet.shrink()
    assert fleet.slots.running.tolist() == [0, 1]
    results = {}
    while fleet.slots.active.any():
        results |= fleet.advance()
        fleet.refill()
    kit.close([results[n] for n in range(3)], train(mutag, trainings[:3], dtype=torch.float64))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_it_is_an_error_if_not_even_one_member_fits(error, mutag, kit, monkeypatch):
    Memory(monkeypatch, "adam_step", 0, 1, error)
    with pytest.raises(
        MemoryShortageError,
        match=r"^Not even one model fits into the memory of cpu, one graph at a time; take",
    ):
        train(mutag, kit.trainings(3, batch_size=16), members=3)


def test_running_out_of_memory_frees_the_tensors_of_the_traceback():
    """Without garbage collection: the next attempt needs the memory."""
    alive: list = []

    def fail() -> None:
        tensor = torch.zeros(9)
        alive.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError

    gc.disable()
    try:
        with out_of_memory_suppressed():
            fail()
        assert alive[0]() is None
    finally:
        gc.enable()


def test_other_errors_are_not_mistaken_for_a_lack_of_memory(mutag, trainings, monkeypatch):
    Memory(monkeypatch, "adam_step", 0, 1, RuntimeError("mat1 and mat2 shapes cannot be"))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        train(mutag, trainings, members=6)
