"""``a_gᵀ b_g`` for the rows of each graph g, and the last step of a graph convolution with it."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.clusters.segments import SegmentPtr
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import DEPTH, dot, precision, span, tile_of, warps_of

MAX_HEIGHT, MAX_WIDTH = 32, 128
# The backward pass reads many tensors at the end: more programs with fewer elements hide more of
# the latency, and plain float32 products are as fast as split ones on tensor cores.
BACKWARD_WIDTH = 64


def segment_inner(
    a: Tensor,
    b: Tensor,
    segments: SegmentPtr,
    m: int | None = None,
    *,
    into: Tensor | None = None,
) -> Tensor:
    """``a_gᵀ b_g``, ``[graphs, m, n]``.

    Args:
        a: ``[rows, m]``, or more columns, which are zero
        b: ``[rows, n]``
        segments: of the rows
        m: number of columns of a to use, if not all
        into: ``[graphs, m, n]``, the buffer to add to, if any
    """
    if into is None:
        out, end = a.new_empty(segments.graphs, m or a.shape[1], b.shape[1]), "sum"
    else:
        out, end = into, "add"
    _launch_inner(a, b, segments, out, end)
    return out


def segment_inner_gcn(
    assignment: Tensor,
    spread: Tensor,
    scale: Tensor,
    x: Tensor,
    segments: SegmentPtr,
    bias: Tensor | None = None,
) -> Tensor:
    """``y = s (Tᵀ spread + s x)``, which ends a graph convolution; with a bias ``relu(y + b)``.

    Args:
        assignment: T, ``[rows, clusters]``, or more columns, which are zero
        spread: ``[rows, channels]``
        scale: s, ``[graphs * clusters]``
        x: ``[graphs * clusters, channels]``
        segments: of the rows
        bias: b, ``[members, 1, channels]``
    """
    out = torch.empty_like(x)
    _launch_inner(assignment, spread, segments, out, "gcn", scale, x, bias)
    return out


def segment_inner_gcn_backward(
    assignment: Tensor,
    back: Tensor,
    scale: Tensor,
    x: Tensor,
    y: Tensor,
    grad: Tensor,
    segments: SegmentPtr,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The gradients of x, ``s h`` for ``h = Tᵀ back + s grad``, and of the degrees.

    The gradient of the scale is ``Σ grad y / s + Σ h x``; times ``- s³ / 2`` it is that of the
    degrees. ``y`` is the result of `segment_inner_gcn`, ``grad`` its gradient (with a bias, the
    gradient before the ReLU); other arguments as there.
    """
    out = torch.empty_like(x)
    parts = triton.cdiv(x.shape[1], tile_of(x.shape[1], BACKWARD_WIDTH))
    grad_degrees = x.new_empty(parts, len(x))
    end = "gcn backward"
    _launch_inner(assignment, back, segments, out, end, scale, x, bias, y, grad, grad_degrees)
    return out, grad_degrees[0] if parts == 1 else grad_degrees.sum(0)


def _launch_inner(
    a: Tensor,
    b: Tensor,
    segments: SegmentPtr,
    out: Tensor,
    end: str,
    scale: Tensor | None = None,
    x: Tensor | None = None,
    bias: Tensor | None = None,
    y: Tensor | None = None,
    grad: Tensor | None = None,
    grad_degrees: Tensor | None = None,
) -> None:
    graphs, n = segments.graphs, b.shape[1]
    m = out.numel() // (graphs * n)
    backward = grad_degrees is not None
    height, width = tile_of(m, MAX_HEIGHT), tile_of(n, BACKWARD_WIDTH if backward else MAX_WIDTH)
    down, across = triton.cdiv(m, height), triton.cdiv(n, width)
    _inner[(graphs * down * across,)](
        a, b, segments.ptr, out, scale, x, y, grad, bias, grad_degrees, m, n, a.shape[1], down,
        across, graphs * m, segments.period, 1 if bias is None else graphs // len(bias),
        0 if bias is None else bias.stride(0),
        BIAS=bias is not None, END=end,
        PRECISION="ieee" if backward and precision() == "tf32x3" else precision(), HEIGHT=height,
        WIDTH=width, DEPTH=DEPTH, num_warps=warps_of(height, width, 16 if backward else 64),
    )  # fmt: skip


@kernel(do_not_specialize=["m", "down", "across", "all_m", "period", "each"])
def _inner(
    a, b, ptr, out, scale, x, y, grad, bias, grad_degrees, m, n, a_columns, down, across, all_m,
    period, each, bias_stride,
    BIAS: tl.constexpr, END: tl.constexpr, PRECISION: tl.constexpr, HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Tiles of one graph are adjacent, since they read the same rows.
    program = tl.program_id(0)
    graph = program // (down * across)
    part = program % across
    i = (program // across % down) * HEIGHT + tl.arange(0, HEIGHT)
    j = part * WIDTH + tl.arange(0, WIDTH)
    in_i, in_j = i < m, j < n
    start, end, _ = span(ptr, graph, period)
    # Offsets into whole tensors need 64 bits; within a graph 32 are enough.
    a += start.to(tl.int64) * a_columns
    b += start.to(tl.int64) * n
    total = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, end - start, DEPTH):
        row = first + tl.arange(0, DEPTH)
        in_rows = row < end - start
        # Loaded as the product needs it: transposing afterwards would copy element by element.
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
            # Not a maximum, which would turn NaN into 0.
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
            result -= added  # where the ReLU gave 0, the gradient is 0 too
        back = g * result / s
        back += total * tl.load(x + place, mask=mask, other=0.0)
        grad_degree = -0.5 * s * s * s * tl.sum(back, 1)[:, None]  # s = (degree + 1)^-1/2
        at = grad_degrees + part.to(tl.int64) * all_m + base + i[:, None]
        tl.store(at, grad_degree, mask=in_i[:, None])
        total *= s
    tl.store(out + place, total, mask=mask)
