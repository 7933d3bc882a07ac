import os

import pytest
import torch

from sagpool.nn.pool.set2set.attend import (
    RowGradients,
    Segments,
    attend,
    attend_backward,
    attend_backward_rows,
)
from sagpool.ops.device import triton_kernels

DEVICE = os.environ["SAGPOOL_TEST_DEVICE"]
BACKENDS = ["torch"] if triton_kernels() is None else ["torch", "kernels"]
STEPS = 3

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(params=BACKENDS)
def backend(request, use_kernels):
    use_kernels(request.param == "kernels")
    return request.param


def graphs_of(sizes, *, filler=False):
    """Two members, one after the other."""
    sizes = torch.tensor(sizes).view(-1)
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    segment = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return Segments(ptr.to(DEVICE), segment.to(DEVICE), filler)


def random_inputs(segments, channels, dtype=torch.float64):
    """Features, and queries and directions of all steps, as slices of wider tensors."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(len(segments.segment), channels, generator=random)
    shape = (2, STEPS, (len(segments.ptr) - 1) // 2, 2 * channels)
    pair = torch.randn(2, *shape, generator=random).to(DEVICE, dtype)[..., channels:]
    return x.to(DEVICE, dtype), pair[0], pair[1]


def reference(x, query, segments):
    """``[members, graphs, channels]`` for each step, graph by graph."""
    spans = list(zip(segments.ptr[:-1].tolist(), segments.ptr[1:].tolist(), strict=True))
    out = []
    for step in range(STEPS):
        q = query[:, step].flatten(0, 1)
        rows = [(x[a:b] @ q[g]).softmax(0) @ x[a:b] for g, (a, b) in enumerate(spans)]
        out.append(torch.stack(rows).view_as(query[:, step]))
    return torch.stack(out, 1)


def all_steps(x, query, direction, segments):
    """The results, and the gradients of x and of the queries."""
    out, grad_query = torch.empty_like(query), torch.zeros_like(query)
    back = []
    for step in range(STEPS):
        q, r = query[:, step], out[:, step]
        energy, level = attend(x, q, segments, r)
        d, to_query = direction[:, step], grad_query[:, step]
        back.append(attend_backward(x, energy, level, r, d, to_query, segments))
    alpha, slope = map(torch.stack, RowGradients(*zip(*back, strict=True)))
    return out, attend_backward_rows(alpha, slope, query, direction, segments), grad_query


@pytest.mark.parametrize(
    ("channels", "dtype"),
    [
        *((1, torch.float64), (3, torch.float32), (32, torch.float32), (32, torch.float64)),
        *((130, torch.float32), (384, torch.float64)),
    ],
)
def test_equation(channels, dtype):
    segments = graphs_of([[1, 40, 7], [90, 1, 19]])
    x, query, direction = random_inputs(segments, channels, dtype)
    ours = all_steps(x, query, direction, segments)
    x, query = (t.double().requires_grad_() for t in (x, query))
    out = reference(x, query, segments)
    expected = (out.detach(), *torch.autograd.grad((out * direction).sum(), [x, query]))
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    for actual, wanted in zip(ours, expected, strict=True):
        assert actual.dtype == dtype
        torch.testing.assert_close(actual.double(), wanted, rtol=tolerance, atol=tolerance)


def test_a_long_graph():
    segments = graphs_of([[2, 2500], [3, 1]])
    x, query, direction = random_inputs(segments, 4)
    expected = reference(x, query, segments)
    torch.testing.assert_close(all_steps(x, query, direction, segments)[0], expected)


def test_large_energies_do_not_overflow():
    segments = graphs_of([[5, 40], [1, 9]])
    x, query, direction = random_inputs(segments, 3)
    ours = all_steps(1e3 * x, 1e3 * query, direction, segments)
    assert all(t.isfinite().all() for t in ours)
    torch.testing.assert_close(ours[0], reference(1e3 * x, 1e3 * query, segments))


def test_nan_stays_in_its_graph():
    segments = graphs_of([[4, 6], [9, 2]])
    x, query, direction = random_inputs(segments, 5)
    expected = all_steps(x, query, direction, segments)
    x[5, 2] = torch.nan
    actual = all_steps(x, query, direction, segments)
    for now, before in zip(actual, expected, strict=True):
        by_graph = now is not actual[1]
        touched = (0, slice(None), 1) if by_graph else slice(4, 10)
        assert now[touched].isnan().any()
        now, before = now.clone(), before.clone()
        now[touched], before[touched] = 0, 0
        assert torch.equal(now, before)


def test_fillers_do_not_affect_real_graphs():
    """Whatever their content and length; their rows get no gradient."""
    segments = graphs_of([[4, 6, 50], [9, 2, 49]], filler=True)
    x, query, direction = random_inputs(segments, 5)
    direction[:, :, -1] = 0
    out, grad_x, grad_query = all_steps(x, query, direction, segments)
    x, query = x.requires_grad_(), query.requires_grad_()
    expected = reference(x, query, segments)
    torch.testing.assert_close(out[:, :, :-1], expected[:, :, :-1])
    wanted = torch.autograd.grad((expected * direction).sum(), [x, query])
    torch.testing.assert_close((grad_x, grad_query), wanted)


def test_results_are_reproducible_bit_for_bit():
    segments = graphs_of([[30, 6], [9, 2]])
    inputs = random_inputs(segments, 33, torch.float32)
    first, second = (all_steps(*inputs, segments) for _ in range(2))
    assert all(map(torch.equal, first, second))
