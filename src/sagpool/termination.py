"""SIGTERM, which Slurm and spot machines send before they kill: it stops a command like Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 143  # the exit status, 128 + 15


class Terminated(KeyboardInterrupt):
    """The process got SIGTERM."""


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
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
