"""SIGTERM, which Slurm and spot machines send before a kill, stops a command like Ctrl-C."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

TERMINATED = 143  # exit status, 128 + 15
AGAIN_SECONDS = 0.02


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


def raise_terminated(_: int, __: FrameType | None) -> None:
    """The handler of SIGTERM."""
    raise Terminated


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM, if this is the main thread and nothing else handles it."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, raise_terminated)
    usual = sys.unraisablehook
    sys.unraisablehook = partial(_send_again, usual)
    try:
        yield
    finally:
        sys.unraisablehook = usual
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _send_again(usual: Any, lost: Any) -> None:
    """Send a signal again if its exception was lost.

    Python drops exceptions in some places, such as callbacks of weak references. If a dropped
    exception came from a signal, the signal is sent once more, a moment later.
    """
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        usual(lost)
        return
    number = signal.SIGTERM if issubclass(lost.exc_type, Terminated) else signal.SIGINT
    timer = threading.Timer(AGAIN_SECONDS, _send, [number])
    timer.daemon = True
    timer.start()


def _send(number: signal.Signals) -> None:
    if signal.getsignal(number) is not signal.SIG_DFL:  # otherwise the command has ended
        os.kill(os.getpid(), number)
