"""The top nodes of each graph."""

import numpy as np
import torch
from torch import Tensor

from sagpool.ops.device import on_cpu

_ALL_BUT_SIGN = 0x7FFFFFFF


def top_of_each(score: Tensor, graph: Tensor, ptr: Tensor, counts: Tensor) -> Tensor:
    """Mark the ``counts[g]`` rows with the highest scores of each graph g.

    Of equal scores the lower row is kept, on every device. Indices are not sorted: the scores are
    sorted as integers, and each row is compared with the last that is kept.

    Args:
        score: ``[rows]``
        graph: ``[rows]`` int64, the graph of each row, ascending
        ptr: ``[graphs + 1]`` int64, the first row of each graph, and the end
        counts: ``[graphs]`` int64, at least 1 and at most the rows of the graph

    Returns:
        ``[rows]`` bool
    """
    start = ptr[:-1]
    # Sorts by graph first, then by descending score.
    key = (graph << 32) + _descending(score.detach())
    in_order = _sort(key)
    last = in_order.index_select(0, start + counts - 1)
    level = last.index_select(0, graph)
    at_least = key <= level
    if on_cpu(key) and np.count_nonzero(at_least.numpy()) == int(counts.sum()):
        return at_least  # no tie to break
    above = torch.searchsorted(in_order, last) - start  # rows strictly above the last kept
    tied = key == level
    ties_so_far = torch.cumsum(tied, 0)
    ties_before = ties_so_far[start] - tied[start].long()
    spare = counts - above + ties_before
    return at_least & ~(tied & (ties_so_far > spare.index_select(0, graph)))


def _descending(score: Tensor) -> Tensor:
    """``[rows]`` int32, smaller for a higher score, equal for equal ones.

    Wider types are ranked as float32: nodes with the same neighbourhood have equal scores up to
    rounding, and rounding in the 52nd bit must not decide between them.
    """
    bits = (score.float() + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    ascending = bits ^ ((bits >> 31) & _ALL_BUT_SIGN)
    return ~ascending


def _sort(key: Tensor) -> Tensor:
    if on_cpu(key):
        return torch.from_numpy(np.sort(key.numpy()))  # several times as fast as torch's
    return torch.sort(key).values
