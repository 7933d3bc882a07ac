"""``a_gᵀ b_g`` for the rows of each graph g, and the end of a graph convolution with it."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.ragged import DEPTH, dot, precision, span, tile_of, warps_of

MOST_HEIGHT, MOST_WIDTH = 32, 128
# Where many tensors are read at the end, more programs of fewer numbers wait for less, and single
# numbers are multiplied as fast as parts of them on tensor cores.
BACKWARD = 64


def segment_inner(
    a: Tensor,
    b: Tensor,
    ptr: Tensor,
    period: int,
    m: int | None = None,
    *,
    into: Tensor | None = None,
) -> Tensor:
    """``a_gᵀ b_g``, ``[graphs, m, n]``.

    Args:
        a: ``[rows, m]``, or more columns, which are zero
        b: ``[rows, n]``
        ptr: ``[graphs + 1]``
        period: of the fillers among the graphs
        m: how many columns of a count, if not all
        into: ``[graphs, m, n]``, what it is added to, if given
    """
    if into is None:
        out, end = a.new_empty(len(ptr) - 1, m or a.shape[1], b.shape[1]), "sum"
    else:
        out, end = into, "add"
    _launch_inner(a, b, ptr, period, out, end)
    return out


def segment_inner_gcn(
    share: Tensor,
    spread: Tensor,
    scale: Tensor,
    x: Tensor,
    ptr: Tensor,
    period: int,
    bias: Tensor | None = None,
) -> Tensor:
    """``y = s (Tᵀ spread + s x)``, the end of a graph convolution; with a bias ``relu(y + b)``.

    Args:
        share: T, ``[rows, clusters]``, or more columns, which are zero
        spread: ``[rows, channels]``
        scale: s, ``[graphs * clusters]``
        x: ``[graphs * clusters, channels]``
        ptr: ``[graphs + 1]``
        period: of the fillers among the graphs
        bias: b, ``[members, 1, channels]``
    """
    out = torch.empty_like(x)
    _launch_inner(share, spread, ptr, period, out, "gcn", scale, x, bias)
    return out


def segment_inner_gcn_backward(
    share: Tensor,
    back: Tensor,
    scale: Tensor,
    x: Tensor,
    y: Tensor,
    grad: Tensor,
    ptr: Tensor,
    period: int,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``s h`` for ``h = Tᵀ back + s grad``, the gradient of x, and that of the degrees.

    The scale gets back ``Σ grad y / s + Σ h x``, and makes ``- s³ / 2`` of it for the degrees.

    Arguments as of `segment_inner_gcn`, and y, its result, with the gradient of that; with a bias
    the gradient is that before the ReLU.
    """
    out = torch.empty_like(x)
    parts = triton.cdiv(x.shape[1], tile_of(x.shape[1], BACKWARD))
    of_degrees = x.new_empty(parts, len(x))
    end = "gcn backward"
    _launch_inner(share, back, ptr, period, out, end, scale, x, bias, y, grad, of_degrees)
    return out, of_degrees[0] if parts == 1 else of_degrees.sum(0)


def _launch_inner(
    a: Tensor,
    b: Tensor,
    ptr: Tensor,
    period: int,
    out: Tensor,
    end: str,
    scale: Tensor | None = None,
    x: Tensor | None = None,
    bias: Tensor | None = None,
    y: Tensor | None = None,
    grad: Tensor | None = None,
    of_degrees: Tensor | None = None,
) -> None:
    graphs, n = len(ptr) - 1, b.shape[1]
    m = out.numel() // (graphs * n)
    backward = of_degrees is not None
    height, width = tile_of(m, MOST_HEIGHT), tile_of(n, BACKWARD if backward else MOST_WIDTH)
    down, across = triton.cdiv(m, height), triton.cdiv(n, width)
    _inner[(graphs * down * across,)](
        a,
        b,
        ptr,
        out,
        scale,
        x,
        y,
        grad,
        bias,
        of_degrees,
        m,
        n,
        a.shape[1],
        down,
        across,
        graphs * m,
        period,
        1 if bias is None else graphs // len(bias),
        0 if bias is None else bias.stride(0),
        BIAS=bias is not None,
        END=end,
        PRECISION="ieee" if backward and precision() == "tf32x3" else precision(),
        HEIGHT=height,
        WIDTH=width,
        DEPTH=DEPTH,
        num_warps=warps_of(height, width, 16 if backward else 64),
    )


@triton.jit
def _inner(
    a,
    b,
    ptr,
    out,
    scale,
    x,
    y,
    grad,
    bias,
    of_degrees,
    m,
    n,
    a_columns,
    down,
    across,
    all_m,
    period,
    each,
    bias_stride,
    BIAS: tl.constexpr,
    END: tl.constexpr,
    PRECISION: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):
    # The tiles of one graph follow each other: they read the same rows.
    program = tl.program_id(0)
    graph = program // (down * across)
    part = program % across
    i = (program // across % down) * HEIGHT + tl.arange(0, HEIGHT)
    j = part * WIDTH + tl.arange(0, WIDTH)
    in_i, in_j = i < m, j < n
    start, end, _ = span(ptr, graph, period)
    # Whole tensors may pass 32 bits, which are enough within a graph.
    a += start.to(tl.int64) * a_columns
    b += start.to(tl.int64) * n
    total = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, end - start, DEPTH):
        row = first + tl.arange(0, DEPTH)
        in_rows = row < end - start
        # Read the way it is multiplied: what is turned afterwards is copied number by number.
        left = tl.load(
            a + (row[None, :] * a_columns + i[:, None]),
            mask=in_rows[None, :] & (i < a_columns)[:, None],
            other=0.0,
        )
        right = tl.load(
            b + (row[:, None] * n + j[None, :]),
            mask=in_rows[:, None] & in_j[None, :],
            other=0.0,
        )
        total = dot(left, right, total, PRECISION)
    base = graph.to(tl.int64) * m
    out += base * n
    place = i[:, None] * n + j[None, :]
    mask = in_i[:, None] & in_j[None, :]
    if BIAS:
        of_member = bias + (graph // each).to(tl.int64) * bias_stride
        added = tl.load(of_member + j, mask=in_j, other=0.0)[None, :]
    if END == "add":
        total += tl.load(out + place, mask=mask, other=0.0)
    if END == "gcn":
        x += base * n
        s = tl.load(scale + base + i, mask=in_i, other=0.0)[:, None]
        total = s * (total + s * tl.load(x + place, mask=mask, other=0.0))
        if BIAS:
            total += added
            # Not a maximum, which would make 0 of what is not a number.
            total = tl.where(total < 0, 0.0, total)
    if END == "gcn backward":
        x += base * n
        y += base * n
        grad += base * n
        s = tl.load(scale + base + i, mask=in_i, other=1.0)[:, None]
        g = tl.load(grad + place, mask=mask, other=0.0)
        total += s * g
        result = tl.load(y + place, mask=mask, other=0.0)
        if BIAS:
            result -= added  # where it was cut off, there is no gradient
        back = g * result / s
        back += total * tl.load(x + place, mask=mask, other=0.0)
        of_degree = -0.5 * s * s * s * tl.sum(back, 1)[:, None]  # s = (degree + 1)^-1/2
        at = of_degrees + part.to(tl.int64) * all_m + base + i[:, None]
        tl.store(at, of_degree, mask=in_i[:, None])
        total *= s
    tl.store(out + place, total, mask=mask)
