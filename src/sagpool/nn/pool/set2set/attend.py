"""Attention of one query per graph over the rows of that graph: one step of Set2Set.

Not differentiable; `Set2Set` builds on it. Results are written into buffers of the caller, so that
the results of all steps are contiguous for a single matrix product.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from sagpool.nn.pool.set2set.device import kernels_for
from sagpool.ops.propagate import dots_of_rows, sum_of_rows
from sagpool.ops.segment import segment_max, segment_sum


class Segments(NamedTuple):
    """Which rows belong to which graph."""

    ptr: Tensor  # [members * graphs + 1] int64, the first row of each graph, and the end
    segment: Tensor  # [rows] int64, the graph of each row
    filler: bool  # whether the last graph of each member is a filler, whose results are unused


def attend(x: Tensor, query: Tensor, segments: Segments, out: Tensor) -> tuple[Tensor, Tensor]:
    """``e_i = x_i · q_g``, ``a = softmax(e)`` over the rows i of graph g, ``r_g = Σ a_i x_i``.

    Args:
        x: ``[rows, channels]``, contiguous
        query: q, ``[members, graphs, channels]``
        segments: segments of the rows; no graph is empty
        out: ``[members, graphs, channels]``, the buffer for r

    Returns:
        for the backward pass: e, ``[rows]``, and log Σ exp(e), ``[members * graphs]``
    """
    ptr, segment, filler = segments
    if (kernels := kernels_for(x)) is not None:
        return kernels.attend(x, query, ptr, out, filler=filler)
    energy = _dots(x, query, segment)[:, None]
    largest = segment_max(energy, ptr, segment)
    exponential = (energy - largest.index_select(0, segment)).exp_()
    total = segment_sum(exponential, ptr, segment)
    alpha = exponential.div_(total.index_select(0, segment)).view(-1)
    out.copy_(_sums(x, alpha, ptr).view(out.shape))
    return energy.view(-1), total.log_().add_(largest).view(-1)


class RowGradients(NamedTuple):
    """The gradient of a row of x is ``alpha * grad_g + slope * q_g``."""

    alpha: Tensor  # [rows] a_i
    slope: Tensor  # [rows] the gradient of e_i


def attend_backward(
    x: Tensor,
    energy: Tensor,
    level: Tensor,
    out: Tensor,
    grad: Tensor,
    grad_query: Tensor,
    segments: Segments,
) -> RowGradients:
    """The gradients of one step, except for x: see `attend_backward_rows`.

    ``slope_i = a_i (x_i · grad_g - Σ_j a_j x_j · grad_g)``, where the last sum is ``r_g · grad_g``.

    Args:
        x: ``[rows, channels]``, contiguous
        energy: ``[rows]``, from the forward pass
        level: ``[members * graphs]``, from the forward pass
        out: r, ``[members, graphs, channels]``
        grad: gradient of r, likewise
        grad_query: likewise; ``Σ slope_i x_i``, the gradient of q, is added to it
        segments: segments of the rows
    """
    ptr, segment, filler = segments
    if (kernels := kernels_for(x)) is not None:
        return RowGradients(
            *kernels.attend_backward(x, energy, level, out, grad, grad_query, ptr, filler=filler)
        )
    alpha = (energy - level.index_select(0, segment)).exp_()
    mean = (out * grad).sum(2).view(-1)
    slope = _dots(x, grad, segment).sub_(mean.index_select(0, segment)).mul_(alpha)
    grad_query += _sums(x, slope, ptr).view(grad_query.shape)
    return RowGradients(alpha, slope)


def attend_backward_rows(
    alpha: Tensor, slope: Tensor, query: Tensor, grad: Tensor, segments: Segments
) -> Tensor:
    """``Σ_s alpha_s grad_s + slope_s q_s``, the gradient of x from all steps, ``[rows, channels]``.

    Otherwise each step would allocate and add a matrix of the size of x.

    Args:
        alpha: ``[steps, rows]``
        slope: ``[steps, rows]``
        query: q, ``[members, steps, graphs, channels]``
        grad: gradient of r, likewise
        segments: segments of the rows
    """
    ptr, segment, filler = segments
    if (kernels := kernels_for(alpha)) is not None:
        return kernels.attend_backward_rows(alpha, slope, query, grad, ptr, filler=filler)
    channels = query.shape[3]
    # Each row is the sum of two vectors of each step.
    vectors = torch.stack([grad, query]).permute(0, 2, 1, 3, 4).reshape(-1, channels)
    weight = torch.cat([alpha, slope]).T.contiguous()  # [rows, 2 * steps]
    rows, count = weight.shape
    offset = torch.arange(count, device=alpha.device) * (len(ptr) - 1)
    index = (segment[:, None] + offset).view(-1)
    row_ptr = torch.arange(rows + 1, device=alpha.device) * count
    return sum_of_rows(vectors, row_ptr, index, weight.view(-1))


def _dots(x: Tensor, vectors: Tensor, segment: Tensor) -> Tensor:
    """The dot product of each row with its graph's vector, ``[rows]``."""
    return dots_of_rows(vectors.reshape(-1, x.shape[1]), segment, x)


def _sums(x: Tensor, weight: Tensor, ptr: Tensor) -> Tensor:
    """The weighted sum of each graph's rows, ``[graphs, channels]``."""
    return sum_of_rows(x, ptr, torch.arange(len(x), device=x.device), weight)
