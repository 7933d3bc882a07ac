"""Ctrl-C, delayed until the state of a run is consistent."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_held_back() -> Iterator[Callable[[], None]]:
    """Delay Ctrl-C until the yielded function is called, or the block ends.

    Does nothing if another handler is installed, or outside the main thread, the only one that
    receives signals.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        pressed = True

    def raise_if_pressed() -> None:
        if pressed:
            raise KeyboardInterrupt

    default_handler = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if default_handler:
        signal.signal(signal.SIGINT, press)
    try:
        yield raise_if_pressed
        raise_if_pressed()
    finally:
        if default_handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)
