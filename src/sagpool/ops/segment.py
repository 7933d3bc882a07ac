"""Reductions over runs of consecutive rows, and their top rows; losses of each member's graphs."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import kernels_for, on_cpu
from sagpool.ops.propagate import csr_matrix, sum_of_rows


def segment_sum(x: Tensor, ptr: Tensor, segment: Tensor) -> Tensor:
    """Sum over the rows of each segment.

    Args:
        x: ``[rows, channels]``
        ptr: ``[segments + 1]``, the first row of each segment, and the end
        segment: ``[rows]`` int64, the segment of each row

    Returns:
        ``[segments, channels]``
    """
    return _SegmentSum.apply(x, x.new_ones(len(x)), ptr, segment)


def segment_mean(x: Tensor, ptr: Tensor, segment: Tensor) -> Tensor:
    """Mean over the rows of each segment, ``[segments, channels]``; 0 for an empty segment."""
    weight = 1 / ptr.diff().to(x.dtype)
    return _SegmentSum.apply(x, weight[segment], ptr, segment)


def segment_max(x: Tensor, ptr: Tensor, segment: Tensor) -> Tensor:
    """Maximum over the rows of each segment, ``[segments, channels]``; undefined for an empty one.

    If several rows have the maximum, one of them gets its gradient; by torch's operations on CUDA,
    each an equal part. Rows past the last segment get no gradient.
    """
    if kernels_for(x) is not None:
        return _SegmentMax.apply(x, ptr)
    segments = len(ptr) - 1
    if on_cpu(x):
        rows = torch.arange(len(x))
        belongs = csr_matrix(ptr.long(), rows, x.new_ones(len(x)), len(x))
        return torch.sparse.mm(belongs, x, "amax")
    lowest = x.new_full((segments, x.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, segment[:, None].expand_as(x), x, "amax")


def segment_mean_max(x: Tensor, ptr: Tensor, segment: Tensor) -> Tensor:
    """Mean ‖ maximum over the rows of each segment, ``[segments, 2 * channels]``."""
    if kernels_for(x) is not None:
        return _SegmentMeanMax.apply(x, ptr)
    return torch.cat([segment_mean(x, ptr, segment), segment_max(x, ptr, segment)], dim=1)


def segment_expand(values: Tensor, ptr: Tensor, segment: Tensor) -> Tensor:
    """Each segment's values at each of its rows, ``[rows, channels]``."""
    return _SegmentExpand.apply(values, ptr, segment)


def segment_softmax(x: Tensor, ptr: Tensor, segment: Tensor) -> Tensor:
    """Softmax over the rows of each segment, separately in each channel, ``[rows, channels]``."""
    # The result does not depend on the shift, so it needs no gradient.
    largest = segment_max(x.detach(), ptr, segment)
    # Spare rows refer to the last segment without being a part of it, and may be larger.
    exponential = (x - torch.maximum(largest[segment], x.detach())).exp()
    # The largest adds 1; only empty segments, which spare rows refer to, have less.
    total = segment_sum(exponential, ptr, segment).clamp(min=1)
    return exponential / segment_expand(total, ptr, segment)


class _SegmentSum(Function):
    """Weighted sum; its backward pass is a gather instead of autograd's scatter."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, ptr: Tensor, segment: Tensor) -> Tensor:
        ctx.save_for_backward(weight, ptr, segment)
        return _sum_of_runs(x, ptr, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, ptr, segment = ctx.saved_tensors
        grad = grads[0].contiguous()
        one_each = torch.arange(len(segment) + 1, device=grad.device)
        one_each = torch.minimum(one_each, ptr[-1])  # none for rows past the last segment
        return sum_of_rows(grad, one_each, segment, weight), None, None, None


class _SegmentMax(Function):
    """By kernels, without atomics."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor) -> Tensor:
        kernels = kernels_for(x)
        assert kernels is not None
        if _are_long(x, ptr):
            both, arg = kernels.mean_and_max(x, ptr)
            out = both[:, x.shape[1] :]
        else:
            rows = torch.arange(len(x), device=x.device, dtype=torch.int32)
            out, arg = kernels.max_of_rows(x, ptr, rows)
        ctx.save_for_backward(arg, ptr)
        ctx.rows = len(x)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        arg, ptr = ctx.saved_tensors
        return spread_to_rows(grads[0], arg, ptr, ctx.rows), None


def spread_to_rows(grad: Tensor, arg: Tensor, ptr: Tensor, rows: int) -> Tensor:
    """The gradient of a maximum, ``[rows, channels]``: each number goes to the row ``arg``.

    Args:
        grad: ``[runs, channels]``
        arg: ``[runs, channels]`` int32
        ptr: ``[runs + 1]``; an empty run passes nothing on
        rows: number of rows
    """
    passed = torch.where((ptr.diff() > 0)[:, None], grad, 0)
    return grad.new_zeros(rows, grad.shape[1]).scatter_add_(0, arg.long(), passed)


class _SegmentMeanMax(Function):
    """One pass over x, and one over its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor) -> Tensor:
        ctx.kernels, ctx.rows = kernels_for(x), len(x)
        out, arg = ctx.kernels.mean_and_max(x, ptr)
        ctx.save_for_backward(arg, ptr)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        arg, ptr = ctx.saved_tensors
        grad = grads[0].contiguous()
        return ctx.kernels.mean_and_max_backward(grad, arg, ptr, ctx.rows), None


class _SegmentExpand(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ptr: Tensor, segment: Tensor) -> Tensor:
        ctx.save_for_backward(ptr)
        return values.index_select(0, segment)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (ptr,) = ctx.saved_tensors
        grad = grads[0].contiguous()
        return _sum_of_runs(grad, ptr, grad.new_ones(len(grad))), None, None


# Rows of a run on average, from which on each has a program of its own.
_LONG = 8


def _are_long(x: Tensor, ptr: Tensor) -> bool:
    return len(x) >= _LONG * (len(ptr) - 1)


def _sum_of_runs(x: Tensor, ptr: Tensor, weight: Tensor) -> Tensor:
    """The weighted sum of the rows of each run; not differentiable."""
    kernels = kernels_for(x)
    if kernels is not None and _are_long(x, ptr):
        return kernels.sum_of_runs(x, ptr, weight)
    rows = torch.arange(len(x), device=x.device, dtype=ptr.dtype)
    return sum_of_rows(x, ptr, rows, weight)


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
    if on_cpu(score):
        mask = top_on_cpu(score.detach(), graph.numpy(), ptr.numpy()[:-1], counts.numpy())
        return torch.from_numpy(mask)
    start = ptr[:-1]
    # Sorts by graph first, then by descending score.
    key = (graph << 32) + descending_bits(score.detach())
    in_order = torch.sort(key).values
    last = in_order.index_select(0, start + counts - 1)
    level = last.index_select(0, graph)
    above = torch.searchsorted(in_order, last) - start  # rows strictly above the last kept
    tied = key == level
    ties_so_far = torch.cumsum(tied, 0)
    ties_before = ties_so_far[start] - tied[start].long()
    spare = counts - above + ties_before
    return (key <= level) & ~(tied & (ties_so_far > spare.index_select(0, graph)))


def top_on_cpu(
    score: Tensor, graph: np.ndarray, start: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """`top_of_each` with NumPy, which sorts several times as fast and takes less time per call.

    Args:
        score: ``[rows]`` without a gradient
        graph: ``[rows]``, ascending
        start: ``[graphs]``, the first row of each graph
        counts: ``[graphs]``
    """
    key = (graph << 32) + descending_keys(score)
    in_order = np.sort(key)
    last = in_order[start + counts - 1]
    level = last[graph]
    mask = key <= level
    if np.count_nonzero(mask) == counts.sum():
        return mask  # no tie to break
    tied = np.flatnonzero(key == level)  # by graph, ascending
    of_graph = graph[tied]
    above = np.searchsorted(in_order, last) - start
    place = np.arange(len(tied)) - np.searchsorted(of_graph, of_graph)  # among the tied
    mask[tied[place >= (counts - above)[of_graph]]] = False
    return mask


def descending_bits(score: Tensor) -> Tensor:
    """``[rows]`` int32, smaller for a higher score, equal for equal ones.

    Wider types are ranked as float32: nodes with the same neighbourhood have equal scores up to
    rounding, and rounding in the 52nd bit must not decide between them.
    """
    bits = (score.float() + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    ascending = bits ^ ((bits >> 31) & _ALL_BUT_SIGN)
    return ~ascending


def descending_keys(score: Tensor) -> np.ndarray:
    """`descending_bits` of a score without a gradient on the CPU."""
    bits = (score.float().numpy() + np.float32(0)).view(np.int32)
    return ~(bits ^ ((bits >> 31) & _ALL_BUT_SIGN))


def cross_entropy_sums(
    logits: Tensor,
    y: Tensor,
    real: Tensor,
    auxiliary: Tensor | None = None,
    class_weight: Tensor | None = None,
) -> Tensor:
    """``[members]`` cross-entropy and auxiliary losses, summed over each member's graphs.

    Args:
        logits: ``[members, graphs, classes]``
        y: ``[members, graphs]`` int64 classes
        real: ``[members, graphs]`` bool; the others do not count
        auxiliary: ``[members, graphs]``
        class_weight: ``[members, classes]``, by which the loss of a graph of that class is
            multiplied
    """
    # Masks, not products: the loss of a filler may be NaN, and 0 · NaN is NaN.
    if kernels_for(logits) is not None and class_weight is None:
        sums = _CrossEntropySums.apply(logits.contiguous(), y, real)
        return sums if auxiliary is None else sums + torch.where(real, auxiliary, 0).sum(1)
    loss = -logits.log_softmax(2).gather(2, y[..., None]).squeeze(2)
    if class_weight is not None:
        loss = loss * class_weight.to(loss.dtype).gather(1, y)
    if auxiliary is not None:
        loss = loss + auxiliary
    return torch.where(real, loss, 0).sum(1)


class _CrossEntropySums(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, y: Tensor, real: Tensor) -> Tensor:
        ctx.save_for_backward(logits, y, real)
        kernels = kernels_for(logits)
        assert kernels is not None
        return kernels.cross_entropy_sums(logits, y, real)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        logits, y, real = ctx.saved_tensors
        kernels = kernels_for(logits)
        assert kernels is not None
        grad = kernels.cross_entropy_sums_backward(grads[0].contiguous(), logits, y, real)
        return grad, None, None
