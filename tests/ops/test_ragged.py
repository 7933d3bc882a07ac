import os
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sagpool.ops import (
    copied_runs,
    edge_rows,
    marked,
    ragged_arange,
    repeat_each,
    with_self_entries,
)
from sagpool.ops.device import kernels_forced

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])

pytestmark = pytest.mark.usefixtures("path")

counts = st.lists(st.integers(0, 4), min_size=1, max_size=6)
whole = st.sampled_from([torch.int32, torch.int64])


@given(counts=counts, dtype=whole)
def test_repeat_each(counts, dtype):
    values = torch.arange(len(counts), dtype=dtype) * 10
    repeated = repeat_each(values, torch.tensor(counts), sum(counts))
    assert repeated.dtype == dtype
    assert repeated.tolist() == [10 * i for i, count in enumerate(counts) for _ in range(count)]


@given(runs=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), min_size=1), dtype=whole)
def test_ragged_arange(runs, dtype):
    starts = torch.tensor([start for start, _ in runs], dtype=dtype)
    lengths = torch.tensor([length for _, length in runs])
    numbers = ragged_arange(starts, lengths, int(lengths.sum()))
    assert numbers.dtype == dtype
    assert numbers.tolist() == [s + i for s, length in runs for i in range(length)]


@given(mask=st.lists(st.booleans(), max_size=12))
def test_marked(mask):
    positions = marked(torch.tensor(mask, dtype=torch.bool))
    assert positions.dtype == torch.int64
    assert positions.tolist() == [i for i, here in enumerate(mask) if here]


@given(counts=counts)
def test_edge_rows(counts):
    row_ptr = torch.tensor([sum(counts[:i]) for i in range(len(counts) + 1)], dtype=torch.int32)
    rows = edge_rows(row_ptr, torch.zeros(sum(counts), dtype=torch.int32))
    assert rows.dtype == torch.int64
    assert rows.tolist() == [i for i, count in enumerate(counts) for _ in range(count)]


def test_spare_entries_get_the_last_row(path):
    if path == "device path":
        row_ptr = torch.tensor([0, 2, 3, 3], dtype=torch.int32)
        assert edge_rows(row_ptr, torch.zeros(5, dtype=torch.int32)).tolist() == [0, 0, 1, 2, 2]


@given(neighbours=st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6))
def test_with_self_entries(neighbours):
    lengths = [len(row) for row in neighbours]
    row_ptr = torch.tensor([sum(lengths[:i]) for i in range(len(lengths) + 1)])
    col = torch.tensor([j for row in neighbours for j in row], dtype=torch.int32)
    own = torch.arange(len(neighbours)) + 100
    wider, joined = with_self_entries(row_ptr, col, own)
    assert joined.dtype == torch.int32
    rows = [joined[a:b].tolist() for a, b in pairwise(wider)]
    assert rows == [[100 + i, *row] for i, row in enumerate(neighbours)]


@pytest.mark.parametrize("by_kernels", [True, False])
@given(
    lengths=st.lists(st.integers(0, 3), min_size=1, max_size=5),
    chosen=st.lists(st.integers(0, 4), min_size=1, max_size=7),
    spare=st.integers(0, 4),
    shifted=st.booleans(),
)
def test_copied_runs(by_kernels, lengths, chosen, spare, shifted):
    start = [0]
    for length in lengths:
        start.append(start[-1] + length)
    node = [number % len(lengths) for number in chosen]
    ptr, expected, shift = [0], [], [100 * row for row, _ in enumerate(node)]
    for number, added in zip(node, shift, strict=True):
        expected += [i + added * shifted for i in range(start[number], start[number + 1])]
        ptr.append(len(expected))
    # One value belongs to no run.
    values = torch.arange(start[-1] + 1, dtype=torch.int32, device=DEVICE)
    as_int = [
        torch.tensor(numbers, dtype=torch.int32, device=DEVICE) for numbers in (start, node, ptr)
    ]
    with kernels_forced(by_kernels):
        found = copied_runs(
            *(values, *as_int, len(expected) + spare),
            shift=torch.tensor(shift, device=DEVICE) if shifted else None,
            fill=-7,
        )
    assert found.dtype == values.dtype
    assert found.tolist() == expected + [-7] * spare
