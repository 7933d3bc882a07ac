"""Products of rows with a weight of each member."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import kernels_for

LEAST_BY_KERNEL = 16  # columns, of both factors


def product(x: Tensor, weight: Tensor, into: Tensor | None = None) -> Tensor:
    """``x W`` of each member, not differentiable.

    Args:
        x: ``[members, rows, in]``
        weight: ``[members, in, out]`` with any strides
        into: ``[members, rows, out]``, what it is added to in place, if given
    """
    kernels = kernels_for(x)
    wide = min(weight.shape[1:]) >= LEAST_BY_KERNEL
    if kernels is not None and wide and x.dtype == torch.float32:
        return kernels.linear(x, weight, into=into)[0]
    return torch.bmm(x, weight) if into is None else into.baddbmm_(x, weight)


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """``xᵀ g`` of each member, as exactly as torch.set_float32_matmul_precision asks for.

    torch itself takes tf32 for "high"; "medium" it takes for the same, so bf16 is made here.

    Args:
        x: ``[members, rows, in]``
        grad: g, ``[members, rows, out]``
    """
    x = x.transpose(1, 2)
    medium = torch.get_float32_matmul_precision() == "medium"
    if medium and x.is_cuda and x.dtype == torch.float32:
        return torch.bmm(x.bfloat16(), grad.bfloat16(), out_dtype=torch.float32)
    return torch.bmm(x, grad)


def matmul_with_passthrough(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """``x W``, and x itself for pooling.

    The gradients of both are added up in place. By itself a score of one channel would send back
    a second matrix as large as x, and to fill new memory takes longer than to compute it.

    Args:
        x: ``[members * rows, in]``
        weight: ``[members, in, out]``

    Returns:
        ``[members * rows, out]``, and x, which must go to a single place that sends back a
        gradient of its own making, as `gather_gated`, `coarsen` and this function do
    """
    return _ProductBeside.apply(x, weight)


class _ProductBeside(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, weight)
        ctx.set_materialize_grads(False)
        members, fan_in, fan_out = weight.shape
        y = product(x.view(members, -1, fan_in), weight)
        return y.view(-1, fan_out), x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad_y, grad_x = grads
        if grad_y is None:
            return grad_x, None
        members, fan_in, fan_out = weight.shape
        grad_y = grad_y.contiguous().view(members, -1, fan_out)
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = weight_gradient(x.view(members, -1, fan_in), grad_y)
        if not ctx.needs_input_grad[0]:
            return None, grad_weight
        back = weight.transpose(1, 2)  # [members, out, in]
        into = None if grad_x is None else grad_x.view(members, -1, fan_in)
        return product(grad_y, back, into).view_as(x), grad_weight
