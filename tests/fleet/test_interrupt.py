"""Ctrl-C is delayed until the state is consistent."""

import signal
import threading
import time

import pytest

import sagpool.fleet.fleet
import sagpool.fleet.lockstep
from sagpool.fleet import train
from sagpool.fleet.interrupt import interrupt_held_back
from sagpool.termination import Terminated, sigterm_raises

pytestmark = pytest.mark.usefixtures("usual_signals")


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_it_is_raised_when_the_block_checks_for_it():
    reached = []

    def block() -> None:
        with interrupt_held_back() as raise_if_pressed:
            raise_if_pressed()
            press()
            press()
            reached.append("this")
            raise_if_pressed()
            reached.append("not this")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert reached == ["this"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_is_raised_at_the_end_of_the_block_at_the_latest():
    reached = []

    def block() -> None:
        with interrupt_held_back():
            press()
            reached.append("the end")
        reached.append("not this")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert reached == ["the end"]


def test_another_error_comes_first_and_the_default_handler_is_restored():
    def block() -> None:
        with interrupt_held_back():
            press()
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        block()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        press()


def test_a_custom_handler_stays():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append("press"))
    with interrupt_held_back() as raise_if_pressed:
        press()
        raise_if_pressed()
    assert heard == ["press"]


def test_sigterm_is_held_back_in_a_command():
    reached = []

    def block() -> None:
        with sigterm_raises(), interrupt_held_back() as raise_if_pressed:
            signal.raise_signal(signal.SIGTERM)
            reached.append("after the signal")
            press()
            raise_if_pressed()

    with pytest.raises(Terminated):
        block()
    assert reached == ["after the signal"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_other_threads_can_train(mutag, kit):
    results: list = []
    thread = threading.Thread(target=lambda: results.extend(train(mutag, kit.trainings(2))))
    thread.start()
    thread.join()
    assert len(results) == 2


@pytest.fixture(scope="module")
def uninterrupted(mutag, kit):
    return train(mutag, kit.trainings(4), members=2, keep_weights=True)


@pytest.mark.parametrize("moment", ["shape_of", "predict", "adam_step", "validate"])
def test_a_run_interrupted_anywhere_can_be_continued(
    moment, mutag, kit, uninterrupted, monkeypatch, tmp_path
):
    """Also during a refill."""
    trainings, file = kit.trainings(4), tmp_path / "fleet.npz"
    module = sagpool.fleet.fleet if hasattr(sagpool.fleet.fleet, moment) else sagpool.fleet.lockstep
    function, calls = getattr(module, moment), []

    def pressed(*arguments):
        calls.append(moment)
        if len(calls) == 3:
            press()
            time.sleep(0.3)  # the main thread hears of it, and tells the fleet
        return function(*arguments)

    monkeypatch.setattr(module, moment, pressed)
    options = {"members": 2, "keep_weights": True, "checkpoint": file}
    with pytest.raises(KeyboardInterrupt):
        train(mutag, trainings, **options, checkpoint_seconds=1e9)
    assert len(calls) <= 4, "the step that was running is the last"
    kit.same(train(mutag, trainings, **options), uninterrupted)
