"""Random numbers: SplitMix64, as in `sagpool.nn.random`."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

_BLOCK = 1024
_FEW = 128


def step_keys(keys: Tensor, steps: Tensor) -> Tensor:
    """``[members]`` int64; see `sagpool.nn.random.step_keys`.

    Args:
        keys: ``[members]`` int64, may have a stride
        steps: ``[members]`` int64
    """
    out = torch.empty_like(steps)
    _step_keys[(triton.cdiv(len(out), _FEW),)](
        keys, steps, out, len(out), keys.stride(0), BLOCK=_FEW, num_warps=1
    )
    return out


@kernel(do_not_specialize=["members", "stride"])
def _step_keys(keys, steps, out, members, stride, BLOCK: tl.constexpr):
    member = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = member < members
    step = tl.load(steps + member, mask=inside, other=0) + 1
    key = tl.load(keys + member * stride, mask=inside, other=0).to(tl.uint64)
    mixed = _mix(key + _mix(step.to(tl.uint64)))
    tl.store(out + member, mixed.to(tl.int64), mask=inside)


@triton.jit
def _mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def _uniform_at(key, call, position):
    """The numbers at these positions of the stream of a call."""
    stream = _mix(key.to(tl.uint64) + call.to(tl.uint64) * 0x9E3779B97F4A7C15)
    z = _mix(stream + (position + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)
    return ((z >> 40) & 0xFFFFFF).to(tl.float32) * (1.0 / 16777216)


def uniform(keys: Tensor, call: int, count: int, start: int) -> Tensor:
    """``[members, count]`` float32 in [0, 1): the numbers from ``start``.

    Args:
        keys: ``[members]`` int64, may have a stride
        call: number of the stream
        count: how many numbers for each member
        start: position of the first in the stream
    """
    out = torch.empty(len(keys), count, device=keys.device)
    _uniform[(triton.cdiv(count, _BLOCK), len(keys))](
        keys, out, keys.stride(0), call, count, start, BLOCK=_BLOCK, num_warps=4
    )
    return out


@kernel(do_not_specialize=["stride", "call", "start"])
def _uniform(keys, out, stride, call, count, start, BLOCK: tl.constexpr):
    member = tl.program_id(1)
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = _uniform_at(tl.load(keys + member * stride), call, start + offset)
    tl.store(out + member.to(tl.int64) * count + offset, value, mask=offset < count)


def bits_of_each(keys: Tensor, counters: Tensor, count: int) -> Tensor:
    """``[counters, keys, count]`` int64; see `sagpool.nn.random.bits_of_each`."""
    out = torch.empty(*counters.shape, count, dtype=torch.int64, device=keys.device)
    _bits_of_each[(counters.numel(), triton.cdiv(count, _BLOCK))](
        keys.contiguous(), counters.contiguous(), out, len(keys), count, BLOCK=_BLOCK, num_warps=4
    )
    return out


@kernel(do_not_specialize=["members", "count"])
def _bits_of_each(keys, counters, out, members, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    offset = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    key, counter = tl.load(keys + at % members), tl.load(counters + at)
    stream = _mix(key.to(tl.uint64) + counter.to(tl.uint64) * 0x9E3779B97F4A7C15)
    bits = _mix(stream + (offset + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)
    in_order = (bits ^ 0x8000000000000000).to(tl.int64)
    tl.store(out + at * count + offset, in_order, mask=offset < count)


def dropout(x: Tensor, keys: Tensor, call: int, start: int, p: float) -> Tensor:
    """Zeroes entries where `uniform` is below p, and scales the others by 1 / (1 - p).

    Args:
        x: contiguous, as many entries for each member
        keys: ``[members]`` int64, may have a stride
        call: number of the stream
        start: position of the first entry of each member in the stream
        p: in [0, 1)
    """
    out, count = torch.empty_like(x), x.numel() // len(keys)
    _dropout[(triton.cdiv(count, _BLOCK), len(keys))](
        x, keys, out, keys.stride(0), call, count, start,
        P=p, SCALE=_scale(p, x.dtype), BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return out


@cache
def _scale(p: float, dtype: torch.dtype) -> float:
    """1 / (1 - p), rounded as torch rounds it."""
    return torch.ones((), dtype=dtype).div(1 - p).item()


# The rate is compiled in: an argument would be rounded to float32.
@kernel(do_not_specialize=["stride", "call", "start"])
def _dropout(
    x, keys, out, stride, call, count, start,
    P: tl.constexpr, SCALE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1)
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = _uniform_at(tl.load(keys + member * stride), call, start + offset)
    at = member.to(tl.int64) * count + offset
    value = tl.load(x + at, mask=offset < count, other=0.0)
    factor = tl.where(number >= P, tl.full((), SCALE, value.dtype), 0.0)
    tl.store(out + at, value * factor, mask=offset < count)
