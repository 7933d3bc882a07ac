"""Ctrl-C, acted on only where nothing is half done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_held_back() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back until the function that this gives is called, or the block ends.

    Does nothing where somebody else looks after Ctrl-C, or outside of the main thread, which is
    the only one to be told.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        pressed = True

    def raise_if_pressed() -> None:
        if pressed:
            raise KeyboardInterrupt

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, press)
    try:
        yield raise_if_pressed
        raise_if_pressed()
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
