"""The softmax over neighbours in dense graphs."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.asap.matrices import GraphRows
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import HEIGHT, tile_rows

WIDTH = 32
LOW = tl.constexpr(-1e30)  # not -inf, whose difference from itself is NaN


def membership(query: Tensor, key: Tensor, weight: Tensor, rows: GraphRows, slope: float) -> Tensor:
    """``α_ij = softmax_j(LeakyReLU(query_i + key_j))`` over j with a positive weight and i itself.

    Args:
        query: ``[rows]``
        key: ``[rows]``
        weight: ``[rows, columns]``, a column for each row of the same graph
        rows: of the graphs
        slope: negative slope of the leaky ReLU

    Returns:
        ``[rows, columns]``
    """
    out = torch.empty_like(weight)
    _membership[(len(rows.tiles),)](
        query, key, weight, out, rows.tiles, rows.ptr, weight.stride(0), slope, rows.period,
        HEIGHT=HEIGHT, WIDTH=WIDTH, num_warps=4,
    )  # fmt: skip
    return out


def membership_backward(
    grad: Tensor, alpha: Tensor, query: Tensor, key: Tensor, rows: GraphRows, slope: float
) -> tuple[Tensor, Tensor]:
    """The gradients of ``query_i + key_j``, ``[rows, columns]``, and of the query, ``[rows]``."""
    of_sum, of_query = torch.empty_like(alpha), torch.zeros_like(query)
    _membership_backward[(len(rows.tiles),)](
        grad, alpha, query, key, of_sum, of_query, rows.tiles, rows.ptr, alpha.stride(0),
        grad.stride(0), slope, rows.period, HEIGHT=HEIGHT, WIDTH=WIDTH, num_warps=4,
    )  # fmt: skip
    return of_sum, of_query


@triton.jit
def _leaky(x, slope):
    return tl.where(x > 0, x, slope * x)


@kernel(do_not_specialize=["slope", "period"])
def _membership(
    query, key, weight, out, tiles, ptr, stride, slope, period,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    _, first, start, counts, _ = tile_rows(tiles, ptr, tl.program_id(0), period, HEIGHT)
    if first >= counts:
        return
    i = first - start + tl.arange(0, HEIGHT)
    nodes = counts - start
    in_i = i < nodes
    own = tl.load(query + start + i, mask=in_i, other=0.0)[:, None]
    base = start.to(tl.int64) * stride
    largest = tl.full((HEIGHT,), LOW, tl.float32)
    total = tl.zeros((HEIGHT,), tl.float32)
    for step in range(0, nodes, WIDTH):
        j = step + tl.arange(0, WIDTH)
        energy = _energy(own, key, weight, base, start, i, j, in_i, nodes, stride, slope)
        larger = tl.maximum(largest, tl.max(energy, 1))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(energy - larger[:, None]), 1)
        largest = larger
    for step in range(0, nodes, WIDTH):
        j = step + tl.arange(0, WIDTH)
        energy = _energy(own, key, weight, base, start, i, j, in_i, nodes, stride, slope)
        alpha = tl.exp(energy - largest[:, None]) / total[:, None]
        place = out + base + (i[:, None] * stride + j[None, :])
        tl.store(place, alpha, mask=in_i[:, None] & (j < nodes)[None, :])


@triton.jit
def _energy(own, key, weight, base, start, i, j, in_i, nodes, stride, slope):
    """``[HEIGHT, WIDTH]``, low where nodes are not joined."""
    in_j = j < nodes
    other = tl.load(key + start + j, mask=in_j, other=0.0)[None, :]
    place = weight + base + (i[:, None] * stride + j[None, :])
    found = tl.load(place, mask=in_i[:, None] & in_j[None, :], other=0.0)
    joined = ((found > 0) | (i[:, None] == j[None, :])) & in_j[None, :]
    return tl.where(joined, _leaky(own + other, slope), LOW)


@kernel(do_not_specialize=["slope", "period"])
def _membership_backward(
    grad, alpha, query, key, of_sum, of_query, tiles, ptr, stride, grad_stride, slope, period,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    _, first, start, counts, _ = tile_rows(tiles, ptr, tl.program_id(0), period, HEIGHT)
    if first >= counts:
        return
    i = first - start + tl.arange(0, HEIGHT)
    nodes = counts - start
    in_i = i < nodes
    base = start.to(tl.int64)
    product = tl.zeros((HEIGHT,), tl.float32)
    for step in range(0, nodes, WIDTH):
        j = step + tl.arange(0, WIDTH)
        both = in_i[:, None] & (j < nodes)[None, :]
        a = tl.load(alpha + base * stride + (i[:, None] * stride + j[None, :]), mask=both, other=0)
        at = grad + base * grad_stride + (i[:, None] * grad_stride + j[None, :])
        product += tl.sum(a * tl.load(at, mask=both, other=0.0), 1)
    own = tl.load(query + start + i, mask=in_i, other=0.0)[:, None]
    total = tl.zeros((HEIGHT,), tl.float32)
    for step in range(0, nodes, WIDTH):
        j = step + tl.arange(0, WIDTH)
        both = in_i[:, None] & (j < nodes)[None, :]
        place = base * stride + (i[:, None] * stride + j[None, :])
        a = tl.load(alpha + place, mask=both, other=0.0)
        at = grad + base * grad_stride + (i[:, None] * grad_stride + j[None, :])
        back = a * (tl.load(at, mask=both, other=0.0) - product[:, None])
        other = tl.load(key + start + j, mask=j < nodes, other=0.0)[None, :]
        back = tl.where(own + other > 0, back, slope * back)
        total += tl.sum(back, 1)
        tl.store(of_sum + place, back, mask=both)
    tl.store(of_query + start + i, total, mask=in_i)
