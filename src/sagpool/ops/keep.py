"""Keep only the marked rows: their features, and the adjacency among them."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from sagpool.ops.device import on_cpu
from sagpool.ops.propagate import dots_of_rows, sum_of_rows
from sagpool.ops.ragged import edge_rows, marked, repeat_each


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
        return Kept(rows, rows, torch.arange(count, device=mask.device), seen, None)
    place = torch.cumsum(repeats, 0) - repeats
    return Kept(repeat_each(rows, repeats, total), rows, place, seen, repeats)


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
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gate = ctx.saved_tensors
        kept, grad = ctx.kept, grads[0].contiguous()
        grad_x = grad_gate = None
        if ctx.needs_input_grad[0]:
            # The sum over the new rows of each old row: one, or none.
            first = gate if kept.repeats is None else gate.index_select(0, kept.place)
            grad_x = sum_of_rows(grad, kept.seen, kept.place, first)
        if ctx.needs_input_grad[1]:
            grad_gate = dots_of_rows(x, kept.perm, grad)
        return grad_x, grad_gate, None


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
