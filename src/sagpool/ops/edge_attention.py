"""Attention of each row over its neighbours."""

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from sagpool.ops.device import kernels_for
from sagpool.ops.ragged import edge_rows
from sagpool.ops.segment import segment_softmax, segment_sum

SLOPE = 0.2  # of the leaky ReLU below zero, as in the paper


def edge_attention(
    to_target: Tensor,
    from_source: Tensor,
    values: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    *,
    symmetric: bool,
) -> Tensor:
    """``out[i] = Σ_j α_ij values[j]`` over the entries j of row i, separately for each head.

    ``α_ij = softmax_j(LeakyReLU(to_target[i] + from_source[j]))`` (Veličković et al., 2018).

    Args:
        to_target: ``[rows, heads]``
        from_source: ``[rows, heads]``
        values: ``[rows, heads * out]``
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32; entries past ``row_ptr[-1]`` belong to no row
        symmetric: whether the matrix equals its transpose

    Returns:
        ``[rows, heads * out]``; zero for a row without entries
    """
    if symmetric and kernels_for(values) is not None:
        return _EdgeAttention.apply(to_target, from_source, values, row_ptr, col)
    # Rows of a directed graph do not list their sources' targets, so the backward pass needs the
    # values of each entry.
    heads = to_target.shape[1]
    row = edge_rows(row_ptr, col)
    energy = to_target.index_select(0, row) + from_source.index_select(0, col)
    alpha = segment_softmax(leaky_relu(energy, SLOPE), row_ptr, row)  # [entries, heads]
    sent = values.index_select(0, col).unflatten(1, (heads, -1))
    messages = (alpha[..., None] * sent).flatten(1)  # [entries, heads * out]
    return segment_sum(messages, row_ptr, row)


class _EdgeAttention(Function):
    """Saves nothing per entry: α is recomputed from one number per row and head."""

    @staticmethod
    def forward(
        ctx: Any,
        to_target: Tensor,
        from_source: Tensor,
        values: Tensor,
        row_ptr: Tensor,
        col: Tensor,
    ) -> Tensor:
        ctx.kernels = kernels_for(values)
        inputs = (to_target.contiguous(), from_source.contiguous(), values.contiguous())
        out, level = ctx.kernels.edge_attention(*inputs, row_ptr, col)
        ctx.save_for_backward(*inputs, row_ptr, col, out, level)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0].contiguous()
        return *ctx.kernels.edge_attention_backward(*ctx.saved_tensors, grad), None, None
