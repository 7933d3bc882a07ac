"""Some rows of a matrix."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sagpool.ops.device import kernels_for
from sagpool.ops.propagate import sum_of_rows


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """``x[index]``, for rows that are all different.

    So its gradient is a copy instead of autograd's sum. If an index is repeated, as in fillers, one
    of its gradients is kept, and it is not defined which; those of fillers are not used.

    Args:
        x: ``[rows, channels]``
        index: ``[chosen]`` int64

    Returns:
        ``[chosen, channels]``
    """
    return _TakeRows.apply(x, index)


class _TakeRows(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = len(x)
        return _gather(x, index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        zeros = grads[0].new_zeros(ctx.rows, grads[0].shape[1])
        return zeros.index_copy(0, index, grads[0]), None


def exchange_rows(x: Tensor, partner: Tensor) -> Tensor:
    """``x[partner]``, if the partner of a row's partner is the row itself.

    Args:
        x: ``[rows, channels]``
        partner: ``[rows]`` int64
    """
    return _ExchangeRows.apply(x, partner)


class _ExchangeRows(Function):
    """The gradient goes the same way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, partner: Tensor) -> Tensor:
        ctx.save_for_backward(partner)
        return _gather(x, partner)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (partner,) = ctx.saved_tensors
        return exchange_rows(grads[0], partner), None


def _gather(x: Tensor, index: Tensor) -> Tensor:
    if kernels_for(x) is None:
        return x.index_select(0, index)
    # As a sum over one row each, which is several times as fast as torch's operation.
    one_each = torch.arange(len(index) + 1, dtype=torch.int32, device=x.device)
    return sum_of_rows(x.contiguous(), one_each, index, x.new_ones(len(index)))
