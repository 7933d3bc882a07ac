"""Copies: the rows of each member several times in a row, each time as a member of its own."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from sagpool.ops.ragged import edge_rows


def repeated_rows(x: Tensor, rows_each: int, copies: int) -> Tensor:
    """The rows of each member so many times, ``[copies * rows, channels]``.

    Args:
        x: ``[rows, channels]``
        rows_each: rows of one member
        copies: how often
    """
    stacked = x.view(-1, 1, rows_each, x.shape[1])  # [members, 1, rows, channels]
    return stacked.expand(-1, copies, -1, -1).reshape(-1, x.shape[1])


def repeated_csr(
    row_ptr: Tensor, col: Tensor, rows_each: int, copies: int
) -> tuple[Tensor, Tensor]:
    """``row_ptr`` and ``col`` of the copies, none of which has entries for rows of another.

    Args:
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32, of rows of the same member
        rows_each: rows of one member
        copies: how often
    """
    number = torch.arange(copies * (len(row_ptr) - 1), device=col.device)
    # [new rows] the row of which each is a copy
    row = number // (copies * rows_each) * rows_each + number % rows_each
    length = row_ptr.diff().index_select(0, row)
    new_ptr = pad(torch.cumsum(length, 0, dtype=torch.int32), (1, 0))
    spare = col.new_full((copies * len(col),), len(number) - 1)
    to = edge_rows(new_ptr, spare)
    entry = torch.arange(len(spare), device=spare.device)
    inside = entry < new_ptr[-1]  # on a GPU there may be spare entries
    own = entry - new_ptr.index_select(0, to) + row_ptr.index_select(0, row[to])
    shifted = col.index_select(0, own.clamp(max=len(col) - 1)) + (to - row[to]).int()
    return new_ptr, torch.where(inside, shifted, spare)
