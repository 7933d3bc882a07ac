"""Pack chosen graphs of a collection."""

from typing import NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

_BLOCK = 256


class Placed(NamedTuple):
    """Where the chosen graphs go; the last graph of each member is its filler."""

    node_ptr: Tensor  # [members * graphs + 1] int64, the first row of each graph, and the end
    entry: Tensor  # [members * graphs] int32, entries of the graphs before in the same member
    entries: Tensor  # [members] int32
    real: Tensor  # [members, graphs] bool
    y: Tensor | None  # [members, graphs] int64


def place_graphs(ids: Tensor, sizes: Tensor, y: Tensor | None, rows: int) -> Placed:
    """Lay the graphs of each member end to end. One program per member.

    Args:
        ids: ``[members, chosen]`` int32, -1 for none
        sizes: ``[2, graphs + 1]`` int32, nodes and entries of each graph; the last is the filler
        y: ``[graphs + 1]`` int64
        rows: of each member
    """
    (members, chosen), device = ids.shape, ids.device
    shape = members, chosen + 1
    placed = Placed(
        torch.empty(members * (chosen + 1) + 1, dtype=torch.int64, device=device),
        torch.empty(members * (chosen + 1), dtype=torch.int32, device=device),
        torch.empty(members, dtype=torch.int32, device=device),
        torch.empty(shape, dtype=torch.bool, device=device),
        None if y is None else torch.empty(shape, dtype=torch.int64, device=device),
    )
    _place_graphs[(members,)](
        ids, sizes, y, placed.node_ptr, placed.entry, placed.entries,
        placed.real.view(torch.uint8), placed.y, chosen, sizes.shape[1] - 1, rows,
        HAS_Y=y is not None, BLOCK=_BLOCK, num_warps=2,
    )  # fmt: skip
    return placed


@kernel(do_not_specialize=["chosen", "filler", "rows"])
def _place_graphs(
    ids, sizes, y, node_ptr, entry_of, entries, real, y_of, chosen, filler, rows,
    HAS_Y: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0).to(tl.int64)
    row = member * rows
    entry = tl.full((), 0, tl.int32)
    for first in range(0, chosen + 1, BLOCK):
        number = first + tl.arange(0, BLOCK)
        given = number < chosen
        graph = tl.load(ids + member * chosen + number, mask=given, other=-1)
        exists = graph >= 0
        graph = tl.where(exists, graph, filler)
        nodes = tl.load(sizes + graph, mask=given, other=0)
        count = tl.load(sizes + filler + 1 + graph, mask=given, other=0)
        at = member * (chosen + 1) + number
        inside = number <= chosen
        tl.store(node_ptr + at, row + tl.cumsum(nodes, 0) - nodes, mask=inside)
        tl.store(entry_of + at, entry + tl.cumsum(count, 0) - count, mask=inside)
        tl.store(real + at, exists.to(tl.uint8), mask=inside)
        if HAS_Y:
            tl.store(y_of + at, tl.load(y + graph, mask=inside, other=0), mask=inside)
        row += tl.sum(nodes, 0)
        entry += tl.sum(count, 0)
    tl.store(entries + member, entry)
    if member == tl.num_programs(0) - 1:
        tl.store(node_ptr + (member + 1) * (chosen + 1), (member + 1) * rows)


def pack_graphs(
    ids: Tensor,
    placed: Placed,
    starts: Tensor,
    sizes: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    rows: int,
    entries: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Copy the rows of Ã of the chosen graphs to their new positions. One program per graph.

    Args:
        ids: ``[members, chosen]`` int32, -1 for none
        placed: where they go
        starts: ``[2, graphs + 1]`` int32, the first node and the first entry of each graph; the
            last graph is the filler, each row of which is the node after the last
        sizes: ``[2, graphs + 1]`` int32, nodes and entries of each graph
        row_ptr: ``[nodes + 2]`` int32, the first entry of each node; the filler's node has none
        col: ``[entries]`` int32, indices inside the node's graph
        rows: new rows
        entries: number of new entries, including spare ones

    Returns:
        the node of each new row, the new ``row_ptr`` and the new ``col``, all int32
    """
    node = torch.empty(rows, dtype=torch.int32, device=col.device)
    new_ptr = torch.empty(rows + 1, dtype=torch.int32, device=col.device)
    new_col = torch.empty(entries, dtype=torch.int32, device=col.device)
    members, chosen = ids.shape
    _pack_graphs[(members * (chosen + 1),)](
        ids, placed.node_ptr, placed.entry, placed.entries, starts, sizes, row_ptr, col,
        node, new_ptr, new_col, members, chosen, sizes.shape[1] - 1, rows, entries,
        BLOCK=_BLOCK, num_warps=2,
    )  # fmt: skip
    return node, new_ptr, new_col


@kernel(do_not_specialize=["members", "chosen", "filler", "rows", "entries"])
def _pack_graphs(
    ids, node_ptr, entry_of, entries_of, starts, sizes, row_ptr, col, node, new_ptr, new_col,
    members, chosen, filler, rows, entries,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0)
    member, number = at // (chosen + 1), at % (chosen + 1)
    graph = tl.load(ids + member * chosen + number, mask=number < chosen, other=-1)
    graph = tl.where(graph >= 0, graph, filler)
    offset = tl.arange(0, BLOCK)
    before, total = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for first in range(0, members, BLOCK):
        other = first + offset
        count = tl.load(entries_of + other, mask=other < members, other=0)
        before += tl.sum(tl.where(other < member, count, 0), 0)
        total += tl.sum(count, 0)

    row = tl.load(node_ptr + at).to(tl.int32)
    end = tl.load(node_ptr + at + 1).to(tl.int32)
    entry = before + tl.load(entry_of + at)
    entry_end = entry + tl.load(sizes + filler + 1 + graph)
    node_from, entry_from = tl.load(starts + graph), tl.load(starts + filler + 1 + graph)
    step = (graph < filler).to(tl.int32)  # a filler repeats one node
    for first in range(0, end - row, BLOCK):
        new = row + first + offset
        inside = new < end
        old = node_from + (first + offset) * step
        tl.store(node + new, old, mask=inside)
        begin = tl.load(row_ptr + old, mask=inside, other=0)
        tl.store(new_ptr + new, entry + begin - entry_from, mask=inside)
    for first in range(0, entry_end - entry, BLOCK):
        new = entry + first + offset
        inside = new < entry_end
        name = tl.load(col + entry_from + first + offset, mask=inside, other=0)
        tl.store(new_col + new, row + name, mask=inside)
    if at == tl.num_programs(0) - 1:
        tl.store(new_ptr + end, total)
    # Spare entries point to the last row. Each program writes some of them.
    for first in range(total + at * BLOCK, entries, tl.num_programs(0) * BLOCK):
        spare = first + offset
        tl.store(new_col + spare, tl.zeros((BLOCK,), tl.int32) + rows - 1, mask=spare < entries)
