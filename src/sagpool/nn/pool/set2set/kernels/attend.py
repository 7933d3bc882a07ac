"""Attention of one query per graph over the rows of that graph.

One program per graph holds whole rows of x, so that a step reads x once. Tensors of graphs,
``[members, graphs, channels]``, are slices of larger buffers: only their last stride must be 1.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

# Elements of x per warp: enough loads in flight, few enough registers.
TILE = 2048
SUM_TILE = 1024
MAX_ROWS = 32
WARP_COLUMNS = 256
MAX_COLUMNS = 128

# Instead of -inf, since -inf - -inf is NaN.
LOW = tl.constexpr(-1e38)


def attend(
    x: Tensor, query: Tensor, ptr: Tensor, out: Tensor, *, filler: bool
) -> tuple[Tensor, Tensor]:
    """The energies ``[rows]``, and log Σ exp(energy) ``[members * graphs]``.

    The softmax is computed online: when a higher energy is found, the sums so far are scaled down.
    """
    members, graphs, _ = query.shape
    energy, level = x.new_empty(len(x)), x.new_empty(members * graphs)
    _attend[(members * graphs,)](
        x, query, ptr, out, energy, level, *query.shape, *query.stride()[:2], *out.stride()[:2],
        FILLER=filler, **_whole_rows(x),
    )  # fmt: skip
    return energy, level


def _whole_rows(x: Tensor) -> dict[str, int]:
    """The tile of a program that holds whole rows."""
    width = triton.next_power_of_2(x.shape[1])
    warps = min(8, max(1, width // WARP_COLUMNS))
    numbers = TILE * warps * 4 // x.element_size()
    return {"HEIGHT": min(MAX_ROWS, max(1, numbers // width)), "WIDTH": width, "num_warps": warps}


@triton.jit
def _span(ptr, members, graphs, FILLER: tl.constexpr):
    """The member and the graph of this program, and the graph's rows.

    Fillers come first: they are long, and would delay the end if they started last. The results of
    a filler are unused, so only its first row is processed.
    """
    program = tl.program_id(0)
    member = program % members
    place = graphs - 1 - program // members
    graph = member * graphs + place
    start = tl.load(ptr + graph).to(tl.int32)
    end = tl.load(ptr + graph + 1).to(tl.int32)
    if FILLER:
        end = tl.where(place == graphs - 1, start + 1, end)
    return member.to(tl.int64), place.to(tl.int64), graph, start, end


@kernel(do_not_specialize=["members", "graphs"])
def _attend(
    x, query, ptr, out, energy, level, members, graphs, columns, query_member, query_graph,
    out_member, out_graph,
    FILLER: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    member, place, graph, start, end = _span(ptr, members, graphs, FILLER)
    column = tl.arange(0, WIDTH)
    in_columns = column < columns
    at = query + member * query_member + place * query_graph + column
    q = tl.load(at, mask=in_columns, other=0.0)
    highest = tl.full((1,), LOW, x.dtype.element_ty)
    weight = tl.zeros((1,), x.dtype.element_ty)
    total = tl.zeros((WIDTH,), x.dtype.element_ty)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        in_rows = row < end
        values = tl.load(
            x + row.to(tl.int64)[:, None] * columns + column[None, :],
            mask=in_rows[:, None] & in_columns[None, :],
            other=0.0,
        )
        e = tl.sum(values * q[None, :], 1)
        tl.store(energy + row, e, mask=in_rows)
        e = tl.where(in_rows, e, LOW)
        higher = tl.maximum(highest, tl.max(e, 0))
        scale = tl.exp(highest - higher)
        alpha = tl.where(in_rows, tl.exp(e - higher), 0.0)
        weight = weight * scale + tl.sum(alpha, 0)
        total = total * scale + tl.sum(alpha[:, None] * values, 0)
        highest = higher
    at = out + member * out_member + place * out_graph + column
    tl.store(at, total / weight, mask=in_columns)
    tl.store(level + graph + tl.arange(0, 1), highest + tl.log(weight))


def attend_backward(
    x: Tensor,
    energy: Tensor,
    level: Tensor,
    out: Tensor,
    grad: Tensor,
    grad_query: Tensor,
    ptr: Tensor,
    *,
    filler: bool,
) -> tuple[Tensor, Tensor]:
    """The attention of each row and the gradient of its energy, ``[rows]`` each.

    The same pass over x adds the gradient of the queries to ``grad_query``.
    """
    members, graphs, _ = grad.shape
    alpha, slope = torch.empty_like(energy), torch.empty_like(energy)
    _attend_backward[(members * graphs,)](
        x, energy, level, out, grad, grad_query, ptr, alpha, slope, *grad.shape, *out.stride()[:2],
        *grad.stride()[:2], *grad_query.stride()[:2],
        FILLER=filler, **_whole_rows(x),
    )  # fmt: skip
    return alpha, slope


@kernel(do_not_specialize=["members", "graphs"])
def _attend_backward(
    x, energy, level, out, grad, grad_query, ptr, alpha, slope, members, graphs, columns,
    out_member, out_graph, grad_member, grad_graph, query_member, query_graph,
    FILLER: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    member, place, graph, start, end = _span(ptr, members, graphs, FILLER)
    column = tl.arange(0, WIDTH)
    in_columns = column < columns
    at = grad + member * grad_member + place * grad_graph + column
    g = tl.load(at, mask=in_columns, other=0.0)
    at = out + member * out_member + place * out_graph + column
    # The mean of the gradients of a, Σ a_i (x_i · g), needs no extra pass.
    mean = tl.sum(tl.load(at, mask=in_columns, other=0.0) * g, 0)
    peak = tl.load(level + graph)
    total = tl.zeros((WIDTH,), x.dtype.element_ty)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        in_rows = row < end
        values = tl.load(
            x + row.to(tl.int64)[:, None] * columns + column[None, :],
            mask=in_rows[:, None] & in_columns[None, :],
            other=0.0,
        )
        e = tl.load(energy + row, mask=in_rows, other=LOW)
        a = tl.exp(e - peak)
        d = a * (tl.sum(values * g[None, :], 1) - mean)
        d = tl.where(in_rows, d, 0.0)
        tl.store(alpha + row, a, mask=in_rows)
        tl.store(slope + row, d, mask=in_rows)
        total += tl.sum(d[:, None] * values, 0)
    at = grad_query + member * query_member + place * query_graph + column
    tl.store(at, tl.load(at, mask=in_columns, other=0.0) + total, mask=in_columns)


def attend_backward_rows(
    alpha: Tensor,
    slope: Tensor,
    query: Tensor,
    grad: Tensor,
    ptr: Tensor,
    *,
    filler: bool,
) -> Tensor:
    """``Σ_s alpha_s grad_s + slope_s query_s``, the gradient of x, written once for all steps.

    ``alpha`` and ``slope`` are ``[steps, rows]``, ``query`` and ``grad``
    ``[members, steps, graphs, channels]``.
    """
    steps, rows = alpha.shape
    members, _, graphs, columns = query.shape
    # Rows of a filler after the first are skipped: their gradient is zero.
    grad_x = (query.new_zeros if filler else query.new_empty)(rows, columns)
    width = min(MAX_COLUMNS, triton.next_power_of_2(columns))
    height = min(MAX_ROWS, SUM_TILE * 4 // query.element_size() // width)
    _attend_backward_rows[(members * graphs, triton.cdiv(columns, width))](
        alpha, slope, query, grad, ptr, grad_x, steps, rows, members, graphs, columns,
        *query.stride()[:3], *grad.stride()[:3],
        FILLER=filler, HEIGHT=height, WIDTH=width, num_warps=1,
    )  # fmt: skip
    return grad_x


@kernel(do_not_specialize=["steps", "rows", "members", "graphs"])
def _attend_backward_rows(
    alpha, slope, query, grad, ptr, grad_x, steps, rows, members, graphs, columns, query_member,
    query_step, query_graph, grad_member, grad_step, grad_graph,
    FILLER: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    member, place, _, start, end = _span(ptr, members, graphs, FILLER)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    query += member * query_member + place * query_graph
    grad += member * grad_member + place * grad_graph
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        in_rows = row < end
        total = tl.zeros((HEIGHT, WIDTH), grad_x.dtype.element_ty)
        for step in range(steps):
            at = tl.full((), step, tl.int64)  # steps times rows may need 64 bits
            a = tl.load(alpha + at * rows + row, mask=in_rows, other=0.0)
            d = tl.load(slope + at * rows + row, mask=in_rows, other=0.0)
            g = tl.load(grad + at * grad_step + column, mask=in_columns, other=0.0)
            q = tl.load(query + at * query_step + column, mask=in_columns, other=0.0)
            total += a[:, None] * g[None, :] + d[:, None] * q[None, :]
        tl.store(
            grad_x + row.to(tl.int64)[:, None] * columns + column[None, :],
            total,
            mask=in_rows[:, None] & in_columns[None, :],
        )
