"""Sums over neighbours with a factor for each row, against dense matrices and by kernels."""

import os

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from sagpool.graphs import pack
from sagpool.ops import scaled_propagate
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
IDS = [[0, 5, -1], [3, 7, 11]]  # -1: no graph, so the filler has rows without entries
TYPES = [(torch.float32, 1e-5), (torch.float64, 1e-12)]


def numbers(*shape, dtype=torch.float64):
    random = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=random, dtype=dtype).to(DEVICE)


def factors(rows, dtype=torch.float64):
    return 0.2 + numbers(rows, dtype=dtype).abs()


@pytest.fixture(scope="module")
def graphs(mutag):
    return pack(mutag, IDS).structure


def scaled(graphs, with_self=True, *, row=True, source=True):
    def compute(x, *own):
        own = list(own)
        of_row = own.pop(0) if row else None
        of_source = own.pop(0) if source else None
        matrix = graphs.row_ptr, graphs.col
        return scaled_propagate(
            x, *matrix, of_row, of_source, with_self=with_self, symmetric=graphs.symmetric
        )

    return compute


@pytest.mark.parametrize("with_self", [True, False])
def test_the_dense_product(graphs, agree, by_kernels, with_self):
    rows = graphs.layout.total_rows
    dense = torch.zeros(rows, rows, dtype=torch.float64, device=DEVICE)
    dense[graphs.entry_row, graphs.col.long()] = 1
    if not with_self:
        dense -= torch.eye(rows, dtype=torch.float64, device=DEVICE)
    x, r, c = (one.requires_grad_() for one in (numbers(rows, 3), factors(rows), factors(rows)))
    found = scaled(graphs, with_self)(x, r, c)
    agree(found, r[:, None] * (dense @ (c[:, None] * x)), [x, r, c])


needs_kernels = pytest.mark.skipif(triton_kernels() is None, reason="there is no Triton here")


@needs_kernels
@pytest.mark.parametrize("channels", [1, 3, 16, 100, 128, 200])
@pytest.mark.parametrize(("dtype", "rtol"), TYPES)
def test_kernels_and_torch_agree(graphs, same_by_kernels, channels, dtype, rtol):
    rows = graphs.layout.total_rows
    own = [factors(rows, dtype), factors(rows + 1, dtype)[1:]]
    same_by_kernels(scaled(graphs), [numbers(rows, channels, dtype=dtype), *own], rtol, rtol)


@needs_kernels
@pytest.mark.parametrize("row", [True, False])
@pytest.mark.parametrize("source", [True, False])
def test_each_factor_may_be_missing(graphs, same_by_kernels, row, source):
    """Without the row itself, which filler rows do not have: torch's path counts it as -1."""
    rows = graphs.layout.total_rows
    has_entries = (graphs.row_ptr.diff() > 0)[:, None]
    compute = scaled(graphs, with_self=False, row=row, source=source)
    own = [factors(rows)] * (row + source)
    same_by_kernels(
        lambda x, *own: torch.where(has_entries, compute(x, *own), 0),
        [torch.where(has_entries, numbers(rows, 16), 0), *own],
    )


@needs_kernels
def test_second_derivatives_by_kernels(graphs, by_kernels):
    by_kernels()
    rows = graphs.layout.total_rows
    inputs = [numbers(rows, 3), factors(rows), factors(rows)]
    inputs = [one.requires_grad_() for one in inputs]
    assert gradcheck(scaled(graphs), inputs, fast_mode=True)
    assert gradgradcheck(scaled(graphs), inputs, fast_mode=True)


@needs_kernels
def test_a_nan_stays_in_its_member(graphs, by_kernels):
    by_kernels()
    rows, half = graphs.layout.total_rows, graphs.layout.rows
    inputs = [numbers(rows, 3), factors(rows), factors(rows)]
    for one in inputs:
        one[half:] = torch.nan
        one.requires_grad_()
    found = scaled(graphs)(*inputs)
    assert found[:half].isfinite().all()
    for grad in torch.autograd.grad(found.sum(), inputs):
        assert grad[:half].isfinite().all()
