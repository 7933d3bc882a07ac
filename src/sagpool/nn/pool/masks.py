"""Several masks: each of M scores keeps nodes of its own, and has a pooled graph of its own.

To all that follows, the M pooled graphs of the graphs of a member are those of M members: the first
pooling with masks sees the rows of each member M times, and mask m keeps nodes of copy m. Later
poolings find the copies there, and mask m goes on with copy m. Rows of a member stay together, so
``x.view(members, ...)`` still meets its weights, which all its masks share.
"""

from torch import Tensor


def each_its_copy(scores: Tensor, members: int) -> Tensor:
    """Of the scores of rows that are not repeated yet, ``[rows, masks]``, those of each copy."""
    masks = scores.shape[1]
    return scores.view(members, -1, masks).transpose(1, 2).reshape(-1)


def each_its_own(scores: Tensor, members: int) -> Tensor:
    """Of the scores of all copies, ``[rows, masks]``, that of mask m for copy m, ``[rows]``."""
    masks = scores.shape[1]
    stacked = scores.view(members, masks, -1, masks)  # [members, copies, rows, masks]
    return stacked.diagonal(dim1=1, dim2=3).transpose(1, 2).reshape(-1)


def side_by_side(read: Tensor, members: int, masks: int) -> Tensor:
    """The readouts of all copies of a graph in one row, ``[members * graphs, masks * channels]``.

    Args:
        read: ``[members * masks * graphs, channels]``
        members: how many models train side by side
        masks: copies of the graphs of each member
    """
    stacked = read.view(members, masks, -1, read.shape[1])  # [members, masks, graphs, channels]
    return stacked.transpose(1, 2).reshape(-1, masks * read.shape[1])
