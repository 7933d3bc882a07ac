"""The Triton kernels, in Triton's interpreter where there is no GPU."""

import sys

import numpy as np
import pytest
import torch

from sagpool.graphs import load, pack
from sagpool.models import Shape, build
from sagpool.ops import gather_gated, keep_rows, propagate, segment_mean_max
from sagpool.ops.device import triton_kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CASES = [()] if triton_kernels() is None else [(1,), (3,), (32,), (130,)]
pytestmark = pytest.mark.parametrize("width", [case[0] for case in CASES if case])


@pytest.fixture
def by_kernels(monkeypatch):
    """Let operators take the kernels' way for every tensor."""

    def switch():
        for name, module in list(sys.modules.items()):
            if name.startswith("sagpool.") and hasattr(module, "kernels_for"):
                monkeypatch.setattr(module, "kernels_for", lambda tensor: triton_kernels())

    return switch


def compare(compute, inputs, switch):
    """Values and gradients, first by torch's operators, then by the kernels."""

    def run():
        leaves = [x.clone().requires_grad_() for x in inputs]
        out = compute(*leaves)
        direction = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out)
        return out.detach(), *torch.autograd.grad((out * direction).sum(), leaves)

    expected = run()
    switch()
    torch.testing.assert_close(run(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_propagate(width, dtype, by_kernels, sparse):
    matrix = sparse(41, 90)
    row_ptr, col = matrix.row_ptr.to(DEVICE), matrix.col.to(DEVICE)
    weight = matrix.weight.to(DEVICE, dtype)
    x = torch.randn(41, width, device=DEVICE, dtype=dtype)
    compare(
        lambda x: propagate(x, row_ptr, col, weight, symmetric=False),
        [x],
        by_kernels,
    )


def test_gather_gated(width, by_kernels):
    mask = torch.arange(50, device=DEVICE) % 3 > 0
    count = int(mask.sum())
    repeats = torch.ones(count, dtype=torch.int64, device=DEVICE)
    kept = keep_rows(mask, count, repeats, count)
    x, gate = torch.randn(50, width, device=DEVICE), torch.randn(count, device=DEVICE)
    compare(lambda x, gate: gather_gated(x, kept, gate), [x, gate], by_kernels)


def test_readout(width, by_kernels):
    sizes = torch.tensor([1, 40, 7, 2, 19], device=DEVICE)
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    graph = torch.repeat_interleave(torch.arange(5, device=DEVICE), sizes)
    x = torch.randn(len(graph), width, device=DEVICE)
    compare(lambda x: segment_mean_max(x, ptr, graph), [x], by_kernels)
    # Rows that do not lie side by side in memory.
    wide = torch.randn(len(graph), width + 2, device=DEVICE)[:, 1:-1]
    expected = torch.stack([part.amax(0) for part in wide.split(sizes.tolist())])
    torch.testing.assert_close(segment_mean_max(wide, ptr, graph)[:, width:], expected)


def test_a_model(width, by_kernels):
    graphs = load("MUTAG").to(DEVICE)
    batch = pack(graphs, np.arange(6).reshape(2, 3))
    shape = Shape(graphs.num_features, 2, hidden=max(width, 2), members=2)
    torch.manual_seed(0)
    model = build("sagpool-h", shape).to(DEVICE).eval()
    expected = model(batch).logits
    by_kernels()
    torch.testing.assert_close(model(batch).logits, expected, rtol=1e-4, atol=1e-5)


def test_nan_is_not_lost(width, by_kernels):
    x = torch.randn(9, width, device=DEVICE)
    x[4, 0] = torch.nan
    by_kernels()
    ptr = torch.tensor([0, 3, 9], device=DEVICE)
    out = segment_mean_max(x, ptr, torch.tensor([0] * 3 + [1] * 6, device=DEVICE))
    assert out[0].isfinite().all()
    assert out[1, 0].isnan()
    assert out[1, width].isnan()
