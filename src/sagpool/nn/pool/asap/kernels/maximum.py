"""The maximum over neighbours in dense graphs."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.nn.pool.asap.matrices import GraphRows
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import HEIGHT, tile_of, tile_rows, warps_of

MAX_WIDTH = 64


def neighbour_max(x: Tensor, weight: Tensor, rows: GraphRows) -> tuple[Tensor, Tensor]:
    """``max_j x_j`` over all j with a positive ``weight[i, j]`` and i itself.

    Args:
        x: ``[rows, channels]``
        weight: ``[rows, columns]``, a column for each row of the same graph
        rows: of the graphs

    Returns:
        ``[rows, channels]``, zero for all rows of a filler but the first; and which row it is of,
        ``[rows, channels]`` int64
    """
    out, arg = torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)
    width = tile_of(x.shape[1], MAX_WIDTH)
    across = triton.cdiv(x.shape[1], width)
    _max[(len(rows.tiles) * across,)](
        x, weight, out, arg, rows.tiles, rows.ptr, x.shape[1], weight.stride(0), across,
        rows.period, HEIGHT=HEIGHT, WIDTH=width, num_warps=warps_of(HEIGHT, width, 16),
    )  # fmt: skip
    return out, arg


@kernel(do_not_specialize=["across", "period"])
def _max(
    x, weight, out, arg, tiles, ptr, channels, stride, across, period,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    _, first, start, counts, end = tile_rows(tiles, ptr, program // across, period, HEIGHT)
    if first >= end:
        return
    i = first - start + tl.arange(0, HEIGHT)
    c = (program % across) * WIDTH + tl.arange(0, WIDTH)
    in_i, in_c = i < counts - start, c < channels
    base = start.to(tl.int64)
    x += base * channels
    weight += base * stride
    place = i[:, None] * channels + c[None, :]
    both = in_i[:, None] & in_c[None, :]
    best = tl.load(x + place, mask=both, other=0.0)
    which = tl.zeros((HEIGHT, WIDTH), tl.int32) + i[:, None]
    if first < counts:
        for j in range(0, counts - start):
            value = tl.load(x + j * channels + c, mask=in_c, other=0.0)[None, :]
            joined = tl.load(weight + i * stride + j, mask=in_i, other=0.0) > 0
            # A NaN is larger than everything.
            better = joined[:, None] & ((value > best) | (value != value))
            best = tl.where(better, value, best)
            which = tl.where(better, j, which)
    mask = (i < end - start)[:, None] & in_c[None, :]
    tl.store(out + base * channels + place, best, mask=mask)
    tl.store(arg + base * channels + place, base + which, mask=mask)
