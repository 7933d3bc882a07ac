"""Random numbers for layers, a stream of its own for each member."""

import torch
from torch import Tensor

from sagpool.ops.device import kernels_for

# SplitMix64, whose constants are written as signed 64-bit integers.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MIX1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX2 = 0x94D049BB133111EB - 2**64


class Streams:
    """Counter-based random numbers: a pure function of the member's key, call and position.

    So what a member draws never depends on who trains beside it. Make a new one for each step.

    Args:
        keys: ``[members]`` int64
        first_graph: where the graphs at hand begin, if they are a part of a batch
    """

    def __init__(self, keys: Tensor, first_graph: int = 0) -> None:
        self.keys, self.first_graph = keys, first_graph
        self.calls = 0

    @staticmethod
    def fresh(members: int, device: torch.device) -> "Streams":
        """Keys from torch's own generator, for use outside a fleet."""
        return Streams(torch.randint(2**62, (members,)).to(device))

    def uniform(self, count: int, start: int = 0) -> Tensor:
        """``[members, count]`` float32 in [0, 1), new at each call: the numbers from ``start``."""
        if (kernels := kernels_for(self.keys)) is not None:
            return kernels.uniform(self._next_keys(), count, start)
        return self.uniform_at(torch.arange(start, start + count, device=self.keys.device))

    def uniform_at(self, position: Tensor) -> Tensor:
        """The numbers at these positions, ``[count]`` for all members or ``[members, count]``."""
        key = self._next_keys()
        return ((mix(key[:, None] + (position + 1) * _GAMMA) >> 40) & 0xFFFFFF) * 2.0**-24

    def _next_keys(self) -> Tensor:
        """``[members]`` of one call."""
        self.calls += 1
        return mix(self.keys + _signed(self.calls * _GAMMA))


def _signed(number: int) -> int:
    """The number as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def mix(z: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64; shifts are logical, so the sign's copies are cut off."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _MIX1
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _MIX2
    return z ^ ((z >> 31) & (2**33 - 1))
