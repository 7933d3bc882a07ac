"""Building blocks of kernels that read the rows of each graph without padding.

Every ``period``-th graph is a filler. Its results are unused, so only its first row counts.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

HEIGHT = 32  # rows of a graph that one program writes
TALL = 64  # the same for kernels with larger tiles for large graphs
DEPTH = 16  # of one step of a product; small, since small graphs have few rows


def precision() -> str:
    """The input precision of `dot`, from torch.set_float32_matmul_precision."""
    known = {"highest": "tf32x3", "high": "tf32"}
    return known.get(torch.get_float32_matmul_precision(), "bf16")


def tile_of(width: int, most: int) -> int:
    """The largest tile that wastes little at the edge."""
    tiles = [tile for tile in (128, 64, 32, 16) if tile <= most]
    return min(tiles, key=lambda tile: triton.cdiv(width, tile) * (tile + 16))


def warps_of(height: int, width: int, numbers: int = 32) -> int:
    """So many warps that each thread has that many elements of a tile."""
    return max(1, height * width // (32 * numbers))


@triton.jit
def span(ptr, graph, period):
    """The first row of a graph, the end of its rows that count, and the end of all its rows."""
    start = tl.load(ptr + graph).to(tl.int32)
    end = tl.load(ptr + graph + 1).to(tl.int32)
    return start, tl.where(graph % period == period - 1, start + 1, end), end


@triton.jit
def split(x):
    """The tf32 number nearest to x, and the rest of x."""
    bits = x.to(tl.uint32, bitcast=True) + 0x1000  # half of the last bit that tf32 has
    large = (bits & 0xFFFFE000).to(tl.float32, bitcast=True)
    return large, x - large


@triton.jit
def dot(a, b, total, PRECISION: tl.constexpr):
    if PRECISION == "bf16":
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), total)
    elif PRECISION == "tf32x3":
        a_large, a_small = split(a)
        b_large, b_small = split(b)
        small = tl.dot(a_small, b_large, input_precision="tf32")
        small = tl.dot(a_large, b_small, small, input_precision="tf32")
        # Tensor cores truncate their sums, so they only get short parts of a long sum.
        return total + tl.dot(a_large, b_large, small, input_precision="tf32")
    else:
        return tl.dot(a, b, total, input_precision=PRECISION)


def row_tiles(ptr: Tensor, rows: int, height: int = HEIGHT) -> Tensor:
    """The graph of each tile of rows, ``[tiles]`` int32, for kernels that write rows.

    The first tile of graph g is ``ptr[g] // height + g``: so each graph has enough tiles, and the
    host knows an upper bound of their number.
    """
    graphs = len(ptr) - 1
    tiles = torch.empty(rows // height + graphs, dtype=torch.int32, device=ptr.device)
    _row_tiles[(graphs,)](ptr, tiles, HEIGHT=height, WIDTH=32, num_warps=1)
    return tiles


@kernel()
def _row_tiles(ptr, tiles, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    graph = tl.program_id(0)
    start = tl.load(ptr + graph).to(tl.int32) // HEIGHT + graph
    end = tl.load(ptr + graph + 1).to(tl.int32) // HEIGHT + graph + 1
    for first in range(start, end, WIDTH):
        tile = first + tl.arange(0, WIDTH)
        tl.store(tiles + tile, tl.zeros((WIDTH,), tl.int32) + graph, mask=tile < end)


@triton.jit
def tile_rows(tiles, ptr, number, period, HEIGHT: tl.constexpr):
    """The graph of a tile, its first row, and `span` of the graph; empty tiles are past its end."""
    graph = tl.load(tiles + number)
    start, counts, end = span(ptr, graph, period)
    first = start + (number - start // HEIGHT - graph) * HEIGHT
    return graph, first, start, counts, end
