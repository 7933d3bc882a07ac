"""Reductions over the entries of each row of a CSR matrix, such as the nodes of a cluster."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import kernels_for, on_cpu
from sagpool.ops.propagate import csr_matrix, sum_of_rows
from sagpool.ops.ragged import edge_rows
from sagpool.ops.segment import spread_to_rows


def entries_max(x: Tensor, row_ptr: Tensor, col: Tensor) -> Tensor:
    """``out[i]`` = the maximum of ``x[col[e]]`` over the entries e of row i; 0 if it has none.

    If several rows have the maximum, one of them gets its gradient.

    Args:
        x: ``[columns, channels]``
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32; entries past ``row_ptr[-1]`` belong to no row

    Returns:
        ``[rows, channels]``
    """
    if kernels_for(x) is not None:
        return _EntriesMax.apply(x, row_ptr, col)
    if on_cpu(x):
        col = col[: int(row_ptr[-1])]
        entries = csr_matrix(row_ptr, col, x.new_ones(len(col)), len(x))
        return torch.sparse.mm(entries, x, "amax")
    rows = len(row_ptr) - 1
    # Spare entries go to a row that is cut off.
    inside = torch.arange(len(col), device=col.device) < row_ptr[-1]
    row = torch.where(inside, edge_rows(row_ptr, col), rows)
    lowest = x.new_full((rows + 1, x.shape[1]), -torch.inf)
    sent = x.index_select(0, col)
    largest = lowest.scatter_reduce(0, row[:, None].expand_as(sent), sent, "amax")[:rows]
    return torch.where((row_ptr.diff() > 0)[:, None], largest, 0)


class _EntriesMax(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, row_ptr: Tensor, col: Tensor) -> Tensor:
        kernels = kernels_for(x)
        assert kernels is not None
        out, arg = kernels.max_of_rows(x, row_ptr, col)
        ctx.save_for_backward(arg, row_ptr)
        ctx.columns = len(x)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        arg, row_ptr = ctx.saved_tensors
        return spread_to_rows(grads[0], arg, row_ptr, ctx.columns), None, None


def cluster_sum(
    x: Tensor, ptr: Tensor, child: Tensor, parent: Tensor, *, mean: bool = False
) -> Tensor:
    """The sum, or the mean, of the rows of each cluster; 0 for a cluster without rows.

    Args:
        x: ``[rows, channels]``
        ptr: ``[clusters + 1]`` int32, the first child of each cluster
        child: ``[children]`` int32, rows of x
        parent: ``[rows]`` int64, the cluster of each row, -1 for none
        mean: divide by the number of rows of each cluster

    Returns:
        ``[clusters, channels]``
    """
    total = _ClusterSum.apply(x, ptr, child, parent)
    return total / ptr.diff().clamp(min=1)[:, None] if mean else total


class _ClusterSum(Function):
    """Its backward pass is a gather instead of autograd's scatter."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, child: Tensor, parent: Tensor) -> Tensor:
        ctx.save_for_backward(parent)
        return sum_of_rows(x, ptr, child, x.new_ones(len(child)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (parent,) = ctx.saved_tensors
        grad = grads[0].index_select(0, parent.clamp(min=0))
        return torch.where((parent >= 0)[:, None], grad, 0), None, None, None
