"""Schedules of the learning rate, by the epoch of each member."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

STEP = 50  # epochs between two steps

# The factor of the learning rate, from the epochs so far and max_epochs.
SCHEDULES: Mapping[str, Callable[[int, int], float]] = MappingProxyType(
    {
        "constant": lambda epoch, most: 1.0,
        "cosine": lambda epoch, most: (1 + math.cos(math.pi * min(epoch, most) / most)) / 2,
        "step": lambda epoch, most: 0.5 ** (epoch // STEP),
    }
)
