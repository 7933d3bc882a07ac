"""The kept rows, multiplied by their gates, and the readout over them."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.copies import copy_of, original
from sagpool.ops.kernels.jit import kernel

_TILE = 512
_MAX_COLUMNS = 128
_GRAPH_ROWS = 32
_CLEARED = 2048  # numbers of a filler that one program clears


def gather_gated(
    x: Tensor,
    gate: Tensor | None,
    perm: Tensor | None,
    kept_ptr: Tensor,
    filler_every: int,
    longest_filler: int,
    presence: Tensor | None = None,
    *,
    copies: int = 1,
    rows_each: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """``x[perm] * gate[perm]``, and mean ‖ maximum over the rows of each graph, in one pass.

    Args:
        x: ``[old rows, columns]``, without the copies
        gate: ``[old rows]``, or None for ones
        perm: ``[new rows]`` int32, the old row of each new one; None if all rows are kept
        kept_ptr: ``[graphs + 1]`` int64, the first new row of each graph; none is empty
        filler_every: every n-th graph is a filler, whose rows become zero; 0 for none
        longest_filler: upper bound of the new rows of a filler
        presence: ``[new rows]``, how much of each row is there, if not all: a mean is the sum
            divided by the sum of the presence, if that is above 1
        copies: how often each member is there in the old rows; see `sagpool.ops.copies`
        rows_each: old rows of one copy of a member

    Returns:
        ``[new rows, columns]``, ``[graphs, 2 * columns]``, ``[graphs, columns]`` int32: the
        first new row that has the maximum; and ``[graphs]`` sums of the presence, if given
    """
    x = x.contiguous()
    graphs, columns = len(kept_ptr) - 1, x.shape[1]
    out = x.new_empty(len(x) if perm is None else len(perm), columns)
    summary = x.new_empty(graphs, 2 * columns)
    arg = torch.empty(graphs, columns, dtype=torch.int32, device=x.device)
    present = None if presence is None else x.new_empty(graphs)
    width = min(_MAX_COLUMNS, triton.next_power_of_2(columns))
    # Many programs per filler: a single one would take longer than all graphs together.
    cleared = _CLEARED // width
    chunks = triton.cdiv(longest_filler, cleared) if filler_every else 0
    fillers = graphs // filler_every if filler_every else 0
    _gather_gated[(graphs + fillers * chunks, triton.cdiv(columns, width))](
        x, gate, perm, kept_ptr, presence, out, summary, arg, present, graphs, columns,
        filler_every, chunks, rows_each,
        GATED=gate is not None, MOVED=perm is not None, IN_PART=presence is not None,
        COPIES=copies, HEIGHT=_GRAPH_ROWS, WIDTH=width, CLEARED=cleared, num_warps=1,
    )  # fmt: skip
    return out, summary, arg, present


@kernel(do_not_specialize=["graphs", "filler_every", "chunks", "rows_each"])
def _gather_gated(
    x, gate, perm, kept_ptr, presence, out, summary, arg, present, graphs, columns, filler_every,
    chunks, rows_each,
    GATED: tl.constexpr, MOVED: tl.constexpr, IN_PART: tl.constexpr, COPIES: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CLEARED: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    if number < graphs:
        _gather_graph(
            x, gate, perm, kept_ptr, presence, out, summary, arg, present, number.to(tl.int64),
            columns, filler_every, rows_each, GATED, MOVED, IN_PART, COPIES, HEIGHT, WIDTH,
        )  # fmt: skip
    else:
        filler = ((number - graphs) // chunks + 1) * filler_every - 1
        start, end = tl.load(kept_ptr + filler), tl.load(kept_ptr + filler + 1)
        row = start + (number - graphs) % chunks * CLEARED + tl.arange(0, CLEARED)
        column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
        mask = (row < end)[:, None] & (column < columns)[None, :]
        zeros = tl.zeros((CLEARED, WIDTH), out.dtype.element_ty)
        tl.store(out + row[:, None] * columns + column[None, :], zeros, mask=mask)


@triton.jit
def _gather_graph(
    x, gate, perm, kept_ptr, presence, out, summary, arg, present, graph, columns, filler_every,
    rows_each,
    GATED: tl.constexpr, MOVED: tl.constexpr, IN_PART: tl.constexpr, COPIES: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    start = tl.load(kept_ptr + graph).to(tl.int32)
    end = tl.load(kept_ptr + graph + 1).to(tl.int32)
    count = (end - start).to(x.dtype.element_ty)
    there = tl.zeros((HEIGHT,), x.dtype.element_ty)
    total = tl.zeros((WIDTH,), x.dtype.element_ty)
    largest = tl.full((WIDTH,), float("-inf"), x.dtype.element_ty)
    where = tl.zeros((WIDTH,), tl.int32) + start
    if filler_every > 0 and graph % filler_every == filler_every - 1:
        largest = total
        where -= start + 1  # -1, for no row
        end = start
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        inside = row < end
        mask = inside[:, None] & in_columns[None, :]
        old = row.to(tl.int64)
        if MOVED:
            old = tl.load(perm + row, mask=inside, other=0).to(tl.int64)
        from_row = original(old, rows_each, COPIES)
        values = tl.load(x + from_row[:, None] * columns + column[None, :], mask=mask, other=0.0)
        if GATED:
            values *= tl.load(gate + old, mask=inside, other=0.0)[:, None]
        tl.store(out + row.to(tl.int64)[:, None] * columns + column[None, :], values, mask=mask)
        if IN_PART:
            there += tl.load(presence + row, mask=inside, other=0.0)
        total += tl.sum(values, 0)
        candidates = tl.where(mask, values, float("-inf"))
        best = tl.max(candidates, 0)
        at = tl.argmax(candidates, 0)
        better = best > largest
        largest = tl.where(better, best, largest)
        where = tl.where(better, first + at.to(tl.int32), where)
    # Triton's maximum ignores NaN, which must not be lost.
    largest = tl.where(total != total, total, largest)
    if IN_PART:
        whole = tl.sum(there, 0)
        tl.store(present + graph, whole)
        count = tl.where(whole < 1, 1.0, whole)
    base = summary + graph * 2 * columns + column
    tl.store(base, total / count, mask=in_columns)
    tl.store(base + columns, largest, mask=in_columns)
    tl.store(arg + graph * columns + column, where, mask=in_columns)


def gather_gated_backward(
    grad_out: Tensor | None,
    grad_summary: Tensor | None,
    x: Tensor,
    gate: Tensor | None,
    arg: Tensor,
    graph: Tensor,
    kept_ptr: Tensor,
    new_row: Tensor | None,
    present: Tensor | None = None,
    *,
    copies: int = 1,
    rows_each: int = 0,
) -> tuple[Tensor, Tensor | None]:
    """The gradients of x and of the gate in one pass.

    Args:
        grad_out: ``[new rows, columns]``, or None for zeros
        grad_summary: ``[graphs, 2 * columns]``, or None for zeros
        x: ``[old rows, columns]``, without the copies
        gate: ``[old rows]`` or None
        arg: from `gather_gated`
        graph: ``[old rows]`` int64, the graph of each
        kept_ptr: ``[graphs + 1]`` int64
        new_row: ``[old rows]`` int32, -1 for those that are dropped; None if all rows are kept
        present: from `gather_gated`, whose gradient is not computed here
        copies: as for `gather_gated`
        rows_each: as for `gather_gated`
    """
    x = x.contiguous()
    rows, columns = x.shape
    grad_x = torch.empty_like(x)
    grad_gate = None if gate is None else torch.empty_like(gate)
    width = min(_MAX_COLUMNS, triton.next_power_of_2(columns))
    height = min(128, _TILE // width)
    _gather_gated_backward[(triton.cdiv(rows, height),)](
        x if grad_out is None else grad_out, grad_summary, x, gate, arg, graph, kept_ptr, new_row,
        present, grad_x, grad_gate, rows, columns, 0 if grad_out is None else len(grad_out),
        rows_each,
        SUMMARY=grad_summary is not None, GATED=gate is not None, MOVED=new_row is not None,
        IN_PART=present is not None, COPIES=copies, HEIGHT=height, WIDTH=width,
        num_warps=1 if width == _MAX_COLUMNS else 2,
    )  # fmt: skip
    return grad_x, grad_gate


@kernel(do_not_specialize=["rows", "rows_out", "rows_each"])
def _gather_gated_backward(
    grad_out, grad_summary, x, gate, arg, graph, kept_ptr, new_row, present, grad_x, grad_gate,
    rows, columns, rows_out, rows_each,
    SUMMARY: tl.constexpr, GATED: tl.constexpr, MOVED: tl.constexpr, IN_PART: tl.constexpr,
    COPIES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    in_rows = row < rows
    for copy in tl.static_range(COPIES):
        old = copy_of(row, copy, rows_each, COPIES)
        new = tl.where(in_rows, old, -1)
        if MOVED:
            new = tl.load(new_row + old, mask=in_rows, other=-1)
        kept = new >= 0
        at, from_row = row.to(tl.int64), new.to(tl.int64)
        dots = tl.zeros((HEIGHT,), x.dtype.element_ty)
        factor = tl.full((HEIGHT,), 1.0, x.dtype.element_ty)
        if GATED:
            factor = tl.load(gate + old, mask=kept, other=0.0)
        if SUMMARY:
            owner = tl.load(graph + old, mask=in_rows, other=0)
            if IN_PART:
                count = tl.load(present + owner, mask=kept, other=1.0)
                count = tl.where(count < 1, 1.0, count)
            else:
                first = tl.load(kept_ptr + owner, mask=kept, other=0)
                after = tl.load(kept_ptr + owner + 1, mask=kept, other=1)
                count = (after - first).to(x.dtype.element_ty)
        for block in range(0, columns, WIDTH):
            column = block + tl.arange(0, WIDTH)
            in_columns = column < columns
            mask = kept[:, None] & in_columns[None, :]
            place = from_row[:, None] * columns + column[None, :]
            in_out = (kept & (new < rows_out))[:, None] & in_columns[None, :]
            grad = tl.load(grad_out + place, mask=in_out, other=0.0)
            if SUMMARY:
                place = grad_summary + owner[:, None] * 2 * columns + column[None, :]
                grad += tl.load(place, mask=mask, other=0.0) / count[:, None]
                of_max = tl.load(place + columns, mask=mask, other=0.0)
                place = arg + owner[:, None] * columns + column[None, :]
                chosen = tl.load(place, mask=mask, other=-1)
                grad += tl.where(chosen == new[:, None], of_max, 0.0)
            place = at[:, None] * columns + column[None, :]
            if GATED:
                values = tl.load(x + place, mask=mask, other=0.0)
                dots += tl.sum(values * grad, 1)
                grad = tl.where(mask, grad * factor[:, None], 0.0)
            inside = in_rows[:, None] & in_columns[None, :]
            if copy > 0:
                grad += tl.load(grad_x + place, mask=inside, other=0.0)
            tl.store(grad_x + place, grad, mask=inside)
        if GATED:
            tl.store(grad_gate + old, dots, mask=in_rows)
        if copy + 1 < COPIES:
            tl.debug_barrier()  # the next copy adds to what this one has stored
