"""Mean and maximum of Sᵀ X over the clusters of each graph, without storing Sᵀ X."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.clusters.segments import SegmentPtr
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import (
    DEPTH,
    HEIGHT,
    dot,
    precision,
    span,
    split,
    tile_of,
    tile_rows,
    warps_of,
)

MAX_WIDTH = 128


def pooled_mean_max(
    assignment: Tensor, x: Tensor, segments: SegmentPtr, clusters: int
) -> tuple[Tensor, Tensor]:
    """Mean ‖ maximum over the clusters of ``Sᵀ X``, and the cluster of each maximum.

    Args:
        assignment: S, ``[rows, clusters]``, or more columns, which are zero
        x: ``[rows, channels]``
        segments: of the rows
        clusters: how many there are

    Returns:
        ``[graphs, 2 * channels]``, and ``[graphs, channels]`` int32: the first such cluster
    """
    graphs, channels = segments.graphs, x.shape[1]
    out = x.new_empty(graphs, 2 * channels)
    arg = torch.empty(graphs, channels, dtype=torch.int32, device=x.device)
    width = tile_of(channels, MAX_WIDTH)
    across = triton.cdiv(channels, width)
    _pooled_mean_max[(graphs * across,)](
        assignment, x, segments.ptr, out, arg, clusters, assignment.shape[1], channels, across,
        segments.period,
        PRECISION=precision(), HEIGHT=HEIGHT, WIDTH=width, DEPTH=DEPTH,
        num_warps=warps_of(HEIGHT, width),
    )  # fmt: skip
    return out, arg


@kernel(do_not_specialize=["clusters", "across", "period"])
def _pooled_mean_max(
    assignment, x, ptr, out, arg, clusters, columns, channels, across, period,
    PRECISION: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    graph = program // across
    j = (program % across) * WIDTH + tl.arange(0, WIDTH)
    in_j = j < channels
    start, end, _ = span(ptr, graph, period)
    # Offsets into whole tensors need 64 bits; within a graph 32 are enough.
    assignment += start.to(tl.int64) * columns
    x += start.to(tl.int64) * channels
    summed = tl.zeros((WIDTH,), tl.float32)
    largest = tl.full((WIDTH,), float("-inf"), tl.float32)
    where = tl.zeros((WIDTH,), tl.int32)
    for first_i in range(0, clusters, HEIGHT):
        i = first_i + tl.arange(0, HEIGHT)
        in_i = i < clusters
        total = tl.zeros((HEIGHT, WIDTH), tl.float32)
        for first in range(0, end - start, DEPTH):
            row = first + tl.arange(0, DEPTH)
            in_rows = row < end - start
            left = tl.load(
                assignment + (row[None, :] * columns + i[:, None]),
                mask=in_rows[None, :] & (i < columns)[:, None],
                other=0.0,
            )
            right = tl.load(
                x + (row[:, None] * channels + j[None, :]),
                mask=in_rows[:, None] & in_j[None, :],
                other=0.0,
            )
            total = dot(left, right, total, PRECISION)
        summed += tl.sum(total, 0)
        # NaN is no candidate; the sum below brings it back.
        candidates = tl.where(in_i[:, None] & (total == total), total, float("-inf"))
        best, at = tl.max(candidates, 0, return_indices=True)
        better = best > largest
        largest = tl.where(better, best, largest)
        where = tl.where(better, (first_i + at).to(tl.int32), where)
    largest = tl.where(summed != summed, summed, largest)
    place = out + graph.to(tl.int64) * 2 * channels + j
    tl.store(place, summed / clusters, mask=in_j)
    tl.store(place + channels, largest, mask=in_j)
    tl.store(arg + graph.to(tl.int64) * channels + j, where, mask=in_j)


def pooled_mean_max_backward(
    grad: Tensor,
    arg: Tensor,
    assignment: Tensor,
    x: Tensor,
    segments: SegmentPtr,
    clusters: int,
    into: Tensor,
) -> Tensor:
    """The gradient of X, ``[rows, channels]``; that of S is added to ``into``.

    The rows of S sum to 1, so the mean does not depend on S.

    Args:
        grad: of the mean ‖ maximum, ``[graphs, 2 * channels]``
        arg: ``[graphs, channels]`` int32
        assignment: S, as for `pooled_mean_max`
        x: ``[rows, channels]``
        segments: of the rows
        clusters: how many there are
        into: the gradient of S
    """
    columns, channels = assignment.shape[1], x.shape[1]
    grad_x, tiles = torch.empty_like(x), segments.tiles
    width = tile_of(channels, MAX_WIDTH)
    across = triton.cdiv(channels, width)
    _backward_to_x[(len(tiles) * across,)](
        grad, arg, assignment, segments.ptr, tiles, grad_x, clusters, columns, channels, across,
        segments.period,
        HEIGHT=HEIGHT, WIDTH=width, num_warps=warps_of(HEIGHT, width, 16),
    )  # fmt: skip
    width = tile_of(columns, 64)
    across = triton.cdiv(columns, width)
    _backward_to_assignment[(len(tiles) * across,)](
        grad, arg, x, segments.ptr, tiles, into, columns, channels, across, segments.period,
        PRECISION=precision(), HEIGHT=HEIGHT, WIDTH=width, DEPTH=DEPTH,
        num_warps=warps_of(HEIGHT, width),
    )  # fmt: skip
    return grad_x


@kernel(do_not_specialize=["clusters", "across", "period"])
def _backward_to_x(
    grad, arg, assignment, ptr, tiles, grad_x, clusters, columns, channels, across, period,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    graph, first, _, counts, end = tile_rows(tiles, ptr, program // across, period, HEIGHT)
    if first >= end:
        return
    j = (program % across) * WIDTH + tl.arange(0, WIDTH)
    in_j = j < channels
    graph, row = graph.to(tl.int64), first + tl.arange(0, HEIGHT)
    place = grad + graph * 2 * channels + j
    of_mean = tl.load(place, mask=in_j, other=0.0) / clusters
    of_max = tl.load(place + channels, mask=in_j, other=0.0)
    where = tl.load(arg + graph * channels + j, mask=in_j, other=0)
    at = row.to(tl.int64)[:, None]
    counted = (row < counts)[:, None] & in_j[None, :]
    chosen = tl.load(assignment + at * columns + where[None, :], mask=counted, other=0.0)
    values = tl.where(counted, of_mean[None, :] + chosen * of_max[None, :], 0.0)
    tl.store(grad_x + at * channels + j[None, :], values, mask=(row < end)[:, None] & in_j[None, :])


@kernel(do_not_specialize=["across", "period"])
def _backward_to_assignment(
    grad, arg, x, ptr, tiles, grad_assignment, columns, channels, across, period,
    PRECISION: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """X times the gradient of the maximum, in the column of the cluster that has the maximum."""
    program = tl.program_id(0)
    graph, first, _, counts, _ = tile_rows(tiles, ptr, program // across, period, HEIGHT)
    if first >= counts:
        return
    j = (program % across) * WIDTH + tl.arange(0, WIDTH)
    graph, i = graph.to(tl.int64), tl.arange(0, HEIGHT)
    in_rows = (first + i < counts)[:, None]
    of_max = grad + (2 * graph + 1) * channels
    arg += graph * channels
    x += first.to(tl.int64) * channels
    total = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for step in range(0, channels, DEPTH):
        k = step + tl.arange(0, DEPTH)
        in_k = k < channels
        left = tl.load(
            x + (i[:, None] * channels + k[None, :]), mask=in_rows & in_k[None, :], other=0.0
        )
        left *= tl.load(of_max + k, mask=in_k, other=0.0)[None, :]
        where = tl.load(arg + k, mask=in_k, other=-1)
        right = (where[:, None] == j[None, :]).to(tl.float32)
        if PRECISION == "tf32x3":  # zeros and ones are exact in tf32: only the left factor is split
            large, small = split(left)
            part = tl.dot(small, right, input_precision="tf32")
            total += tl.dot(large, right, part, input_precision="tf32")
        else:
            total = dot(left, right, total, PRECISION)
    place = grad_assignment + (first.to(tl.int64) + i)[:, None] * columns + j[None, :]
    mask = in_rows & (j < columns)[None, :]
    tl.store(place, tl.load(place, mask=mask, other=0.0) + total, mask=mask)
