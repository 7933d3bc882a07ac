"""Index arithmetic for contiguous runs of different lengths."""

import numpy as np
import torch
from torch import Tensor

from sagpool.ops.device import kernels_for, on_cpu


def repeat_each(values: Tensor, counts: Tensor, total: int) -> Tensor:
    """Repeat ``values[i]`` ``counts[i]`` times.

    With the total given, there is no need to wait for the device.

    Args:
        values: ``[runs]``
        counts: ``[runs]``
        total: the sum of the counts

    Returns:
        ``[total]``
    """
    if on_cpu(values):
        # Five times as fast as torch's on the CPU, where most runs are short.
        return torch.from_numpy(np.repeat(values.numpy(), counts.numpy()))
    return torch.repeat_interleave(values, counts, output_size=total)


def ragged_arange(starts: Tensor, counts: Tensor, total: int) -> Tensor:
    """The numbers ``starts[i], ..., starts[i] + counts[i] - 1`` of all runs, concatenated.

    Indexing an array with them is a ragged gather: it copies whole runs (the nodes or edges of
    chosen graphs) in one call.

    Args:
        starts: ``[runs]`` int32 or int64
        counts: ``[runs]`` int64
        total: the sum of the counts

    Returns:
        ``[total]`` of the type of ``starts``
    """
    new_starts = torch.cumsum(counts, 0) - counts
    shift = repeat_each((starts - new_starts).to(starts.dtype), counts, total)
    return shift.add_(torch.arange(total, dtype=starts.dtype, device=starts.device))


def marked(mask: Tensor, count: int | None = None) -> Tensor:
    """The positions at which a mask is True, ``[marked]`` int64.

    Waits for the device, unless ``count`` says how many they are.
    """
    if on_cpu(mask):
        return torch.from_numpy(np.flatnonzero(mask.numpy()))  # six times as fast as torch's
    if count is not None:
        return torch.nonzero_static(mask, size=count).view(-1)
    return mask.nonzero().view(-1)


def edge_rows(row_ptr: Tensor, col: Tensor) -> Tensor:
    """The row of each entry of a CSR matrix, ``[entries]`` int64.

    Spare entries, past the end of the last row, get the last row.
    """
    rows = len(row_ptr) - 1
    if on_cpu(row_ptr) and int(row_ptr[-1]) == len(col):
        return repeat_each(torch.arange(rows), row_ptr.diff(), len(col))
    entries = torch.arange(len(col), device=col.device, dtype=row_ptr.dtype)
    return (torch.searchsorted(row_ptr, entries, right=True) - 1).clamp_(max=rows - 1)


def without_spare(values: Tensor, row_ptr: Tensor) -> Tensor:
    """``[entries]`` values, zero for the entries past the end of the last row."""
    if on_cpu(values):
        return values  # the CPU has no spare entries
    inside = torch.arange(len(values), device=values.device) < row_ptr[-1]
    return torch.where(inside, values, 0)


def with_self_entries(row_ptr: Tensor, col: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Add an entry at the start of each row of a CSR matrix: the row itself.

    Args:
        row_ptr: ``[rows + 1]``
        col: ``[entries]``
        own: ``[rows]``, the index of each row in ``col``

    Returns:
        the new ``row_ptr`` and ``col``
    """
    rows = torch.arange(len(row_ptr), dtype=row_ptr.dtype, device=col.device)
    wider = row_ptr + rows
    entries = torch.arange(len(col), device=col.device)
    out = torch.empty(len(col) + len(own), dtype=col.dtype, device=col.device)
    out[wider[:-1].long()] = own.to(col.dtype)
    out[entries + edge_rows(row_ptr, col) + 1] = col
    return wider, out


def copied_runs(
    values: Tensor,
    start: Tensor,
    node: Tensor,
    ptr: Tensor,
    total: int,
    *,
    shift: Tensor | None = None,
    fill: int = 0,
) -> Tensor:
    """The runs of some nodes, one after the other.

    Args:
        values: ``[values]`` of all runs
        start: ``[nodes + 1]``, the first value of each run
        node: ``[rows]``, the nodes whose runs are copied
        ptr: ``[rows + 1]``, where each of them begins in the result
        total: length of the result
        shift: ``[rows]``, added to the values of each row
        fill: the rest of the result, past ``ptr[-1]``

    Returns:
        ``[total]`` of the type of ``values``
    """
    if (kernels := kernels_for(values)) is not None:
        return kernels.copied_runs(values, start, node, ptr, total, shift, fill)
    places = torch.arange(total, device=ptr.device)
    row = edge_rows(ptr, places)
    first = start.index_select(0, node) - ptr[:-1]
    at = (first.index_select(0, row) + places).clamp_(0, max(len(values) - 1, 0))
    found = values.index_select(0, at)
    if shift is not None:
        found = found + shift.index_select(0, row)
    return torch.where(places < ptr[-1], found, fill).to(values.dtype)
