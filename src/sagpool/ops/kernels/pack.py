"""Pack chosen graphs of a collection. One program per graph."""

import torch
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

_BLOCK = 256


def pack_graphs(
    place: Tensor,
    node_ptr: Tensor,
    entry_ptr: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    rows: int,
    entries: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Copy the rows of Ã of the chosen graphs to their new positions.

    Args:
        place: ``[3, chosen + 1]`` int32: the graph, its first new row, its first new entry; the
            last column holds the ends
        node_ptr: ``[graphs + 1]`` int32, the first node of each graph; the last graph is the
            filler, each row of which is the node after the last
        entry_ptr: ``[graphs + 1]`` int32, the first entry of each graph
        row_ptr: ``[nodes + 2]`` int32, the first entry of each node; the filler's node has none
        col: ``[entries]`` int32, indices inside the node's graph
        rows: new rows
        entries: number of new entries, including spare ones

    Returns:
        the node of each new row, the new ``row_ptr`` and the new ``col``, all int32
    """
    node = torch.empty(rows, dtype=torch.int32, device=col.device)
    new_ptr = torch.empty(rows + 1, dtype=torch.int32, device=col.device)
    # Spare entries point to the last row.
    new_col = torch.full((entries,), rows - 1, dtype=torch.int32, device=col.device)
    chosen = place.shape[1] - 1
    _pack_graphs[(chosen,)](
        place, node_ptr, entry_ptr, row_ptr, col, node, new_ptr, new_col, chosen + 1,
        len(node_ptr) - 1,
        BLOCK=_BLOCK, num_warps=2,
    )  # fmt: skip
    return node, new_ptr, new_col


@kernel(do_not_specialize=["width", "graphs"])
def _pack_graphs(
    place, node_ptr, entry_ptr, row_ptr, col, node, new_ptr, new_col, width, graphs,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0)
    graph = tl.load(place + at)
    row, end = tl.load(place + width + at), tl.load(place + width + at + 1)
    entry, entry_end = tl.load(place + 2 * width + at), tl.load(place + 2 * width + at + 1)
    node_from, entry_from = tl.load(node_ptr + graph), tl.load(entry_ptr + graph)
    step = (graph < graphs).to(tl.int32)  # a filler repeats one node
    offset = tl.arange(0, BLOCK)
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
        tl.store(new_ptr + end, entry_end)
