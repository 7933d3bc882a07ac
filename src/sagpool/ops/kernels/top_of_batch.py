"""The top rows of graphs that a batch vector tells apart, in any order."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.select import _descending

_BLOCK = 512


def top_of_batch(
    score: Tensor, batch: Tensor, k: int | Tensor | None, numerator: int, denominator: int
) -> Tensor:
    """Mark the rows with the highest scores; see `sagpool.ops.top_rows`.

    Args:
        score: ``[rows]``
        batch: ``[rows]`` int64
        k: a number, ``[graphs]`` int64, or None
        numerator: of the ratio
        denominator: of the ratio
    """
    rows = len(score)
    key = torch.empty_like(batch)
    grid = (triton.cdiv(rows, _BLOCK),)
    _sort_keys[grid](score, batch, key, rows, BLOCK=_BLOCK, num_warps=4)
    in_order, order = torch.sort(key, stable=True)
    mask = torch.empty(rows, dtype=torch.bool, device=score.device)
    each, number = (k, 0) if isinstance(k, Tensor) else (None, k)
    _mark_top[grid](
        in_order, order, each, mask.view(torch.uint8), rows, number or 0, numerator, denominator,
        rows.bit_length(), BY_K=k is not None, EACH=each is not None, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return mask


@kernel(do_not_specialize=["rows"])
def _sort_keys(score, batch, key, rows, BLOCK: tl.constexpr):
    """Ascending by graph, then descending by score."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    graph = tl.load(batch + row, mask=inside, other=0)
    tl.store(key + row, (graph << 32) + _descending(score, row, rows).to(tl.int64), mask=inside)


@kernel(do_not_specialize=["rows", "k", "numerator", "denominator", "steps"])
def _mark_top(
    in_order, order, k_of_graph, mask, rows, k, numerator, denominator, steps,
    BY_K: tl.constexpr, EACH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < rows
    graph = tl.load(in_order + place, mask=inside, other=0) >> 32
    start = _first_at_least(in_order, graph << 32, rows, steps)
    end = _first_at_least(in_order, (graph + 1) << 32, rows, steps)
    if EACH:
        count = tl.load(k_of_graph + graph, mask=inside, other=0)
    elif BY_K:
        count = tl.zeros((BLOCK,), tl.int64) + k
    else:
        count = ((end - start) * numerator + denominator - 1) // denominator
    row = tl.load(order + place, mask=inside, other=0)
    tl.store(mask + row, (place - start < count).to(tl.uint8), mask=inside)


@triton.jit
def _first_at_least(in_order, value, rows, steps):
    """The first place whose key is not below the value, or the number of rows."""
    low = tl.zeros_like(value)
    high = tl.zeros_like(value) + rows
    for _ in range(steps):
        open = low < high
        middle = (low + high) // 2
        below = tl.load(in_order + middle, mask=open, other=0) < value
        low = tl.where(open & below, middle + 1, low)
        high = tl.where(open & ~below, middle, high)
    return low
