"""A pooling that keeps rows: what is left of features and adjacency, and the readout over it."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import kernels_for
from sagpool.ops.keep import gather_gated, induced_csr, keep_rows
from sagpool.ops.layout import Layout
from sagpool.ops.topk import top_of_each
from sagpool.ops.transfer import to_device


class PooledRows(NamedTuple):
    x: Tensor  # [new rows, channels]
    # [graphs, 2 * channels] mean ‖ maximum over the new rows of each graph, where it comes for free
    readout: Tensor | None
    row_ptr: Tensor  # [new rows + 1] int32
    col: Tensor  # [entries] int32
    perm: Tensor  # [new rows] int32 or int64, the old row of each new row


def choose_rows(rank: Tensor, old: Layout, new: Layout) -> Tensor:
    """Mark the rows that are highest in ``rank``: of each graph as many as it has in ``new``.

    Of a filler one row is marked. Equal ranks go to the lower row, whatever the device.

    Returns:
        ``[old rows]`` bool
    """
    if (kernels := kernels_for(rank)) is not None:
        return kernels.top_of_each(rank.detach(), old.node_ptr, new.node_ptr, old.filler_period)
    counts = to_device(_marked(new).ravel(), rank.device)
    return top_of_each(rank, old.graph, old.node_ptr, counts)


def pool_rows(
    x: Tensor,
    gate: Tensor | None,
    mask: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    old: Layout,
    new: Layout,
) -> PooledRows:
    """``X[idx] ⊙ gate[idx]`` and ``A[idx, idx]`` for the marked rows idx, in their order.

    The row of a filler fills all its new rows; only the first of them passes a gradient on.

    Args:
        x: ``[old rows, channels]``
        gate: ``[old rows]``, with which rows are multiplied, if at all
        mask: ``[old rows]`` bool; one row of each filler
        row_ptr: ``[old rows + 1]`` int32
        col: ``[entries]`` int32
        old: the rows as they are
        new: the rows as they will be
    """
    if (kernels := kernels_for(x)) is not None:
        total = new.total_rows
        perm, new_row = kernels.keep_rows(mask, old.node_ptr, new.node_ptr, total)
        kept = _Kept(perm, new_row, old.graph, new.node_ptr, new.filler_period, new.rows)
        out, readout = _PoolRows.apply(x, gate, kept)
        kept_ptr, kept_col = kernels.induced_csr(row_ptr, col, perm, new_row)
        return PooledRows(out, readout, kept_ptr, kept_col, perm)
    counts = _marked(new)
    total, repeats = int(counts.sum()), None
    if new.filler:
        # The one row of a filler comes back as often as its member needs rows.
        last = np.cumsum(counts.sum(axis=1)) - 1
        place, times = to_device(np.stack([last, new.sizes[:, -1]]), x.device)
        repeats = torch.ones(total, dtype=torch.int64, device=x.device)
        repeats = repeats.index_copy_(0, place, times)
    back = keep_rows(mask, total, repeats, int(new.sizes.sum()))
    rows = gather_gated(x, back, None if gate is None else gate.index_select(0, back.perm))
    return PooledRows(rows, None, *induced_csr(row_ptr, col, back), back.perm)


def _marked(new: Layout) -> np.ndarray:
    """``[members, graphs]`` marked rows of each graph."""
    if not new.filler:
        return new.sizes.copy()
    return np.concatenate([new.sizes[:, :-1], np.ones_like(new.sizes[:, :1])], axis=1)


class _Kept(NamedTuple):
    perm: Tensor  # [new rows] int32
    new_row: Tensor  # [old rows] int32, -1 for those that are dropped
    graph: Tensor  # [old rows] int64
    ptr: Tensor  # [graphs + 1] int64, the first new row of each graph
    filler_every: int
    longest: int  # at least as many new rows as the longest graph has


class _PoolRows(Function):
    """One pass over x, and one over its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor | None, kept: _Kept) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.kernels, ctx.kept = kernels_for(x), kept
        out, readout, arg = ctx.kernels.gather_gated(
            x, gate, kept.perm, kept.ptr, kept.filler_every, kept.longest
        )
        ctx.save_for_backward(x, gate, arg)
        return out, readout

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, gate, arg = ctx.saved_tensors
        grad_out, grad_readout = (None if grad is None else grad.contiguous() for grad in grads)
        grad_x, grad_gate = ctx.kernels.gather_gated_backward(
            grad_out,
            grad_readout,
            x,
            gate,
            arg,
            ctx.kept.graph,
            ctx.kept.ptr,
            ctx.kept.new_row,
        )
        return grad_x, grad_gate, None
