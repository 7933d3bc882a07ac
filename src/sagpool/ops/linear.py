"""Products of rows with a weight of each member, and layers made of them."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import is_batched, kernels_for

LEAST_BY_KERNEL = 16  # columns, of both factors
MOST_BESIDE = 8  # columns of a second product that comes with a layer
# The kernel for gradients of weights divides the rows among programs. It is faster than torch.bmm
# if each member has at least this many rows and the gradients of all members have fewer than this
# many numbers. With a single member, torch divides the rows, too.
LEAST_ROWS = 256
MOST_NUMBERS = 2**22


def _kernels_for(x: Tensor, columns: int) -> ModuleType | None:
    """The kernels, if they have products of matrices like these."""
    fits = x.dtype == torch.float32 and columns >= LEAST_BY_KERNEL
    return kernels_for(x) if fits else None


def _kernels_for_gradient(x: Tensor, fan_out: int) -> ModuleType | None:
    """The kernels, if they are faster than torch at ``xᵀ g``, for x of ``[members, rows, in]``."""
    kernels = _kernels_for(x, min(x.shape[2], fan_out))
    if kernels is None:  # while tracing; comparing shapes would make them constants
        return None
    members, rows, fan_in = x.shape
    faster = members > 1 and rows >= LEAST_ROWS and members * fan_in * fan_out < MOST_NUMBERS
    return kernels if faster else None


def product(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``x W + b`` of each member, not differentiable.

    Args:
        x: ``[members, rows, in]``
        weight: W, ``[members, in, out]`` with any strides
        bias: b, ``[members, 1, out]``, if any
        out: ``[members, rows, out]``, a buffer for the result, if given; the rows of a member are
            contiguous
    """
    if (kernels := _kernels_for(x, min(weight.shape[1:]))) is not None:
        return kernels.linear(x, weight, bias, out=out)[0]
    if bias is None:
        return torch.bmm(x, weight, out=out)
    return torch.baddbmm(bias, x, weight, out=out)


def add_product(out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Add ``x W`` of each member to ``out``, in place, not differentiable; returns ``out``.

    Args:
        out: ``[members, rows, out]``; the rows of a member are contiguous
        x: ``[members, rows, in]``
        weight: W, ``[members, in, out]`` with any strides
    """
    if (kernels := _kernels_for(x, min(weight.shape[1:]))) is not None:
        return kernels.linear(x, weight, out=out, add=True)[0]
    return out.baddbmm_(x, weight)


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """``xᵀ g`` of each member, as exactly as torch.set_float32_matmul_precision asks for.

    torch treats "medium" like "high" (tf32), so the bf16 product is done here.

    Args:
        x: ``[members, rows, in]``
        grad: g, ``[members, rows, out]``
    """
    if torch.is_grad_enabled():  # the result has a gradient itself
        return torch.bmm(x.transpose(1, 2), grad)
    kernels = _kernels_for_gradient(x, grad.shape[2])
    if kernels is not None and not is_batched(grad):
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
    members, fan_in, fan_out = weight.shape
    kernels = _kernels_for_gradient(x.view(members, -1, fan_in), fan_out)
    if kernels is None or (not x.is_meta and torch.is_autocast_enabled(x.device.type)):
        return _linear(x, weight, bias)
    return _Linear.apply(x, weight, bias)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    members, fan_in, fan_out = weight.shape
    rows = x.view(members, -1, fan_in)
    y = torch.bmm(rows, weight) if bias is None else torch.baddbmm(bias, rows, weight)
    return y.view(-1, fan_out)


class _Linear(Function):
    """A layer by kernels: torch sums the gradient of a weight in too few threads."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)
        members, fan_in, fan_out = weight.shape
        return product(x.view(members, -1, fan_in), weight, bias).view(-1, fan_out)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        (x, weight), (of_x, of_weight, of_bias) = ctx.saved_tensors, tangents
        out = torch.zeros_like(_linear(x, weight, None))
        if of_x is not None:
            out = out + _linear(of_x, weight, None)
        if of_weight is not None:
            out = out + _linear(x, of_weight, None)
        if of_bias is not None:
            out = (out.view(len(weight), -1, weight.shape[2]) + of_bias).view_as(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        members, fan_in, fan_out = weight.shape
        grad = grads[0].contiguous().view(members, -1, fan_out)
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            # If this pass has a gradient itself, by an operation that has one.
            multiply = torch.bmm if torch.is_grad_enabled() else product
            grad_x = multiply(grad, weight.transpose(1, 2)).view_as(x)
        if ctx.needs_input_grad[1]:
            grad_weight = weight_gradient(x.view(members, -1, fan_in), grad)
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
        if grad_x is None:
            return product(grad_y, back).view_as(x), grad_weight
        total = add_product(grad_x.view(members, -1, fan_in), grad_y, back)
        return total.view_as(x), grad_weight


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
                h, y = kernels.linear(rows, weight, bias, beside, relu=True)
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
