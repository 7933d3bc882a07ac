"""The link loss ``‖A - S Sᵀ‖ / N²`` of each graph, from ``‖A‖² - 2 tr(Sᵀ A S) + ‖Sᵀ S‖²``."""

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.nn.pool.clusters.device import kernels_for

# Rounding can make the square negative, and sqrt has infinite slope at 0.
MIN_SQUARE = 1e-12


def link_loss(
    norm: Tensor, trace: Tensor, gram_norm: Tensor, squared_nodes: Tensor | int
) -> Tensor:
    """The loss by torch; arguments as in `link_loss_by_kernels`, and ``squared_nodes`` for N²."""
    squared = norm - 2 * trace + gram_norm
    return squared.clamp(min=MIN_SQUARE).sqrt() / squared_nodes


def link_loss_by_kernels(
    norm: Tensor | None, trace: Tensor, gram_norm: Tensor, ptr: Tensor, row_ptr: Tensor
) -> Tensor:
    """The loss by one kernel.

    Args:
        norm: ``‖A‖²``, ``[graphs]``; None at the first level, where it is the number of entries
        trace: ``[graphs]``
        gram_norm: ``[graphs]``
        ptr: ``[graphs + 1]``, the first row of each graph, and the end
        row_ptr: ``[rows of the first level + 1]``, of A + I
    """
    return _LinkLoss.apply(norm, trace, gram_norm, ptr, row_ptr)


class _LinkLoss(Function):
    @staticmethod
    def forward(
        ctx: Any,
        norm: Tensor | None,
        trace: Tensor,
        gram_norm: Tensor,
        ptr: Tensor,
        row_ptr: Tensor,
    ) -> Tensor:
        ctx.kernels = kernels_for(trace)
        loss, square = ctx.kernels.link_loss(norm, trace, gram_norm, ptr, row_ptr, MIN_SQUARE)
        ctx.save_for_backward(square, ptr)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_norm, grad_trace = ctx.kernels.link_loss_backward(
            grads[0].contiguous(), *ctx.saved_tensors, MIN_SQUARE
        )
        return grad_norm if ctx.needs_input_grad[0] else None, grad_trace, grad_norm, None, None
