"""Several masks: each of M scores keeps its own nodes, and gives its own pooled graph.

Later layers see the M pooled graphs of a member's graphs as those of M members: the first pooling
with masks repeats the rows of each member M times, and mask m keeps nodes of copy m. Later poolings
find the copies, and mask m continues with copy m. Rows of a member stay together, so
``x.view(members, ...)`` still matches its weights, which all its masks share.
"""

from torch import Tensor


def each_its_copy(scores: Tensor, members: int) -> Tensor:
    """Scores of each copy from scores of rows that are not repeated yet, ``[rows, masks]``."""
    masks = scores.shape[1]
    return scores.view(members, -1, masks).transpose(1, 2).reshape(-1)


def each_its_own(scores: Tensor, members: int) -> Tensor:
    """Score m of copy m, ``[rows]``, from the scores of all copies, ``[rows, masks]``."""
    masks = scores.shape[1]
    stacked = scores.view(members, masks, -1, masks)  # [members, copies, rows, masks]
    return stacked.diagonal(dim1=1, dim2=3).transpose(1, 2).reshape(-1)


def side_by_side(read: Tensor, members: int, masks: int) -> Tensor:
    """The readouts of all copies of a graph in one row, ``[members * graphs, masks * channels]``.

    Args:
        read: ``[members * masks * graphs, channels]``
        members: how many models train side by side
        masks: number of copies of the graphs of each member
    """
    stacked = read.view(members, masks, -1, read.shape[1])  # [members, masks, graphs, channels]
    return stacked.transpose(1, 2).reshape(-1, masks * read.shape[1])
