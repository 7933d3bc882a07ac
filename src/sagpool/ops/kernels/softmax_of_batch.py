"""The softmax over the rows of each graph of a sorted batch, and the rows above a score."""

import torch
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.marked_graph import Marks
from sagpool.ops.kernels.raw_score import RawScore, raw_score
from sagpool.ops.kernels.tiles import blocks
from sagpool.ops.kernels.top_of_batch import report_unsorted, rows_of_same_graph

_TILE, _CHUNK = 32, 64


def above_of_batch(
    score: RawScore, batch: Tensor, least: float, rounding: float, totals: Tensor
) -> tuple[Marks, Tensor]:
    """Mark the rows whose softmax is above ``least``; see `sagpool.ops.rows_above`.

    Every program reads all rows of its graphs, so they must not be too many: see `can_count`.

    Args:
        score: of the rows, float32, as Triton passes the limits
        batch: ``[rows]`` int64, contiguous
        least: the limit
        rounding: rows that are lower by less than this count as equal
        totals: as for `top_by_counting`

    Returns:
        the marks, and ``[rows]`` the softmax
    """
    rows = len(score.projected)
    softmax = torch.empty_like(score.projected)
    tiles = blocks(rows, _TILE)
    mask = torch.empty(rows, dtype=torch.bool, device=softmax.device)
    counts = torch.empty(tiles, dtype=torch.int32, device=softmax.device)
    _above_of_batch[(tiles,)](
        batch=batch, softmax=softmax, mask=mask.view(torch.uint8), counts=counts, totals=totals,
        least=least, rounding=rounding, rows=rows, steps=rows.bit_length(), **score.arguments(),
        TILE=_TILE, CHUNK=_CHUNK, num_warps=4,
    )  # fmt: skip
    return Marks(mask, counts, _TILE), softmax


@kernel(do_not_specialize=["rows", "steps"])
def _above_of_batch(
    projected, bias, degree, received, batch, softmax, mask, counts, totals, least, rounding, rows,
    steps,
    GCN: tl.constexpr, BIASED: tl.constexpr, TILE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = row < rows
    own = raw_score(projected, bias, degree, received, row, inside, GCN, BIASED)
    graph, start, end = rows_of_same_graph(batch, row, rows, steps)
    report_unsorted(batch, graph, row, rows, totals)
    low = tl.min(tl.where(inside, start, rows), 0)
    high = tl.max(tl.where(inside, end, 0), 0)
    highest = tl.full((TILE, CHUNK), float("-inf"), own.dtype)
    for first in range(low, high, CHUNK):
        other = first + tl.arange(0, CHUNK)
        value = raw_score(projected, bias, degree, received, other, other < high, GCN, BIASED)
        same = (other[None, :] >= start[:, None]) & (other[None, :] < end[:, None])
        highest = tl.maximum(highest, tl.where(same, value[None, :], float("-inf")))
    valid = inside & (row >= start) & (row < end)  # not every row of a batch that is not sorted is
    shift = tl.where(valid, tl.max(highest, 1), 0.0)
    total = tl.zeros((TILE, CHUNK), own.dtype)
    for first in range(low, high, CHUNK):
        other = first + tl.arange(0, CHUNK)
        value = raw_score(projected, bias, degree, received, other, other < high, GCN, BIASED)
        same = (other[None, :] >= start[:, None]) & (other[None, :] < end[:, None])
        total += tl.where(same, tl.exp(value[None, :] - shift[:, None]), 0.0)
    weight = tl.where(valid, tl.sum(total, 1), 1.0)
    value = tl.exp(own - shift) / weight
    limit = tl.minimum(1.0 / weight - rounding, least)
    # A graph with a NaN has no row above any limit, and keeps its first.
    chosen = (value > limit) | ((value != value) & (row == start))
    chosen = (chosen & inside).to(tl.int32)
    tl.store(softmax + row, value, mask=inside)
    tl.store(mask + row, chosen.to(tl.uint8), mask=inside)
    tl.store(counts + tl.program_id(0), tl.sum(chosen, 0))


def softmax_of_batch_backward(grad: Tensor, softmax: Tensor, batch: Tensor) -> Tensor:
    """The gradient of the scores.

    Args:
        grad: ``[rows]``, of the softmax
        softmax: ``[rows]``
        batch: ``[rows]`` int64, sorted, contiguous
    """
    rows = len(grad)
    out = torch.empty_like(grad)
    _softmax_of_batch_backward[(blocks(rows, _TILE),)](
        grad, softmax, batch, out, rows, rows.bit_length(),
        TILE=_TILE, CHUNK=_CHUNK, num_warps=4,
    )  # fmt: skip
    return out


@kernel(do_not_specialize=["rows", "steps"])
def _softmax_of_batch_backward(
    grad, softmax, batch, out, rows, steps, TILE: tl.constexpr, CHUNK: tl.constexpr
):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = row < rows
    _, start, end = rows_of_same_graph(batch, row, rows, steps)
    low = tl.min(tl.where(inside, start, rows), 0)
    high = tl.max(tl.where(inside, end, 0), 0)
    total = tl.zeros((TILE, CHUNK), out.dtype.element_ty)
    for first in range(low, high, CHUNK):
        other = first + tl.arange(0, CHUNK)
        present = other < high
        value = tl.load(softmax + other, mask=present, other=0.0)
        value *= tl.load(grad + other, mask=present, other=0.0)
        same = (other[None, :] >= start[:, None]) & (other[None, :] < end[:, None])
        total += tl.where(same, value[None, :], 0.0)
    own = tl.load(softmax + row, mask=inside, other=0.0)
    back = own * (tl.load(grad + row, mask=inside, other=0.0) - tl.sum(total, 1))
    tl.store(out + row, back, mask=inside)
