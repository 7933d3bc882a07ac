"""Ctrl-C and SIGTERM, delayed until the state of a run is consistent."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sagpool.termination import Terminated, raise_terminated

# By signal: the handler that is replaced, and what it raises.
_HANDLERS: dict[signal.Signals, tuple[Callable[..., object], type[KeyboardInterrupt]]] = {
    signal.SIGINT: (signal.default_int_handler, KeyboardInterrupt),
    signal.SIGTERM: (raise_terminated, Terminated),
}


@contextmanager
def interrupt_held_back() -> Iterator[Callable[[], None]]:
    """Delay Ctrl-C, and SIGTERM in a command, until the yielded function is called.

    At the latest they are raised when the block ends. Does nothing about a signal with another
    handler, or outside the main thread, the only one that receives signals.
    """
    pressed: list[type[KeyboardInterrupt]] = []

    def press(number: int, *_: object) -> None:
        pressed.append(_HANDLERS[signal.Signals(number)][1])

    def raise_if_pressed() -> None:
        if pressed:
            raise pressed[0]

    held = []
    if threading.current_thread() is threading.main_thread():
        held = [one for one, (usual, _) in _HANDLERS.items() if signal.getsignal(one) is usual]
    for one in held:
        signal.signal(one, press)
    try:
        yield raise_if_pressed
        raise_if_pressed()
    finally:
        for one in held:
            signal.signal(one, _HANDLERS[one][0])
