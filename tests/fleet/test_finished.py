"""Members that have ended wait for their evaluation; none is lost or evaluated twice."""

import pytest
import torch

import sagpool.fleet.finished
from sagpool.fleet import train
from sagpool.fleet.finished import EPOCHS, MEMBERS, WaitingRoom
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots


def test_who_is_not_patient_is_due_at_once():
    room = WaitingRoom(patient=False)
    room.enter([])
    assert not room.due
    room.enter(["one"])
    assert room.due


def test_the_patient_wait_for_others():
    room = WaitingRoom(patient=True)
    room.enter(["one"] * (MEMBERS - 1))
    assert not room.due
    room.enter(["another"])
    assert room.due
    assert room.members == ["one"] * (MEMBERS - 1) + ["another"]


def test_the_patient_do_not_wait_forever():
    room = WaitingRoom(patient=True)
    for _ in range(2 * EPOCHS):
        room.enter([])
    room.enter(["one"])
    for _ in range(EPOCHS - 1):
        room.enter([])
        assert not room.due
    room.enter(["late"])
    assert room.due
    room.members = []
    room.enter(["next"])
    assert not room.due, "its own epochs count"


@pytest.fixture
def patient(monkeypatch):
    """Fleets on the CPU are patient, and their sizes of evaluations are noted."""
    init, evaluate, sizes = Fleet.__init__, Fleet.evaluate, []

    def made_patient(fleet, *arguments, **options):
        init(fleet, *arguments, **options)
        fleet.ended.patient = True

    def noted(fleet):
        sizes.append(len(fleet.ended.members))
        return evaluate(fleet)

    monkeypatch.setattr(Fleet, "__init__", made_patient)
    monkeypatch.setattr(Fleet, "evaluate", noted)
    return sizes


@pytest.fixture(scope="module")
def trainings(kit):
    return kit.trainings(9)


@pytest.fixture(scope="module")
def impatient(mutag, trainings):
    return train(mutag, trainings, members=3, dtype=torch.float64, keep_weights=True)


@pytest.mark.parametrize(("members", "epochs"), [(32, 25), (2, 25), (32, 1)])
def test_the_patient_have_the_same_results(
    members, epochs, patient, mutag, trainings, impatient, kit, monkeypatch
):
    monkeypatch.setattr(sagpool.fleet.finished, "MEMBERS", members)
    monkeypatch.setattr(sagpool.fleet.finished, "EPOCHS", epochs)
    reported: list = []
    results = train(
        mutag,
        trainings,
        members=3,
        dtype=torch.float64,
        keep_weights=True,
        on_result=reported.append,
    )
    kit.close(results, impatient)
    for one, other in zip(results, impatient, strict=True):
        torch.testing.assert_close(one.weights, other.weights)
    assert len(reported) == 9
    assert max(patient) >= min(members, 2)
    assert max(patient) == 9 or (members, epochs) != (32, 25)


@pytest.mark.parametrize("epoch", [4, 7, 10])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_no_result_is_lost_or_doubled_by_an_interrupt(
    epoch, error, patient, mutag, trainings, impatient, kit, monkeypatch, tmp_path
):
    """An interrupt comes from a callback, an error from the fleet itself."""
    options = {"members": 3, "dtype": torch.float64, "checkpoint": tmp_path / "run.npz"}
    reported, count = [], 0
    validate = sagpool.fleet.lockstep.validate

    def failing(*arguments):
        nonlocal count
        count += 1
        if count == epoch and error is ZeroDivisionError:
            raise error
        validate(*arguments)

    def interrupt(progress):
        if count == epoch - 1 and error is KeyboardInterrupt:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(sagpool.fleet.lockstep, "validate", failing)
        with pytest.raises(error):
            train(mutag, trainings, **options, on_progress=interrupt, on_result=reported.append)
    assert not reported, "all of them wait in this run"
    results = train(mutag, trainings, **options, on_result=reported.append)
    kit.close(results, impatient)
    assert len({id(result) for result in reported}) == len(reported) <= 9


@pytest.mark.parametrize("checkpoints", [False, True])
def test_memory_that_runs_out_in_the_evaluation_loses_no_result(
    checkpoints, patient, mutag, trainings, impatient, kit, monkeypatch, tmp_path
):
    """Neither at the end, nor where a checkpoint asks for all results that there are."""
    predict, calls = sagpool.fleet.fleet.predict, 0

    def limited(*arguments):
        nonlocal calls
        calls += 1
        if calls in (1, 3):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return predict(*arguments)

    monkeypatch.setattr(sagpool.fleet.fleet, "predict", limited)
    options = {"checkpoint": tmp_path / "run.npz", "checkpoint_seconds": 0} if checkpoints else {}
    reported: list = []
    results = train(
        mutag, trainings, members=3, dtype=torch.float64, on_result=reported.append, **options
    )
    kit.close(results, impatient)
    assert len(reported) == 9
    assert calls > 1


def test_an_epoch_that_is_undone_sends_those_back_who_ended_in_it(mutag, kit):
    fleet = Fleet(mutag, kit.trainings(2, max_epochs=1), Slots.fill(range(2), 1))
    fleet.ended.patient = True
    fleet.advance()
    fleet.refill()
    assert [member.number for member in fleet.ended.members] == [0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sagpool.fleet.fleet, "predict", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fleet.advance()
    assert [member.number for member in fleet.ended.members] == [0]
    assert fleet.slots.running.tolist() == [1]
    assert sorted(fleet.advance()) == [0, 1]
