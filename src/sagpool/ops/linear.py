"""Products of rows with a weight of each member, and layers made of them."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import kernels_for

LEAST_BY_KERNEL = 16  # columns, of both factors
# Where torch is too slow at gradients of weights, because it does not divide the rows.
LEAST_ROWS = 256  # of each member
MOST_NUMBERS = 2**21  # of the gradients of all members
MOST_BESIDE = 8  # columns of a second product that comes with a layer


def _kernels_for(x: Tensor, columns: int) -> ModuleType | None:
    """The kernels, if they have products of matrices like these."""
    fits = x.dtype == torch.float32 and columns >= LEAST_BY_KERNEL
    return kernels_for(x) if fits else None


def product(x: Tensor, weight: Tensor, into: Tensor | None = None) -> Tensor:
    """``x W`` of each member, not differentiable.

    Args:
        x: ``[members, rows, in]``
        weight: ``[members, in, out]`` with any strides
        into: ``[members, rows, out]``, a buffer to add the product to, if given
    """
    if (kernels := _kernels_for(x, min(weight.shape[1:]))) is not None:
        return kernels.linear(x, weight, into=into)[0]
    return torch.bmm(x, weight) if into is None else into.baddbmm_(x, weight)


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """``xᵀ g`` of each member, as exactly as torch.set_float32_matmul_precision asks for.

    torch treats "medium" like "high" (tf32), so the bf16 product is done here.

    Args:
        x: ``[members, rows, in]``
        grad: g, ``[members, rows, out]``
    """
    (members, rows, fan_in), fan_out = x.shape, grad.shape[2]
    kernels = _kernels_for(x, min(fan_in, fan_out))
    numbers = members * fan_in * fan_out
    if kernels is not None and members > 1 and rows >= LEAST_ROWS and numbers < MOST_NUMBERS:
        return kernels.weight_gradient(x, grad)
    x = x.transpose(1, 2)
    medium = torch.get_float32_matmul_precision() == "medium"
    if medium and x.is_cuda and x.dtype == torch.float32:
        return torch.bmm(x.bfloat16(), grad.bfloat16(), out_dtype=torch.float32)
    return torch.bmm(x, grad)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x W + b`` of each member.

    Args:
        x: ``[members * rows, in]``
        weight: ``[members, in, out]``
        bias: ``[members, 1, out]``, if any

    Returns:
        ``[members * rows, out]``
    """
    kernels = _kernels_for(x, min(weight.shape[1:]))
    if kernels is not None and len(x) >= LEAST_ROWS * len(weight):
        return _Linear.apply(x, weight, bias)
    return _linear(x, weight, bias)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    members, fan_in, fan_out = weight.shape
    rows = x.view(members, -1, fan_in)
    y = torch.bmm(rows, weight) if bias is None else torch.baddbmm(bias, rows, weight)
    return y.view(-1, fan_out)


class _Linear(Function):
    """Its backward pass is by kernels: torch sums the gradient of a weight in too few threads."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        members, fan_in, fan_out = weight.shape
        rows, grad = x.view(members, -1, fan_in), grads[0].contiguous().view(members, -1, fan_out)
        back = weight.transpose(1, 2)
        # If this pass has a gradient itself, by operations that have one.
        differentiable = torch.is_grad_enabled()
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = (torch.bmm if differentiable else product)(grad, back).view_as(x)
        if ctx.needs_input_grad[1]:
            transposed = rows.transpose(1, 2)
            grad_weight = (
                torch.bmm(transposed, grad) if differentiable else weight_gradient(rows, grad)
            )
        if ctx.needs_input_grad[2]:
            grad_bias = grad.sum(1, keepdim=True)
        return grad_x, grad_weight, grad_bias


def matmul_with_passthrough(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """``x W``, and x itself for pooling.

    The gradients of both are added up in place. By itself a score of one channel would send back
    a second matrix as large as x, and to fill new memory takes longer than to compute it.

    Args:
        x: ``[members * rows, in]``
        weight: ``[members, in, out]``

    Returns:
        ``[members * rows, out]``, and x, which must have exactly one consumer: its gradient
        buffer is reused
    """
    return _MatmulWithPassthrough.apply(x, weight)


class _MatmulWithPassthrough(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, weight)
        ctx.set_materialize_grads(False)
        members, fan_in, fan_out = weight.shape
        y = product(x.view(members, -1, fan_in), weight)
        return y.view(-1, fan_out), x.view_as(x)

    @staticmethod
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
        if torch.is_grad_enabled():  # this pass has a gradient itself, so no buffer is reused
            both = torch.bmm(grad_y, back).view_as(x)
            return both if grad_x is None else both + grad_x, grad_weight
        into = None if grad_x is None else grad_x.view(members, -1, fan_in)
        return product(grad_y, back, into).view_as(x), grad_weight


@dataclass(frozen=True, eq=False)
class LabelSums:
    """``D̃^-1/2 Ã D̃^-1/2 x`` for one-hot rows x, of which there are only the labels.

    Where there are kernels, its product with a weight is a walk along the rows of the weight.

    Args:
        row_ptr: ``[rows + 1]`` int32, of Ã
        col: ``[entries]`` int32, of Ã
        label: ``[rows]`` int32, the column of the one in each row of x; -1 for none
        dense: makes the whole of it, ``[rows, labels]``
    """

    row_ptr: Tensor
    col: Tensor
    label: Tensor
    dense: Callable[[], Tensor]


def dense_relu(
    x: Tensor | LabelSums, weight: Tensor, bias: Tensor, beside: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """``h = relu(x W + b)``, and ``h v`` for a narrow weight v.

    Args:
        x: ``[members * rows, in]``, or what stands for it where there are kernels
        weight: ``[members, in, out]``
        bias: ``[members, 1, out]``
        beside: v, ``[members, out, scores]``, if wanted; ignored if it has many columns

    Returns:
        ``[members * rows, out]``, and ``[members * rows, scores]`` or None
    """
    if beside is None or beside.shape[2] > MOST_BESIDE:
        return _DenseRelu.apply(x, weight, bias, None)[0], None
    return _DenseRelu.apply(x, weight, bias, beside)


class _DenseRelu(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor | LabelSums, weight: Tensor, bias: Tensor, beside: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        members, fan_in, fan_out = weight.shape
        kernels, y, rows = kernels_for(weight), None, None
        if isinstance(x, LabelSums):
            assert kernels is not None
            h, y = kernels.label_relu(x.row_ptr, x.col, x.label, weight, bias, beside)
            ctx.sums = x
        else:
            rows = x.view(members, -1, fan_in)
            if kernels is not None and x.dtype == torch.float32:
                h, y = kernels.linear(rows, weight, bias, beside)
            else:
                h = torch.baddbmm(bias, rows, weight).relu_()
                if beside is not None:
                    y = torch.bmm(h, beside).view(-1, beside.shape[2])
        ctx.save_for_backward(rows, weight, beside, h)
        return h.view(-1, fan_out), y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, weight, beside, h = ctx.saved_tensors
        if x is None:
            x = ctx.sums.dense().view(*h.shape[:2], -1)
        grad_h = None if grads[0] is None else grads[0].contiguous().view_as(h)
        grad_y = None if grads[1] is None else grads[1].contiguous().view(*h.shape[:2], -1)
        if grad_h is None and grad_y is None:
            return None, None, None, None
        grad_x = grad_beside = grad_weight = None
        if (kernels := kernels_for(x)) is not None:
            back = ctx.needs_input_grad[0]
            together = kernels.sums_weight_gradient(x, h.shape[2], product=back)
            grad, grad_bias, grad_beside, grad_weight = kernels.bias_relu_backward(
                *(grad_h, grad_y, h, beside, x if together else None), product=back or not together
            )
        else:
            grad = grad_h
            if grad_y is not None:
                grad_beside = torch.bmm(h.transpose(1, 2), grad_y)
                back = beside.transpose(1, 2)  # [members, scores, out]
                # Into a buffer of our own: grad_h may be the gradient of other results too.
                grad = torch.bmm(grad_y, back) if grad is None else grad.baddbmm(grad_y, back)
                torch.ops.aten.threshold_backward.grad_input(grad, h, 0, grad_input=grad)
            else:
                grad = torch.ops.aten.threshold_backward(grad, h, 0)
            grad_bias = grad.sum(1, keepdim=True)
        if ctx.needs_input_grad[0]:
            grad_x = product(grad, weight.transpose(1, 2)).flatten(0, 1)
        if grad_weight is None:
            grad_weight = weight_gradient(x, grad)
        return grad_x, grad_weight, grad_bias, grad_beside
