import os

import pytest
import torch

from sagpool.nn.pool.set2set.lstm import lstm_cell, lstm_cell_backward
from sagpool.ops.device import triton_kernels

DEVICE = os.environ["SAGPOOL_TEST_DEVICE"]
BACKENDS = ["torch"] if triton_kernels() is None else ["torch", "kernels"]


@pytest.fixture(params=BACKENDS, autouse=True)
def backend(request, use_kernels):
    use_kernels(request.param == "kernels")


def reference(gates, cell):
    """The state and the new cell from torch's LSTM cell with the gates as its input."""
    channels = cell.shape[-1]
    lstm = torch.nn.LSTMCell(4 * channels, channels, bias=False, device=DEVICE, dtype=cell.dtype)
    with torch.no_grad():
        lstm.weight_ih.copy_(torch.eye(4 * channels))
        lstm.weight_hh.zero_()
    old = (torch.zeros_like(cell).view(-1, channels), cell.view(-1, channels))
    state, new = lstm(gates.reshape(-1, 4 * channels), old)
    return state.view_as(cell), new.view_as(cell)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 3, 32, 130])
def test_equation(channels, dtype):
    random = torch.Generator().manual_seed(0)

    def values(*shape):
        return (3 * torch.randn(*shape, generator=random)).to(DEVICE, dtype)

    # Slices of larger buffers, as in Set2Set.
    gates = values(2, 3, 7, 4 * channels)[:, 1]
    cell, of_cell = values(2, 7, channels), values(2, 7, channels)
    of_state = values(2, 7, 2 * channels)[..., channels:]
    new, state = torch.empty_like(cell), torch.empty(2, 7, 2 * channels).to(cell)[..., :channels]
    lstm_cell(gates, cell, new, state)
    grad_cell, grad_gates = of_cell.clone(), torch.empty(2, 3, 7, 4 * channels).to(cell)[:, 1]
    lstm_cell_backward(gates, cell, of_state, grad_cell, grad_gates)

    inputs = [gates.double().requires_grad_(), cell.double().requires_grad_()]
    outputs = reference(*inputs)
    wanted = torch.autograd.grad(outputs, inputs, [of_state.double(), of_cell.double()])
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    ours = (state, new, grad_gates, grad_cell)
    for actual, expected in zip(ours, (*outputs, *wanted), strict=True):
        torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


def test_saturated_gates():
    gates = torch.tensor([[[-80.0, 80.0, -80.0, 80.0]]], device=DEVICE)  # in, forget, new, out
    cell, new, state = (torch.full((1, 1, 1), v, device=DEVICE) for v in (0.5, 0.0, 0.0))
    lstm_cell(gates, cell, new, state)
    assert new.item() == 0.5
    torch.testing.assert_close(state, torch.tanh(cell))
    grad_cell, grad_gates = torch.ones_like(cell), torch.empty_like(gates)
    lstm_cell_backward(gates, cell, torch.ones_like(state), grad_cell, grad_gates)
    assert (grad_gates.abs() < 1e-30).all()
    torch.testing.assert_close(grad_cell, 2 - torch.tanh(cell) ** 2)
