"""Differentiable operations on a matrix for each graph, by kernels."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.graphs import Adjacency
from sagpool.nn.pool.asap.matrices import GraphMatrices, GraphRows, kernels_for
from sagpool.ops import Layout
from sagpool.ops.propagate import dots_of_rows


def times_rows(weight: Tensor, x: Tensor, rows: GraphRows) -> Tensor:
    """``W_g x_g``, ``[rows, channels]``, for square W_g."""
    return _TimesRows.apply(weight, x, rows)


def gcn(weight: Tensor, scale: Tensor, x: Tensor, rows: GraphRows) -> Tensor:
    """``D (W + I) D x`` with D = diag(scale), for symmetric W_g and scale of ``[rows]``."""
    return _GCN.apply(weight, scale, x, rows)


def neighbour_max(x: Tensor, weight: Tensor, rows: GraphRows) -> Tensor:
    """The maximum over the nodes with a positive weight, and the node itself."""
    return _NeighbourMax.apply(x, weight, rows)


def membership(query: Tensor, key: Tensor, weight: Tensor, rows: GraphRows, slope: float) -> Tensor:
    """``softmax_j(LeakyReLU(query_i + key_j))`` over the same nodes, ``[rows, columns]``."""
    return _Membership.apply(query, key, weight, rows, slope)


def coarsen_sparse(
    alpha: Tensor, perm: Tensor, graphs: Adjacency, new_row: Tensor, new: GraphRows
) -> Tensor:
    """``Sᵀ (A + I) S`` without its diagonal, where S has a column for each kept row i.

    Args:
        alpha: ``[entries]`` of A + I; entry (i, j) is that of row j in column i of S
        perm: ``[new rows]`` int64, the old row of each
        graphs: A + I, symmetric
        new_row: ``[old rows]`` int64, the new row of each; -1 for none
        new: the new rows
    """
    return _CoarsenSparse.apply(alpha, perm, graphs, new_row, new)


def chosen_rows(
    x: Tensor, perm: Tensor, new_row: Tensor, old: Layout, new: Layout, columns: GraphRows
) -> Tensor:
    """``x[perm]``, of as many columns as the graph of a row has; ``new_row`` is the inverse."""
    return _ChosenRows.apply(x, perm, new_row, old, new, columns)


def coarsen_dense(weight: Tensor, chosen: Tensor, old: GraphRows, new: GraphRows) -> Tensor:
    """``C (W + I) Cᵀ`` without its diagonal.

    Args:
        weight: W, ``[old rows, columns]``, symmetric; made by one of these two functions
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


class _GCN(Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, scale: Tensor, x: Tensor, rows: GraphRows) -> Tensor:
        x = x.contiguous()
        w, scale = GraphMatrices(weight, rows, rows), scale.contiguous()
        out = w.times(GraphMatrices(x, rows, x.shape[1]), norm=scale)
        ctx.save_for_backward(weight, scale, x, out)
        ctx.rows = rows
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (weight, scale, x, out), rows = ctx.saved_tensors, ctx.rows
        grad, columns = grads[0].contiguous(), x.shape[1]
        back = GraphMatrices(grad, rows, columns)
        grad_x = GraphMatrices(weight, rows, rows).times(back, norm=scale)
        grad_weight = grad_scale = None
        if ctx.needs_input_grad[0]:
            grad_weight = back.times(GraphMatrices(x, rows, columns).T, outer=scale)
        if ctx.needs_input_grad[1]:
            # It multiplies its row of the result, and its row of x in every sum.
            own = torch.arange(len(x), device=x.device)
            grad_scale = (dots_of_rows(out, own, grad) + dots_of_rows(grad_x, own, x)) / scale
        return grad_weight, grad_scale, grad_x, None


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
        ctx: Any, alpha: Tensor, perm: Tensor, graphs: Adjacency, new_row: Tensor, new: GraphRows
    ) -> Tensor:
        ctx.kernels, ctx.new = kernels_for(alpha), new
        of_old = graphs.row_ptr, graphs.col, graphs.layout.graph
        weight, product = ctx.kernels.coarsen_sparse(
            alpha.contiguous(), *of_old, perm, new_row, new
        )
        ctx.save_for_backward(product, *of_old, new_row)
        return weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # For symmetric A the gradient of S is (A + I) S (G + Gᵀ).
        both = ctx.kernels.plus_transpose(grads[0], ctx.new)
        grad_alpha = ctx.kernels.coarsen_sparse_backward(both, *ctx.saved_tensors, ctx.new)
        return grad_alpha, None, None, None, None


class _ChosenRows(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        perm: Tensor,
        new_row: Tensor,
        old: Layout,
        new: Layout,
        columns: GraphRows,
    ) -> Tensor:
        ctx.kernels, ctx.columns = kernels_for(x), columns
        ctx.save_for_backward(new_row, old.graph)
        return ctx.kernels.take_rows(x.contiguous(), perm, new.graph, columns)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = ctx.kernels.take_rows(grads[0].contiguous(), *ctx.saved_tensors, ctx.columns)
        return grad, None, None, None, None, None


class _CoarsenDense(Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, chosen: Tensor, old: GraphRows, new: GraphRows) -> Tensor:
        c = GraphMatrices(chosen, new, old)
        product = c.times(GraphMatrices(weight, old, old), plus=chosen)
        ctx.save_for_backward(chosen, product)
        ctx.kernels, ctx.old, ctx.new = kernels_for(weight), old, new
        return GraphMatrices(product, new, old).times(c.T, loops=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # For symmetric W the gradient of C is (G + Gᵀ) C (W + I). That of W is Cᵀ G C.
        # Its symmetric part is enough, because what made W adds the transpose to its gradient.
        (chosen, values), old, new = ctx.saved_tensors, ctx.old, ctx.new
        both = GraphMatrices(ctx.kernels.plus_transpose(grads[0], new), new, new)
        grad_chosen = both @ GraphMatrices(values, new, old)
        grad_weight = None
        if ctx.needs_input_grad[0]:
            c = GraphMatrices(chosen, new, old)
            grad_weight = c.T.times(GraphMatrices(both @ c, new, old), scale=0.5)
        return grad_weight, grad_chosen, None, None
