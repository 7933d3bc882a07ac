"""Sums over neighbours: the product of a sparse CSR matrix with the node features."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import kernels_for, on_cpu
from sagpool.ops.ragged import edge_rows, without_spare


def csr_matrix(row_ptr: Tensor, col: Tensor, values: Tensor, columns: int) -> Tensor:
    """A sparse matrix of ``len(row_ptr) - 1`` rows; the indices are not checked."""
    size = (len(row_ptr) - 1, columns)
    return torch.sparse_csr_tensor(row_ptr, col, values, size, check_invariants=False)


# torch warns once per process, at the first such matrix.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    csr_matrix(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), 1)


_SPARE_BAG = 32
_BLOCK = 4096


def propagate(
    x: Tensor, row_ptr: Tensor, col: Tensor, weight: Tensor | None = None, *, symmetric: bool
) -> Tensor:
    """``y[i]`` = the sum over the entries e of row i of ``weight[e] * x[col[e]]``.

    The backward pass of a symmetric matrix uses the matrix itself, and stores no messages of edges.
    Directed graphs and gradients of weights need the messages in the backward pass.

    Args:
        x: ``[rows, channels]``
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32; entries past ``row_ptr[-1]`` belong to no row
        weight: ``[entries]``; ones if not given
        symmetric: whether the matrix equals its transpose, weights included

    Returns:
        ``[rows, channels]``
    """
    if weight is None:
        weight = x.new_ones(len(col))
    return _Propagate.apply(x, weight, row_ptr, col, symmetric)


def gcn_propagate(
    x: Tensor, row_ptr: Tensor, col: Tensor, weight: Callable[[], Tensor], *, symmetric: bool
) -> Tensor:
    """``D̃^-1/2 Ã D̃^-1/2 x`` for a matrix Ã that has a 1 at each entry.

    Args:
        x: ``[rows, channels]``
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32
        weight: returns the entries of the product of the three matrices, ``[entries]``; not called
            if a kernel computes them
        symmetric: whether Ã equals its transpose
    """
    if symmetric and kernels_for(x) is not None:
        return _GCN.apply(x, row_ptr, col)
    return propagate(x, row_ptr, col, weight(), symmetric=symmetric)


class _GCN(Function):
    """For a symmetric matrix, whose backward pass equals the forward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, row_ptr: Tensor, col: Tensor) -> Tensor:
        ctx.kernels = kernels_for(x)
        ctx.save_for_backward(row_ptr, col)
        return ctx.kernels.gcn_of_rows(x, row_ptr, col)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.kernels.gcn_of_rows(grads[0], *ctx.saved_tensors), None, None


def gcn_score_and_gate(
    x: Tensor, row_ptr: Tensor, col: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """``s = D̃^-1/2 Ã D̃^-1/2 x + b`` and ``tanh(s)``, ``[rows]`` each, by kernels.

    Args:
        x: ``[rows, 1]``
        row_ptr: ``[rows + 1]`` int32, of Ã, which is symmetric and has a 1 at each entry
        col: ``[entries]`` int32, of Ã
        bias: ``[members, 1, 1]``
    """
    return _GCNScoreAndGate.apply(x, row_ptr, col, bias)


class _GCNScoreAndGate(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, row_ptr: Tensor, col: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.kernels, ctx.bias_shape = kernels_for(x), bias.shape
        score = ctx.kernels.gcn_score(x.contiguous().view(-1), row_ptr, col, bias)
        gate = score.tanh()
        ctx.save_for_backward(gate, row_ptr, col)
        return score, gate

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(grad is None for grad in grads):
            return None, None, None, None
        grads = tuple(None if grad is None else grad.contiguous() for grad in grads)
        grad_x, whole = ctx.kernels.gcn_score_backward(*grads, *ctx.saved_tensors)
        grad_bias = whole.view(ctx.bias_shape[0], -1).sum(1)
        return grad_x[:, None], None, None, grad_bias.view(ctx.bias_shape)


class _Propagate(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, row_ptr: Tensor, col: Tensor, symmetric: bool
    ) -> Tensor:
        ctx.symmetric = symmetric
        # The gradient of the weights needs x; the gradient of x does not.
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight, row_ptr, col)
        return sum_of_rows(x, row_ptr, col, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight, row_ptr, col = ctx.saved_tensors
        grad_x = grad_weight = None
        # If this pass has a gradient itself, by operations that have one.
        if ctx.needs_input_grad[0] and ctx.symmetric and not torch.is_grad_enabled():
            grad_x = sum_of_rows(grad.contiguous(), row_ptr, col, weight)
        elif ctx.needs_input_grad[0]:
            messages = without_spare(weight, row_ptr)[:, None] * grad[edge_rows(row_ptr, col)]
            grad_x = torch.zeros_like(grad).index_add_(0, col, messages)
        if ctx.needs_input_grad[1]:
            of_row = grad.index_select(0, edge_rows(row_ptr, col))
            if torch.is_grad_enabled():
                grad_weight = (of_row * x.index_select(0, col)).sum(1)
            else:
                grad_weight = dots_of_rows(x, col, of_row)
            grad_weight = without_spare(grad_weight, row_ptr)
        return grad_x, grad_weight, None, None, None


def sum_of_rows(x: Tensor, row_ptr: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """``out[i]`` = the weighted sum of the rows ``index[row_ptr[i]:row_ptr[i + 1]]`` of x.

    Not differentiable; other operators build on it.
    """
    if (kernels := kernels_for(x)) is not None:
        return kernels.sum_of_rows(x, row_ptr, index, weight)
    if x.shape[1] == 1 and on_cpu(x):
        # For one column the sparse matrix-vector product is faster.
        return csr_matrix(row_ptr, index, weight, len(x)) @ x
    # embedding_bag sums CSR rows without storing messages: three times as fast as the sparse matrix
    # product on the CPU, and without atomics on CUDA.
    rows = len(row_ptr) - 1
    if not on_cpu(x):
        # The last bag takes all remaining entries, and one thread sums a bag: so the entries that
        # belong to no row get their own short bags.
        step = torch.arange(1, -(-len(index) // _SPARE_BAG) + 1, device=x.device)
        spare = torch.clamp(row_ptr[-1] + _SPARE_BAG * step, max=len(index))
        row_ptr = torch.cat([row_ptr, spare.to(row_ptr.dtype)])
    out = torch.embedding_bag(
        x, index, row_ptr, mode=0, per_sample_weights=weight, include_last_offset=True
    )[0]
    # No needless view: autograd does not accumulate in place into views.
    return out if len(out) == rows else out[:rows]


def dots_of_rows(x: Tensor, rows: Tensor, y: Tensor) -> Tensor:
    """The dot product of row ``rows[i]`` of x with row i of y, ``[chosen]``; not differentiable."""
    if (kernels := kernels_for(x)) is not None:
        return kernels.dots_of_rows(x, rows, y)
    if len(rows) <= _BLOCK:
        return x.index_select(0, rows).mul_(y).sum(1)
    # Block by block, so that intermediate results stay in the cache.
    blocks = zip(rows.split(_BLOCK), y.split(_BLOCK), strict=True)
    return torch.cat([x.index_select(0, chosen).mul_(part).sum(1) for chosen, part in blocks])
