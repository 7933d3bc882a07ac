"""Differentiable operations on a matrix for each graph, by kernels."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.graphs import Adjacency
from sagpool.nn.pool.asap.matrices import GraphMatrices, GraphRows, kernels_for


def times_rows(weight: Tensor, x: Tensor, rows: GraphRows) -> Tensor:
    """``W_g x_g``, ``[rows, channels]``, for square W_g."""
    return _TimesRows.apply(weight, x, rows)


def neighbour_max(x: Tensor, weight: Tensor, rows: GraphRows) -> Tensor:
    """The maximum over the nodes with a positive weight, and the node itself."""
    return _NeighbourMax.apply(x, weight, rows)


def membership(query: Tensor, key: Tensor, weight: Tensor, rows: GraphRows, slope: float) -> Tensor:
    """``softmax_j(LeakyReLU(query_i + key_j))`` over the same nodes, ``[rows, columns]``."""
    return _Membership.apply(query, key, weight, rows, slope)


def coarsen_sparse(alpha: Tensor, place: Tensor, graphs: Adjacency, new: GraphRows) -> Tensor:
    """``Sᵀ (A + I) S`` without its diagonal.

    Args:
        alpha: ``[entries]`` of A + I, the numbers in S
        place: ``[entries]`` int64, where they are in S, ``[rows, columns]``; -1 for nowhere
        graphs: A + I, symmetric
        new: the rows of the result, and the columns of S
    """
    return _CoarsenSparse.apply(alpha, place, graphs, new)


def coarsen_dense(weight: Tensor, chosen: Tensor, old: GraphRows, new: GraphRows) -> Tensor:
    """``C (W + I) Cᵀ`` without its diagonal.

    Args:
        weight: W, ``[old rows, columns]``, symmetric
        chosen: C, ``[new rows, columns]``, a column for each old row
        old: the rows of W
        new: the rows of C
    """
    return _CoarsenDense.apply(weight, chosen, old, new)


class _TimesRows(Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor, rows: GraphRows) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(weight, x)
        ctx.rows = rows
        return GraphMatrices(weight, rows, rows) @ GraphMatrices(x, rows, x.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (weight, x), rows = ctx.saved_tensors, ctx.rows
        back = GraphMatrices(grads[0].contiguous(), rows, x.shape[1])
        grad_weight = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_weight = back @ GraphMatrices(x, rows, x.shape[1]).T
        if ctx.needs_input_grad[1]:
            grad_x = GraphMatrices(weight, rows, rows).T @ back
        return grad_weight, grad_x, None


class _NeighbourMax(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, rows: GraphRows) -> Tensor:
        kernels = kernels_for(x)
        assert kernels is not None
        out, arg = kernels.neighbour_max(x.contiguous(), weight, rows)
        ctx.save_for_backward(arg)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (arg,) = ctx.saved_tensors
        return torch.zeros_like(grads[0]).scatter_add_(0, arg, grads[0]), None, None


class _Membership(Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, weight: Tensor, rows: GraphRows, slope: float
    ) -> Tensor:
        query, key = query.contiguous(), key.contiguous()
        ctx.kernels, ctx.rows, ctx.slope = kernels_for(query), rows, slope
        alpha = ctx.kernels.membership(query, key, weight, rows, slope)
        ctx.save_for_backward(alpha, query, key)
        return alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (alpha, query, key), rows = ctx.saved_tensors, ctx.rows
        of_sum, grad_query = ctx.kernels.membership_backward(
            grads[0].contiguous(), alpha, query, key, rows, ctx.slope
        )
        ones = GraphMatrices(torch.ones_like(key)[:, None], rows, 1)
        grad_key = GraphMatrices(of_sum, rows, rows).T @ ones
        return grad_query, grad_key.view(-1), None, None, None


class _CoarsenSparse(Function):
    @staticmethod
    def forward(
        ctx: Any, alpha: Tensor, place: Tensor, graphs: Adjacency, new: GraphRows
    ) -> Tensor:
        kernels, old = kernels_for(alpha), GraphRows.of(graphs.layout)
        assert kernels is not None
        columns = new.width
        # Entries that are nowhere go to a place that is cut off.
        s = alpha.new_zeros(old.total * columns + 1)
        s = s.scatter_(0, torch.where(place < 0, len(s) - 1, place), alpha)[:-1].view(-1, columns)
        layout = graphs.layout
        product = kernels.sum_with_self(s, graphs.row_ptr, graphs.col, layout.graph, new)
        ctx.save_for_backward(place, product)
        ctx.old, ctx.new = old, new
        return GraphMatrices(s, old, new).T.times(GraphMatrices(product, old, new), loops=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # For symmetric A the gradient of S is (A + I) S (G + Gᵀ).
        (place, values), old, new = ctx.saved_tensors, ctx.old, ctx.new
        grad = GraphMatrices(_without_loops(grads[0], new), new, new)
        product = GraphMatrices(values, old, new)
        grad_s = product.times(grad.T, into=product @ grad).view(-1)
        grad_alpha = torch.where(place < 0, 0, grad_s.index_select(0, place.clamp(min=0)))
        return grad_alpha, None, None, None


class _CoarsenDense(Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, chosen: Tensor, old: GraphRows, new: GraphRows) -> Tensor:
        c = GraphMatrices(chosen, new, old)
        product = c.times(GraphMatrices(weight, old, old), into=chosen.clone())
        ctx.save_for_backward(chosen, product)
        ctx.old, ctx.new = old, new
        return GraphMatrices(product, new, old).times(c.T, loops=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # For symmetric W the gradient of C is (G + Gᵀ) C (W + I), that of W is Cᵀ G C.
        (chosen, values), old, new = ctx.saved_tensors, ctx.old, ctx.new
        grad = GraphMatrices(_without_loops(grads[0], new), new, new)
        c, product = GraphMatrices(chosen, new, old), GraphMatrices(values, new, old)
        grad_chosen = grad.T.times(product, into=grad @ product)
        grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_weight = c.T @ GraphMatrices(grad @ c, new, old)
        return grad_weight, grad_chosen, None, None


def _without_loops(weight: Tensor, rows: GraphRows) -> Tensor:
    """A copy with a zero diagonal."""
    row = torch.arange(rows.total, device=weight.device)
    graph = torch.searchsorted(rows.ptr, row, right=True) - 1
    # The rows of a filler are more than its columns; they are not used.
    own = (row - rows.ptr.index_select(0, graph)).clamp(max=weight.shape[1] - 1)
    return weight.scatter(1, own[:, None], 0)
