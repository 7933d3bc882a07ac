import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from sagpool.nn import Streams

keys = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4)
GAMMA, MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def splitmix64(z: int) -> int:
    """The published finaliser, on numbers without a sign."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


@given(keys=keys, count=st.integers(0, 6), calls=st.integers(1, 3))
def test_each_call_is_a_splitmix64_stream_of_its_own(keys, count, calls):
    streams = Streams(torch.tensor(keys))
    for call in range(1, calls + 1):
        numbers = streams.uniform(count)
        assert numbers.shape == (len(keys), count)
        assert numbers.dtype == torch.float32
        for key, row in zip(keys, numbers.tolist(), strict=True):
            start = splitmix64(key + call * GAMMA & MASK)
            stream = [splitmix64(start + i * GAMMA & MASK) for i in range(1, count + 1)]
            assert row == [(z >> 40) / 2**24 for z in stream]


@given(start=st.integers(0, 2**40), count=st.integers(0, 6))
def test_a_stretch_of_a_stream(start, count):
    key = 7
    (numbers,) = Streams(torch.tensor([key])).uniform(count, start).tolist()
    first = splitmix64(key + GAMMA & MASK)
    stream = [splitmix64(first + (start + i) * GAMMA & MASK) for i in range(1, count + 1)]
    assert numbers == [(z >> 40) / 2**24 for z in stream]


def test_numbers_are_spread_evenly_and_below_one():
    numbers = Streams(torch.arange(4)).uniform(25_000)
    assert 0 <= numbers.min() < numbers.max() < 1
    counts = torch.histc(numbers, 20, 0, 1)
    assert (counts - 5000).abs().max() < 4 * math.sqrt(5000)
    # No member's numbers, and no call's, say anything about another's.
    assert torch.corrcoef(numbers).fill_diagonal_(0).abs().max() < 4 / math.sqrt(25_000)


def test_fresh_keys_follow_torchs_seed():
    torch.manual_seed(0)
    first = Streams.fresh(3, torch.device("cpu")).keys
    second = Streams.fresh(3, torch.device("cpu")).keys
    torch.manual_seed(0)
    assert torch.equal(Streams.fresh(3, torch.device("cpu")).keys, first)
    assert len({*first.tolist(), *second.tolist()}) == 6
