"""`Launches`: how far the host may be ahead of the device."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch

# Passes of a fleet that may wait in its stream. While a launch waits for room in a full queue, it
# also blocks the launches of all other fleets.
AHEAD = 64


class Event(Protocol):
    """The part of `torch.cuda.Event` that is needed here."""

    def record(self) -> None: ...

    def synchronize(self) -> None: ...


class Launches:
    """The recordings that a fleet has launched and the device may not have finished.

    Args:
        new_event: makes an event of the device
    """

    def __init__(
        self, new_event: Callable[[], Event] = partial(torch.cuda.Event, blocking=True)
    ) -> None:
        self.new_event = new_event
        self.waiting = deque[tuple[int, Event]]()  # passes of each launch, and its end

    def launch(self, replay: Callable[[], None], passes: int) -> None:
        """Launch a recording of so many passes as soon as there is room for it."""
        event = None
        while self.waiting and sum(count for count, _ in self.waiting) + passes > AHEAD:
            _, event = self.waiting.popleft()
            event.synchronize()
        replay()
        event = event or self.new_event()
        event.record()
        self.waiting.append((passes, event))
