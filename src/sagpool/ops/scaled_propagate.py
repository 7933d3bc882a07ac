"""Sums over neighbours with a factor for each row, which may have a gradient."""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sagpool.ops.device import kernels_for
from sagpool.ops.propagate import propagate


def scaled_propagate(
    x: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    of_row: Tensor | None = None,
    of_source: Tensor | None = None,
    *,
    with_self: bool,
    symmetric: bool,
) -> Tensor:
    """``y = diag(r) Ã diag(c) x`` for a matrix Ã that has a 1 at each entry, or A = Ã - I for Ã.

    Args:
        x: ``[rows, channels]``
        row_ptr: ``[rows + 1]`` int32, of Ã, in which every row (that has entries) has itself
        col: ``[entries]`` int32, of Ã
        of_row: r, ``[rows]``, none of them 0; ones if not given
        of_source: c, ``[rows]``, none of them 0; ones if not given
        with_self: whether it is Ã
        symmetric: whether Ã equals its transpose

    Returns:
        ``[rows, channels]``; of a row without entries 0, but without kernels -r c x for A
    """
    if symmetric and (kernels := kernels_for(x)) is not None:
        return _ScaledPropagate.apply(x, of_row, of_source, row_ptr, col, with_self, kernels)
    scaled = x if of_source is None else of_source[:, None] * x
    sums = propagate(scaled, row_ptr, col, symmetric=symmetric)
    sums = sums if with_self else sums - scaled
    return sums if of_row is None else of_row[:, None] * sums


class _ScaledPropagate(Function):
    """For a symmetric matrix: in the backward pass r and c change places."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        of_row: Tensor | None,
        of_source: Tensor | None,
        row_ptr: Tensor,
        col: Tensor,
        with_self: bool,
        kernels: ModuleType,
    ) -> Tensor:
        ctx.kernels, ctx.with_self = kernels, with_self
        out: Tensor = kernels.scaled_sum(x, row_ptr, col, of_row, of_source, with_self=with_self)
        ctx.of_factors = any(ctx.needs_input_grad[1:3])
        beside = (x, out) if ctx.of_factors else (None, None)
        ctx.save_for_backward(*beside, of_row, of_source, row_ptr, col)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, out, of_row, of_source, row_ptr, col = ctx.saved_tensors
        (grad,), kernels, with_self = grads, ctx.kernels, ctx.with_self
        grad_row = grad_source = None
        if torch.is_grad_enabled():  # this pass has a gradient itself
            swapped = of_source, of_row, row_ptr, col
            grad_x = _ScaledPropagate.apply(grad, *swapped, with_self, kernels)
            if ctx.needs_input_grad[1]:
                grad_row = (grad * out).sum(1) / of_row
            if ctx.needs_input_grad[2]:
                grad_source = (grad_x * x).sum(1) / of_source
        elif ctx.of_factors:
            grad_x, grad_row, grad_source = kernels.scaled_sum_backward(
                grad, x, out, row_ptr, col, of_row, of_source, with_self=with_self
            )
        else:
            grad_x = kernels.scaled_sum(grad, row_ptr, col, of_source, of_row, with_self=with_self)
        return grad_x, grad_row, grad_source, None, None, None, None
