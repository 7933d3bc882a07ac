"""Keeping marked rows: their features, the adjacency among them, and the readout."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from sagpool.ops.copies import repeated_csr, repeated_rows
from sagpool.ops.device import kernels_for, on_cpu, to_device
from sagpool.ops.layout import Layout
from sagpool.ops.propagate import dots_of_rows, sum_of_rows
from sagpool.ops.ragged import edge_rows, marked, repeat_each
from sagpool.ops.segment import top_of_each


class Kept(NamedTuple):
    """Which old row each new row comes from, and the inverse.

    The row of a filler may be repeated; every other row is kept at most once.
    """

    perm: Tensor  # [new rows] int64, the old row of each new row, ascending
    rows: Tensor  # [kept] int64, the old rows that are kept, ascending
    place: Tensor  # [kept] int64, the (first) new row of each of them
    seen: Tensor  # [old rows + 1] int64, how many of the rows before this one are kept
    repeats: Tensor | None  # [kept] int64, how often each is repeated; None for once each


def keep_rows(mask: Tensor, count: int, repeats: Tensor | None = None, total: int = 0) -> Kept:
    """Keep the marked rows, in their order, without waiting for the device to count them.

    Args:
        mask: ``[old rows]`` bool
        count: how many are marked
        repeats: ``[count]`` int64, how often each kept row is repeated; once if not given
        total: the sum of the repeats
    """
    seen = pad(torch.cumsum(mask, 0), (1, 0))
    if on_cpu(mask):
        rows = marked(mask)
    else:
        place = torch.where(mask, seen[:-1], count)
        rows = torch.empty(count + 1, dtype=torch.int64, device=mask.device)
        rows = rows.scatter_(0, place, torch.arange(len(mask), device=mask.device))[:count]
    if repeats is None:
        return kept_once(rows, seen)
    place = torch.cumsum(repeats, 0) - repeats
    return Kept(repeat_each(rows, repeats, total), rows, place, seen, repeats)


def kept_once(rows: Tensor, seen: Tensor) -> Kept:
    """Each of the rows is kept once; see `Kept`."""
    return Kept(rows, rows, torch.arange(len(rows), device=rows.device), seen, None)


def gather_gated(x: Tensor, kept: Kept, gate: Tensor | None) -> Tensor:
    """``x[perm] * gate[:, None]`` in one pass (the paper's X_out = X[idx] ⊙ Z[idx]).

    Args:
        x: ``[old rows, channels]``
        kept: the rows to take
        gate: ``[new rows]``; ones if not given

    Returns:
        ``[new rows, channels]``; of a repeated row, only the first copy has a gradient
    """
    return _GatherGated.apply(x, x.new_ones(len(kept.perm)) if gate is None else gate, kept)


class _GatherGated(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor, kept: Kept) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, gate)
        ctx.kept = kept
        one_each = torch.arange(len(kept.perm) + 1, device=x.device)
        return sum_of_rows(x, one_each, kept.perm, gate)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gate = ctx.saved_tensors
        kept, grad = ctx.kept, grads[0].contiguous()
        if torch.is_grad_enabled():
            return *_gathered_backward(grad, x, gate, kept), None
        grad_x = grad_gate = None
        if ctx.needs_input_grad[0]:
            # The sum over the new rows of each old row: one, or none.
            first = gate if kept.repeats is None else gate.index_select(0, kept.place)
            grad_x = sum_of_rows(grad, kept.seen, kept.place, first)
        if ctx.needs_input_grad[1]:
            grad_gate = dots_of_rows(x, kept.perm, grad)
        return grad_x, grad_gate, None


def _gathered_backward(
    grad: Tensor, x: Tensor | None, gate: Tensor, kept: Kept
) -> tuple[Tensor, Tensor | None]:
    """The gradients of x and of the gate, by operations that have gradients themselves."""
    first = grad if kept.repeats is None else grad.index_select(0, kept.place)
    factor = gate if kept.repeats is None else gate.index_select(0, kept.place)
    zeros = grad.new_zeros(len(kept.seen) - 1, grad.shape[1])
    grad_x = zeros.index_copy(0, kept.rows, first * factor[:, None])
    return grad_x, None if x is None else (grad * x.index_select(0, kept.perm)).sum(1)


class InducedCSR(NamedTuple):
    row_ptr: Tensor  # [new rows + 1] int32
    col: Tensor  # [entries] int32


def induced_csr(row_ptr: Tensor, col: Tensor, kept: Kept) -> InducedCSR:
    """The adjacency among the kept rows, A[idx, idx].

    Args:
        row_ptr: ``[old rows + 1]`` int32
        col: ``[entries]`` int32
        kept: the rows to keep; of a repeated row, the first copy has the entries

    Returns:
        on the CPU exactly the surviving entries. On other devices, where counting them would wait
        for the device, as many as before: the spare ones at the end belong to no row, and point to
        the last row, so that a NaN does not reach another member through them
    """
    new_row = torch.full((len(row_ptr) - 1,), -1, dtype=torch.int32, device=col.device)
    new_row[kept.rows] = kept.place.int()
    renamed = new_row.index_select(0, col)
    if on_cpu(col):
        row_survives = repeat_each(new_row >= 0, row_ptr.diff(), len(col))
        survives = (renamed >= 0).logical_and_(row_survives)
        survived = renamed.index_select(0, marked(survives))
        seen = torch.cumsum(survives, 0, dtype=torch.int32)
    else:
        inside = torch.arange(len(col), device=col.device) < row_ptr[-1]
        survives = (renamed >= 0) & (new_row[edge_rows(row_ptr, col)] >= 0) & inside
        seen = torch.cumsum(survives, 0, dtype=torch.int32)
        place = torch.where(survives, seen - 1, len(col)).long()
        survived = col.new_full((len(col) + 1,), len(kept.perm) - 1)
        survived = survived.scatter_(0, place, renamed)[:-1]
    # Dropped rows have no entries left, so the count at the end of a kept row is its new end.
    ends = pad(seen, (1, 0))[row_ptr[kept.rows + 1].long()]
    if kept.repeats is not None:
        ends = repeat_each(ends, kept.repeats, len(kept.perm))
    return InducedCSR(pad(ends, (1, 0)), survived)


class PooledRows(NamedTuple):
    x: Tensor  # [new rows, channels]
    # [graphs, 2 * channels] mean ‖ maximum over the new rows of each graph, where it comes for free
    readout: Tensor | None
    perm: Tensor  # [new rows] int32 or int64, the old row of each new row
    # From (row_ptr, col) of a matrix over the old rows to that over the new ones.
    induce: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Chosen(NamedTuple):
    """Rows to keep: marked, or by a kernel in the same pass numbered."""

    mask: Tensor | None  # [old rows] bool
    numbered: tuple[Tensor, Tensor, Tensor] | None = None  # as the kernels return it

    def marks(self) -> Tensor:
        """``[old rows]`` bool"""
        if self.mask is not None:
            return self.mask
        assert self.numbered is not None
        return self.numbered[1] >= 0


def choose_rows(rank: Tensor, old: Layout, new: Layout) -> Chosen:
    """The rows that are highest in ``rank``: of each graph as many as it has in ``new``.

    Of a filler one row. Equal ranks go to the lower row, whatever the device.
    """
    if (kernels := kernels_for(rank)) is not None:
        ptr = old.node_ptr, new.node_ptr
        return Chosen(
            None, kernels.top_of_each(rank.detach(), *ptr, new.total_rows, old.filler_period)
        )
    counts = to_device(_marked(new).ravel(), rank.device)
    return Chosen(top_of_each(rank, old.graph, old.node_ptr, counts))


def pool_rows(
    x: Tensor, gate: Tensor | None, chosen: Chosen, old: Layout, new: Layout
) -> PooledRows:
    """``X[idx] ⊙ gate[idx]`` for the chosen rows idx, in their order.

    The row of a filler fills all its new rows; only the first of them passes a gradient on. If
    ``old`` has each member several times (`repeated_layout`), x and matrices have it once.

    Args:
        x: ``[old rows, channels]``
        gate: ``[old rows]``, with which rows are multiplied, if at all
        chosen: the rows to keep; one of each filler
        old: the rows as they are
        new: the rows as they will be
    """
    copies = old.total_rows // len(x)
    if (kernels := kernels_for(x)) is not None:
        numbered = chosen.numbered
        if numbered is None:
            ptr = old.node_ptr, new.node_ptr
            numbered = kernels.keep_rows(chosen.mask, *ptr, new.total_rows)
        perm, new_row, graph = numbered
        of_copies = {"copies": copies, "rows_each": old.rows}
        kept = _KernelKept(
            perm, new_row, graph, new.node_ptr, new.filler_period, new.rows, of_copies
        )
        out, readout = _PoolRows.apply(x, gate, kept)
        induce = partial(kernels.induced_csr, perm=perm, new_row=new_row, **of_copies)
        return PooledRows(out, readout, perm, induce)
    back = keep_chosen(chosen, new)
    if copies > 1:
        x = repeated_rows(x, old.rows, copies)
    rows = gather_gated(x, back, None if gate is None else gate.index_select(0, back.perm))
    induce = partial(_induced_of_copies, kept=back, rows_each=old.rows, copies=copies)
    return PooledRows(rows, None, back.perm, induce)


def _induced_of_copies(
    row_ptr: Tensor, col: Tensor, kept: Kept, rows_each: int, copies: int
) -> InducedCSR:
    if copies > 1:
        row_ptr, col = repeated_csr(row_ptr, col, rows_each, copies)
    return induced_csr(row_ptr, col, kept)


def keep_chosen(chosen: Chosen, new: Layout) -> Kept:
    """Keep the rows of `choose_rows`; the one row of a filler fills all its new rows.

    Args:
        chosen: the rows to keep
        new: the rows as they will be; the host knows the sizes
    """
    mask = chosen.marks()
    counts = _marked(new)
    total, repeats = int(counts.sum()), None
    if new.filler:
        # The one row of a filler is repeated to fill its member's rows.
        last = np.cumsum(counts.sum(axis=1)) - 1
        place, times = to_device(np.stack([last, new.sizes[:, -1]]), mask.device)
        repeats = torch.ones(total, dtype=torch.int64, device=mask.device)
        repeats = repeats.index_copy_(0, place, times)
    return keep_rows(mask, total, repeats, int(new.sizes.sum()))


def _marked(new: Layout) -> np.ndarray:
    """``[members, graphs]`` marked rows of each graph."""
    if not new.filler:
        return new.sizes.copy()
    return np.concatenate([new.sizes[:, :-1], np.ones_like(new.sizes[:, :1])], axis=1)


class _KernelKept(NamedTuple):
    perm: Tensor  # [new rows] int32
    new_row: Tensor  # [old rows] int32, -1 for those that are dropped
    graph: Tensor  # [old rows] int64
    ptr: Tensor  # [graphs + 1] int64, the first new row of each graph
    filler_period: int
    longest: int  # at least as many new rows as the longest graph has
    of_copies: dict[str, int]  # of the old rows, for the kernels


class _PoolRows(Function):
    """One pass over x, and one over its gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gate: Tensor | None, kept: _KernelKept
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.kernels, ctx.kept = kernels_for(x), kept
        out, readout, arg, _ = ctx.kernels.gather_gated(
            *(x, gate, kept.perm, kept.ptr, kept.filler_period, kept.longest), **kept.of_copies
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
            **ctx.kept.of_copies,
        )
        return grad_x, grad_gate, None
