import os
import sys

import pytest
import torch

from sagpool.ops import edge_attention
from sagpool.ops.device import triton_kernels

DEVICE = os.environ["SAGPOOL_TEST_DEVICE"]
BACKENDS = ["plain"] if triton_kernels() is None else ["plain", "kernels"]

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch, use_kernels):
    """Both as on a device, where there may be spare entries."""
    use_kernels(request.param == "kernels")
    for name, module in list(sys.modules.items()):
        if name.startswith("sagpool.ops.") and hasattr(module, "on_cpu"):
            monkeypatch.setattr(module, "on_cpu", lambda tensor: False)
    return request.param


def symmetric_matrix(rows, seed=0):
    """Number of entries (i, j): some rows have none, one column is full, one entry is double."""
    random = torch.Generator().manual_seed(seed)
    times = (torch.rand(rows, rows, generator=random) < 3 / rows).int()
    times = times | times.T
    times.fill_diagonal_(1)
    times[:, rows // 2] = times[rows // 2] = 1
    times[0, 1] = times[1, 0] = 2
    times[-3:] = times[:, -3:] = 0
    return times


def csr(times, spare=4):
    row_ptr = torch.nn.functional.pad(times.sum(1).cumsum(0), (1, 0)).int()
    row, col = times.nonzero().T
    col = torch.cat([col.repeat_interleave(times[row, col]), torch.full((spare,), len(times) - 1)])
    return row_ptr.to(DEVICE), col.int().to(DEVICE)


def random_inputs(rows, heads, out, dtype):
    random = torch.Generator().manual_seed(1)
    widths = (heads, heads, heads * out)
    return [torch.randn(rows, width, generator=random).to(DEVICE, dtype) for width in widths]


def reference(to_target, from_source, values, times):
    """Dense, head by head."""
    heads = []
    for t, s, v in zip(
        to_target.T, from_source.T, values.chunk(to_target.shape[1], dim=1), strict=True
    ):
        energy = t[:, None] + s[None]
        weight = times * torch.where(energy > 0, energy, 0.2 * energy).exp()
        heads.append(weight / weight.sum(1, keepdim=True).clamp(min=1e-30) @ v)
    return torch.cat(heads, dim=1)


def run(inputs, matrix, *, symmetric=True):
    """The result and its gradients."""
    inputs = [t.clone().requires_grad_() for t in inputs]
    out = edge_attention(*inputs, *matrix, symmetric=symmetric)
    direction = torch.linspace(-1, 1, out.numel(), device=DEVICE).view_as(out).to(out)
    return out.detach(), *torch.autograd.grad(out, inputs, direction)


@pytest.mark.parametrize(
    ("heads", "out", "dtype"),
    [
        *((1, 1, torch.float32), (6, 1, torch.float64), (2, 70, torch.float32)),
        *((3, 4, torch.float32), (3, 4, torch.float64), (1, 130, torch.float64)),
    ],
)
def test_equation(heads, out, dtype):
    times = symmetric_matrix(19)
    inputs = random_inputs(19, heads, out, dtype)
    ours = run(inputs, csr(times))
    inputs = [t.double().requires_grad_() for t in inputs]
    expected = reference(*inputs, times.to(DEVICE))
    direction = torch.linspace(-1, 1, expected.numel(), device=DEVICE).view_as(expected)
    wanted = torch.autograd.grad(expected, inputs, direction.double())
    tolerance = 1e-5 if dtype == torch.float32 else 1e-6  # the direction is in float32
    for actual, correct in zip(ours, (expected, *wanted), strict=True):
        torch.testing.assert_close(actual.double(), correct, rtol=tolerance, atol=tolerance)
    assert all((t[-3:] == 0).all() for t in ours)  # rows without entries


def test_a_directed_graph():
    times = symmetric_matrix(20)
    times[2, 5:9] += 1
    inputs = [t.requires_grad_() for t in random_inputs(20, 2, 3, torch.float64)]
    actual = edge_attention(*inputs, *csr(times), symmetric=False)
    expected = reference(*inputs, times.to(DEVICE))
    torch.testing.assert_close(actual, expected)
    ours, theirs = (torch.autograd.grad(t.square().sum(), inputs) for t in (actual, expected))
    torch.testing.assert_close(ours, theirs)


def test_large_energies_do_not_overflow():
    times = symmetric_matrix(20)
    inputs = random_inputs(20, 6, 1, torch.float32)
    ours = run([1e4 * inputs[0], 1e4 * inputs[1], inputs[2]], csr(times))
    assert all(t.isfinite().all() for t in ours)


def test_nan_stays_in_its_graph():
    block = symmetric_matrix(12)
    times = torch.block_diag(block, block, block).int()
    inputs = random_inputs(36, 6, 1, torch.float64)
    expected = run(inputs, csr(times))
    for t in inputs:
        t[18] = torch.nan
    actual = run(inputs, csr(times))
    assert actual[0][18].isnan().all()
    for now, before in zip(actual, expected, strict=True):
        torch.testing.assert_close(now[:12], before[:12])
        torch.testing.assert_close(now[24:], before[24:])


@pytest.mark.parametrize(
    "backend", BACKENDS[1:], indirect=True
)  # torch's backward pass uses atomics
def test_results_are_reproducible_bit_for_bit():
    matrix, inputs = csr(symmetric_matrix(50)), random_inputs(50, 6, 1, torch.float32)
    assert all(map(torch.equal, run(inputs, matrix), run(inputs, matrix)))
