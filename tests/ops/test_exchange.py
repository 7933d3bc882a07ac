"""Rows that change places."""

import os

import pytest
import torch

from sagpool.ops import exchange_rows
from sagpool.ops.device import kernels_forced

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])


@pytest.fixture(params=[True, False], ids=["kernels", "torch"], autouse=True)
def by_kernels(request):
    with kernels_forced(request.param):
        yield


@pytest.mark.parametrize("channels", [1, 3, 130])
def test_rows_and_gradients_are_those_of_indexing(channels):
    x = torch.randn(5, channels, device=DEVICE, requires_grad=True)
    partner = torch.tensor([3, 1, 4, 0, 2], device=DEVICE)
    found, expected = exchange_rows(x, partner), x[partner]
    assert torch.equal(found, expected)
    back = torch.randn_like(found)
    (grad,) = torch.autograd.grad(found, x, back)
    assert torch.equal(grad, torch.autograd.grad(expected, x, back)[0])


def test_gradients_have_gradients():
    x = torch.randn(3, 2, device=DEVICE, dtype=torch.float64, requires_grad=True)
    partner = torch.tensor([1, 0, 2], device=DEVICE)
    found = []
    for y in (exchange_rows(x, partner), x[partner]):
        (first,) = torch.autograd.grad((x + y).pow(3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.sum(), x)[0])
    assert torch.allclose(*found)
