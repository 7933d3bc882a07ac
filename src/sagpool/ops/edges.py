"""Sums over the edges of a list, in any order, of one number for each node (and head).

No sort, no trip to the host.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import leaky_relu

from sagpool.ops.device import kernels_for
from sagpool.ops.edge_attention import SLOPE


def sum_over_edges(
    x: Tensor, source: Tensor, target: Tensor, counted: Tensor | None, start: Tensor | None = None
) -> Tensor:
    """``start[i]`` + the sum of ``x[source[e]]`` over the edges e with ``target[e] = i``.

    Args:
        x: ``[rows]`` or ``[rows, channels]``
        source: ``[edges]`` int64
        target: ``[edges]`` int64
        counted: ``[edges]`` bool, the edges that count; None for all
        start: as x; zeros if not given
    """
    start = torch.zeros_like(x) if start is None else start
    if x.ndim == 2 and x.shape[1] == 1:
        flat = sum_over_edges(x.view(-1), source, target, counted, start.view(-1))
        return flat[:, None]
    sent = x.index_select(0, source)
    if x.ndim == 1:  # faster than index_add
        return start.scatter_add(0, target, sent if counted is None else sent * counted)
    return start.index_add(0, target, sent if counted is None else sent * counted[:, None])


def gcn_of_edges(
    x: Tensor, degree: Tensor, source: Tensor, target: Tensor, counted: Tensor | None
) -> Tensor:
    """``D̃^-1/2 (A + I) D̃^-1/2 x``, of the shape of x; half precisions are summed in float32.

    Args:
        x: ``[rows]`` or ``[rows, channels]``
        degree: ``[rows]`` row sums of A
        source: ``[edges]`` int64
        target: ``[edges]`` int64
        counted: ``[edges]`` bool, the edges that count; None for all
    """
    scale = (degree.to(torch.promote_types(x.dtype, torch.float32)) + 1).rsqrt_()
    scale = scale if x.ndim == 1 else scale[:, None]
    scaled = scale * x
    return scale * sum_over_edges(scaled, source, target, counted, start=scaled)


def edge_kernels_for(x: Tensor) -> ModuleType | None:
    """The kernels that sum over edges, where they run; they add in an order that may change."""
    exact = x.itemsize >= 4 and not torch.are_deterministic_algorithms_enabled()
    return kernels_for(x) if exact else None


def gcn_by_kernels(
    x: Tensor, degree: Tensor, edge_index: Tensor, transposed: bool = False
) -> Tensor:
    """`gcn_of_edges` of x, ``[rows]``, by `edge_kernels_for`; self-loops do not count."""
    return _GCNOfEdges.apply(x, degree, edge_index, transposed)


class _GCNOfEdges(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, degree: Tensor, edge_index: Tensor, transposed: bool
    ) -> Tensor:
        ctx.save_for_backward(degree, edge_index)
        ctx.transposed = transposed
        kernels = kernels_for(x)
        assert kernels is not None
        return kernels.gcn_of_edges(x.contiguous(), degree, edge_index, transposed)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        degree, edge_index = ctx.saved_tensors
        return gcn_by_kernels(grads[0], degree, edge_index, not ctx.transposed), None, None, None


def attention_of_edges(
    to_target: Tensor,
    from_source: Tensor,
    values: Tensor,
    source: Tensor,
    target: Tensor,
    counted: Tensor | None,
) -> Tensor:
    """`edge_attention` of each row over its sources and itself, for one value per head.

    Args:
        to_target: ``[rows, heads]``
        from_source: ``[rows, heads]``
        values: ``[rows, heads]``
        source: ``[edges]`` int64
        target: ``[edges]`` int64
        counted: ``[edges]`` bool, the edges that count; None for all

    Returns:
        ``[rows, heads]``
    """
    rows, heads = values.shape
    head = torch.arange(heads, device=values.device)
    # Flat indices: torch adds rows of a matrix one by one on the CPU.
    out_of = (source[:, None] * heads + head).view(-1)  # [edges * heads]
    into = (target[:, None] * heads + head).view(-1)
    to_target, from_source, values = (
        part.reshape(-1) for part in (to_target, from_source, values)
    )  # [rows * heads]
    own = leaky_relu(to_target + from_source, SLOPE)
    energy = to_target.index_select(0, into) + from_source.index_select(0, out_of)
    energy = leaky_relu(energy, SLOPE)
    if counted is not None:
        energy = energy.view(-1, heads).masked_fill(~counted[:, None], -torch.inf).view(-1)
    # The result does not depend on the shift, so it needs no gradient.
    shift = own.detach().scatter_reduce(0, into, energy.detach(), "amax")
    own = (own - shift).exp()
    weight = (energy - shift.index_select(0, into)).exp()
    sent = weight * values.index_select(0, out_of)
    received = (own * values).scatter_add(0, into, sent)
    return (received / own.scatter_add(0, into, weight)).view(rows, heads)


def attention_by_kernels(
    to_target: Tensor, from_source: Tensor, values: Tensor, edge_index: Tensor
) -> Tensor:
    """`attention_of_edges` by `edge_kernels_for`; self-loops do not count."""
    return _AttentionOfEdges.apply(to_target, from_source, values, edge_index)


class _AttentionOfEdges(Function):
    """Saves nothing per edge: α is recomputed from one number per row and head."""

    @staticmethod
    def forward(
        ctx: Any, to_target: Tensor, from_source: Tensor, values: Tensor, edge_index: Tensor
    ) -> Tensor:
        ctx.kernels = kernels_for(values)
        rows = (part.contiguous() for part in (to_target, from_source, values))
        out, level = ctx.kernels.attention_of_edges(*rows, edge_index)
        ctx.save_for_backward(to_target, from_source, values, edge_index, out, level)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *parts, edge_index, out, level = ctx.saved_tensors
        if torch.is_grad_enabled():  # by operations that have gradients themselves
            source, target = edge_index
            pairs = source, target, source != target
            again = attention_of_edges(parts[0], parts[1], parts[2], *pairs)
            needed = [i for i in range(3) if ctx.needs_input_grad[i]]
            inputs = [parts[i] for i in needed]
            back = torch.autograd.grad(again, inputs, grads[0], create_graph=True)
            found = dict(zip(needed, back, strict=True))
            return found.get(0), found.get(1), found.get(2), None
        rows = (part.contiguous() for part in (grads[0], *parts))
        return *ctx.kernels.attention_of_edges_backward(*rows, edge_index, out, level), None
