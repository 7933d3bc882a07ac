"""Maxima over the entries of rows, and sums over long runs of rows, by kernels."""

import os

import pytest
import torch

from sagpool.ops import entries_max, segment_expand, segment_max, segment_mean, segment_sum
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)


@pytest.mark.parametrize("channels", [1, 3, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_maximum_over_entries(channels, dtype, sparse, same_by_kernels):
    """With empty rows, and with spare entries."""
    matrix = sparse(40, 60, spare=9)
    assert (matrix.row_ptr.diff() == 0).any()
    row_ptr, col = matrix.row_ptr.to(DEVICE), matrix.col.to(DEVICE)
    x = torch.randn(40, channels, dtype=dtype, device=DEVICE)
    same_by_kernels(lambda x: entries_max(x, row_ptr, col), [x])


def test_spare_entries_are_no_part_of_a_maximum(sparse, by_kernels):
    matrix = sparse(40, 120, spare=50)
    row_ptr, col = matrix.row_ptr.to(DEVICE), matrix.col.to(DEVICE)
    x = torch.randn(40, 3, device=DEVICE)
    by_kernels()
    expected = entries_max(x, row_ptr, col[:120])
    assert torch.equal(entries_max(x, row_ptr, col), expected)


def test_a_maximum_over_entries_passes_nan_on(by_kernels):
    row_ptr = torch.tensor([0, 2, 3, 3], dtype=torch.int32, device=DEVICE)
    col = torch.tensor([0, 1, 1], dtype=torch.int32, device=DEVICE)
    x = torch.tensor([[torch.nan, 2.0], [1.0, 5.0]], device=DEVICE)
    by_kernels()
    found = entries_max(x, row_ptr, col)
    assert found[0, 0].isnan()
    assert found[1:].tolist() == [[1, 5], [0, 0]]
    assert found[0, 1] == 5


@pytest.mark.parametrize("channels", [1, 3, 130])
@pytest.mark.parametrize("reduce", [segment_sum, segment_mean, segment_max])
def test_long_runs(reduce, channels, same_by_kernels):
    sizes = torch.tensor([1, 30, 600, 2, 17], device=DEVICE)
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    segment = torch.arange(5, device=DEVICE).repeat_interleave(sizes)
    x = torch.randn(int(sizes.sum()), channels, device=DEVICE)
    same_by_kernels(lambda x: reduce(x, ptr, segment), [x], atol=1e-4)
    values = torch.randn(5, channels, device=DEVICE)
    same_by_kernels(lambda values: segment_expand(values, ptr, segment), [values], atol=1e-4)


def test_rows_past_the_last_run_get_no_gradient(by_kernels):
    by_kernels()
    x = torch.randn(60, 3, device=DEVICE, requires_grad=True)
    for ptr in ([0, 20, 50], [0, 2, 3, 3, 5, 6, 7, 8, 9, 10]):
        ptr = torch.tensor(ptr, device=DEVICE)
        segment = torch.zeros(60, dtype=torch.int64, device=DEVICE)
        (grad,) = torch.autograd.grad(segment_max(x, ptr, segment).sum(), x)
        assert grad.sum() == 3 * (ptr.diff() > 0).sum()
        assert not grad[ptr[-1] :].any()


@pytest.mark.filterwarnings("ignore:invalid value")  # their sum is NaN
def test_infinities_of_both_signs_have_a_maximum(by_kernels):
    by_kernels()
    x = torch.tensor([[torch.inf], [-torch.inf], *[[0.0]] * 14], device=DEVICE)
    ptr = torch.tensor([0, 16], device=DEVICE)
    assert segment_max(x, ptr, torch.zeros(16, dtype=torch.int64, device=DEVICE)) == torch.inf


@pytest.mark.parametrize("reduce", [segment_sum, segment_mean, segment_max])
def test_no_channels(reduce, by_kernels):
    by_kernels()
    x, ptr = torch.randn(100, 0, device=DEVICE), torch.tensor([0, 60, 100], device=DEVICE)
    segment = torch.arange(2, device=DEVICE).repeat_interleave(ptr.diff())
    assert reduce(x, ptr, segment).shape == (2, 0)
    col = torch.arange(100, dtype=torch.int32, device=DEVICE)
    assert entries_max(x, ptr.int(), col).shape == (2, 0)
