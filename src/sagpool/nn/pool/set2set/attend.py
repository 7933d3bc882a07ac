"""Attention of one query per graph over the rows of that graph, as Set2Set repeats it.

Not differentiable; the building blocks of what is. They write into memory that is given to them,
so that the results of all steps lie where one matrix product over all of them wants them.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from sagpool.nn.pool.set2set.device import kernels_for
from sagpool.ops.propagate import sum_of_rows
from sagpool.ops.segment import segment_max, segment_sum

_BLOCK = 4096


class Segments(NamedTuple):
    """Which rows belong to which graph."""

    ptr: Tensor  # [members * graphs + 1] int64, the first row of each graph, and the end
    segment: Tensor  # [rows] int64, the graph of each row
    filler: bool  # whether the last graph of each member is one whose results nobody looks at


def attend(x: Tensor, query: Tensor, segments: Segments, out: Tensor) -> tuple[Tensor, Tensor]:
    """``e_i = x_i · q_g``, ``a = softmax(e)`` over the rows i of graph g, ``r_g = Σ a_i x_i``.

    Args:
        x: ``[rows, channels]``, contiguous
        query: q, ``[members, graphs, channels]``
        segments: of the rows; no graph is empty
        out: ``[members, graphs, channels]``, where r is written to

    Returns:
        what the backward needs: e, ``[rows]``, and log Σ exp(e), ``[members * graphs]``
    """
    ptr, segment, filler = segments
    if (kernels := kernels_for(x)) is not None:
        return kernels.attend(x, query, ptr, out, filler=filler)
    energy = _dots(x, query, segment)[:, None]
    largest = segment_max(energy, ptr, segment)
    exponential = (energy - largest.index_select(0, segment)).exp_()
    total = segment_sum(exponential, ptr, segment)
    share = exponential.div_(total.index_select(0, segment)).view(-1)
    out.copy_(_sums(x, share, ptr).view(out.shape))
    return energy.view(-1), total.log_().add_(largest).view(-1)


class Back(NamedTuple):
    """What a row sends back: ``share * grad_g + slope * q_g`` to x."""

    share: Tensor  # [rows] a_i
    slope: Tensor  # [rows] the gradient of e_i


def attend_backward(
    x: Tensor,
    energy: Tensor,
    level: Tensor,
    out: Tensor,
    grad: Tensor,
    grad_query: Tensor,
    segments: Segments,
) -> Back:
    """The gradient of one step, but for that of x, which `attend_backward_rows` makes of all.

    ``slope_i = a_i (x_i · grad_g - Σ_j a_j x_j · grad_g)``, where the last sum is ``r_g · grad_g``.

    Args:
        x: ``[rows, channels]``, contiguous
        energy: ``[rows]``, and
        level: ``[members * graphs]``, both from the forward
        out: r, ``[members, graphs, channels]``
        grad: of r, likewise
        grad_query: likewise; ``Σ slope_i x_i``, the gradient of q, is added to it
        segments: of the rows
    """
    ptr, segment, filler = segments
    if (kernels := kernels_for(x)) is not None:
        return Back(
            *kernels.attend_backward(x, energy, level, out, grad, grad_query, ptr, filler=filler)
        )
    share = (energy - level.index_select(0, segment)).exp_()
    mean = (out * grad).sum(2).view(-1)
    slope = _dots(x, grad, segment).sub_(mean.index_select(0, segment)).mul_(share)
    grad_query += _sums(x, slope, ptr).view(grad_query.shape)
    return Back(share, slope)


def attend_backward_rows(
    share: Tensor, slope: Tensor, query: Tensor, grad: Tensor, segments: Segments
) -> Tensor:
    """``Σ_s share_s grad_s + slope_s q_s``, the gradient of x from all steps, ``[rows, channels]``.

    Step by step, as many matrices as large as x would be filled and added up.

    Args:
        share: ``[steps, rows]``
        slope: ``[steps, rows]``
        query: q, ``[members, steps, graphs, channels]``
        grad: of r, likewise
        segments: of the rows
    """
    ptr, segment, filler = segments
    if (kernels := kernels_for(share)) is not None:
        return kernels.attend_backward_rows(share, slope, query, grad, ptr, filler=filler)
    channels = query.shape[3]
    # Each row is the sum of two vectors of each step.
    vectors = torch.stack([grad, query]).permute(0, 2, 1, 3, 4).reshape(-1, channels)
    weight = torch.cat([share, slope]).T.contiguous()  # [rows, 2 * steps]
    rows, count = weight.shape
    offset = torch.arange(count, device=share.device) * (len(ptr) - 1)
    index = (segment[:, None] + offset).view(-1)
    row_ptr = torch.arange(rows + 1, device=share.device) * count
    return sum_of_rows(vectors, row_ptr, index, weight.view(-1))


def _dots(x: Tensor, vectors: Tensor, segment: Tensor) -> Tensor:
    """The dot product of each row with its graph's vector, ``[rows]``."""
    vectors = vectors.reshape(-1, x.shape[1])
    # Block by block: what is held in between stays in the cache.
    blocks = zip(x.split(_BLOCK), segment.split(_BLOCK), strict=True)
    return torch.cat([vectors.index_select(0, s).mul_(part).sum(1) for part, s in blocks])


def _sums(x: Tensor, weight: Tensor, ptr: Tensor) -> Tensor:
    """The weighted sum of each graph's rows, ``[graphs, channels]``."""
    return sum_of_rows(x, ptr, torch.arange(len(x), device=x.device), weight)
