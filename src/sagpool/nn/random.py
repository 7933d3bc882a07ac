"""Random numbers for layers, with a separate stream for each member; dropout."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.errors import SagpoolError
from sagpool.ops import Layout
from sagpool.ops.device import kernels_for

# SplitMix64, whose constants are written as signed 64-bit integers.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MIX1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX2 = 0x94D049BB133111EB - 2**64


class Streams:
    """Counter-based random numbers: a pure function of the member's key, call and position.

    So the numbers of a member never depend on the models that train beside it. Make a new one for
    each step.

    Args:
        keys: ``[members]`` int64
        first_graph: position of the first graph, if the graphs are a part of a batch
    """

    def __init__(self, keys: Tensor, first_graph: int = 0) -> None:
        self.keys, self.first_graph = keys, first_graph
        self.calls = 0

    @staticmethod
    def fresh(members: int, device: torch.device) -> "Streams":
        """Keys from torch's own generator, for use outside a fleet."""
        return Streams(torch.randint(2**62, (members,)).to(device))

    def uniform(self, count: int, start: int = 0) -> Tensor:
        """``[members, count]`` float32 in [0, 1), new at each call, from position ``start`` on."""
        if (kernels := kernels_for(self.keys)) is not None:
            return kernels.uniform(self.keys, self._next_call(), count, start)
        return self.uniform_at(torch.arange(start, start + count, device=self.keys.device))

    def uniform_at(self, position: Tensor) -> Tensor:
        """The numbers at these positions, ``[count]`` for all members or ``[members, count]``."""
        key = mix(self.keys + _signed(self._next_call() * _GAMMA))
        return ((mix(key[:, None] + (position + 1) * _GAMMA) >> 40) & 0xFFFFFF) * 2.0**-24

    def uniform_of_nodes(self, layout: Layout, channels: int = 1) -> Tensor:
        """``[total rows * channels]``; the same for a node if its batch is trained in parts."""
        graph = layout.graph % layout.graphs + self.first_graph
        row = torch.arange(layout.total_rows, device=layout.device)
        node = row - layout.node_ptr[layout.graph]
        position = ((graph << 32) + node * channels)[:, None]
        position = position + torch.arange(channels, device=layout.device)
        return self.uniform_at(position.view(layout.members, -1)).view(-1)

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Entries of ``[members * graphs, channels]`` dropped at the rate p, the others scaled."""
        # A part of a batch draws the same numbers as its graphs in the whole batch.
        start = self.first_graph * x.shape[1]
        if kernels_for(x) is not None:
            return _Dropout.apply(x.contiguous(), self.keys, self._next_call(), start, p)
        kept = self.uniform(x.numel() // len(self.keys), start).view_as(x) >= p
        return x * (kept.to(x.dtype) / (1 - p))

    def _next_call(self) -> int:
        self.calls += 1
        return self.calls


class _Dropout(Function):
    """Dropout by a kernel, which draws the same numbers again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, keys: Tensor, call: int, start: int, p: float) -> Tensor:
        ctx.save_for_backward(keys)
        ctx.settings = call, start, p
        kernels = kernels_for(x)
        assert kernels is not None
        return kernels.dropout(x, keys, call, start, p)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (keys,) = ctx.saved_tensors
        kernels = kernels_for(keys)
        assert kernels is not None
        grad = kernels.dropout(grads[0].contiguous(), keys, *ctx.settings)
        return grad, None, None, None, None


def step_keys(keys: Tensor, steps: Tensor) -> Tensor:
    """``[members]`` keys of a step's random numbers, from each member's key and step count."""
    if (kernels := kernels_for(keys)) is not None:
        return kernels.step_keys(keys, steps)
    return mix(keys + mix(steps + 1))


def bits_of_each(keys: Tensor, counters: Tensor, count: int) -> Tensor:
    """``[counters, keys, count]`` int64: random bits, in the order of unsigned integers.

    The bits of `sagpool.randomness.bits`, for each key and each of its counters.

    Args:
        keys: ``[keys]`` int64
        counters: ``[counters, keys]`` int64
        count: number of values
    """
    if (kernels := kernels_for(keys)) is not None:
        return kernels.bits_of_each(keys, counters, count)
    stream = mix(keys + counters * _GAMMA)[..., None]
    return mix(stream + torch.arange(1, count + 1, device=keys.device) * _GAMMA) ^ -(2**63)


def _signed(number: int) -> int:
    """The number wrapped to a signed 64-bit integer."""
    return (number + 2**63) % 2**64 - 2**63


def mix(z: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64, with logical shifts."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _MIX1
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _MIX2
    return z ^ ((z >> 31) & (2**33 - 1))


class Dropout(nn.Module):
    """Zeroes entries with probability p in training, and scales the others by 1 / (1 - p).

    Args:
        p: in [0, 1)

    Shapes:
        x: ``[members * graphs, channels]``, or rows of nodes with their layout
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise SagpoolError(f"The dropout rate must be at least 0 and below 1, not {p}.")
        self.p = p

    def forward(self, x: Tensor, streams: Streams, layout: Layout | None = None) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if layout is not None:
            kept = streams.uniform_of_nodes(layout, x.shape[1]).view_as(x) >= self.p
            return x * (kept.to(x.dtype) / (1 - self.p))
        return streams.dropout(x, self.p)
