"""The elementwise part of an LSTM cell, after the matrix products.

Not differentiable; `Set2Set` builds on it. Results are written into buffers of the caller.
"""

import torch
from torch import Tensor

from sagpool.nn.pool.set2set.device import kernels_for


def lstm_cell(gates: Tensor, cell: Tensor, new_cell: Tensor, state: Tensor) -> None:
    """``c' = σ(forget) c + σ(in) tanh(new)``, ``h = σ(out) tanh(c')``.

    Args:
        gates: ``[members, graphs, 4 * channels]``: in, forget, new, out
        cell: c, ``[members, graphs, channels]``, contiguous
        new_cell: likewise, the buffer for c'
        state: ``[members, graphs, channels]``, the buffer for h
    """
    if (kernels := kernels_for(gates)) is not None:
        kernels.lstm_cell(gates, cell, new_cell, state)
        return
    keep_in, forget, new, out = gates.chunk(4, dim=2)
    torch.mul(forget.sigmoid(), cell, out=new_cell).add_(keep_in.sigmoid() * new.tanh())
    state.copy_(out.sigmoid() * new_cell.tanh())


def lstm_cell_backward(
    gates: Tensor, cell: Tensor, grad_state: Tensor, grad_cell: Tensor, grad_gates: Tensor
) -> None:
    """The gradients of the gates and of the old cell.

    Args:
        gates: ``[members, graphs, 4 * channels]``, as in the forward pass
        cell: c, ``[members, graphs, channels]``, contiguous
        grad_state: gradient of h, ``[members, graphs, channels]``
        grad_cell: gradient of c', contiguous; overwritten by the gradient of c
        grad_gates: ``[members, graphs, 4 * channels]``, the buffer for the gradient of the gates
    """
    if (kernels := kernels_for(gates)) is not None:
        kernels.lstm_cell_backward(gates, cell, grad_state, grad_cell, grad_gates)
        return
    keep_in, forget, new, out = gates.chunk(4, dim=2)
    keep_in, forget, new, out = keep_in.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()
    c = (forget * cell + keep_in * new).tanh()
    grad_cell += grad_state * out * (1 - c * c)
    to_in, to_forget, to_new, to_out = grad_gates.chunk(4, dim=2)
    to_in.copy_(grad_cell * new * keep_in * (1 - keep_in))
    to_forget.copy_(grad_cell * cell * forget * (1 - forget))
    to_new.copy_(grad_cell * keep_in * (1 - new * new))
    to_out.copy_(grad_state * c * out * (1 - out))
    grad_cell *= forget
