"""Attention over the entries of each row of a sparse matrix.

Each of the ``heads * out`` columns computes the softmax of its head. That repeats exponentials if a
head has many columns, but they take less time than loading the values, and nothing is summed across
columns.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

# Elements per program of one warp; the backward pass holds twice as many tensors.
TILE = 128
TILE_BACKWARD = 64
MAX_COLUMNS = 64

# Instead of -inf, since -inf - -inf is NaN.
LOW = tl.constexpr(-1e38)
# Of the leaky ReLU, below zero (Veličković et al., 2018).
LEAK = tl.constexpr(0.2)


def edge_attention(
    to_target: Tensor, from_source: Tensor, values: Tensor, row_ptr: Tensor, col: Tensor
) -> tuple[Tensor, Tensor]:
    """The attended values ``[rows, heads * out]``, and ``[rows, heads]`` log Σ exp(energy)."""
    (rows, heads), columns = to_target.shape, values.shape[1]
    out, level = torch.empty_like(values), torch.empty_like(to_target)
    grid, tile = _tiles(rows, columns, TILE)
    _edge_attention[grid](
        to_target, from_source, values, row_ptr, col, out, level, rows, heads, columns,
        OUT=columns // heads, **tile,
    )  # fmt: skip
    return out, level


def _tiles(rows: int, columns: int, tile: int) -> tuple[tuple[int, int], dict[str, int]]:
    width = min(MAX_COLUMNS, triton.next_power_of_2(columns))
    height = tile // width
    grid = (triton.cdiv(rows, height), triton.cdiv(columns, width))
    return grid, {"HEIGHT": height, "WIDTH": width, "num_warps": 1}


@triton.jit
def _energy(target, source):
    raw = target + source
    return raw, tl.where(raw > 0, raw, LEAK * raw)


@kernel(do_not_specialize=["rows"])
def _edge_attention(
    to_target, from_source, values, row_ptr, col, out, level, rows, heads, columns,
    OUT: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    column = (tl.program_id(1) * WIDTH + tl.arange(0, WIDTH))[None, :]
    head = column // OUT
    in_rows, in_columns = row < rows, column < columns
    inside = in_rows[:, None] & in_columns
    start = tl.load(row_ptr + row, mask=in_rows, other=0).to(tl.int32)
    end = tl.load(row_ptr + row + 1, mask=in_rows, other=0).to(tl.int32)
    own = row.to(tl.int64)[:, None]
    target = tl.load(to_target + own * heads + head, mask=inside, other=0.0)
    highest = tl.full((HEIGHT, WIDTH), LOW, values.dtype.element_ty)
    weight = tl.zeros((HEIGHT, WIDTH), values.dtype.element_ty)
    total = tl.zeros((HEIGHT, WIDTH), values.dtype.element_ty)
    for step in range(tl.max(end - start, 0)):
        entry = start + step
        present = entry < end
        other = tl.load(col + entry, mask=present, other=0).to(tl.int64)[:, None]
        mask = present[:, None] & in_columns
        source = tl.load(from_source + other * heads + head, mask=mask, other=0.0)
        sent = tl.load(values + other * columns + column, mask=mask, other=0.0)
        _, energy = _energy(target, source)
        energy = tl.where(mask, energy, LOW)
        higher = tl.maximum(highest, energy)
        scale = tl.exp(highest - higher)
        alpha = tl.where(mask, tl.exp(energy - higher), 0.0)
        weight = weight * scale + alpha
        total = total * scale + alpha * sent
        highest = higher
    weight = tl.where(weight == 0, 1.0, weight)  # of a row without entries
    tl.store(out + own * columns + column, total / weight, mask=inside)
    first = inside & (column % OUT == 0)
    tl.store(level + own * heads + head, highest + tl.log(weight), mask=first)


def edge_attention_backward(
    to_target: Tensor,
    from_source: Tensor,
    values: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    out: Tensor,
    level: Tensor,
    grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the first three, for a matrix that is its own transpose.

    The sources of a row are then its targets too: one loop over its entries sums its gradients as a
    target and as a source, so that no two programs write to the same address.
    """
    (rows, heads), columns = to_target.shape, values.shape[1]
    width = columns // heads
    # The mean gradient of the α of a row, divided evenly among the columns of a head.
    mean = (out * grad).view(rows, heads, width).mean(2)
    grad_target, grad_source = torch.empty_like(values), torch.empty_like(values)
    grad_values = torch.empty_like(values)
    grid, tile = _tiles(rows, columns, TILE_BACKWARD)
    _edge_attention_backward[grid](
        to_target, from_source, values, row_ptr, col, level, mean, grad, grad_target, grad_source,
        grad_values, rows, heads, columns,
        OUT=width, **tile,
    )  # fmt: skip
    if width > 1:
        grad_target, grad_source = (
            g.view(rows, heads, width).sum(2) for g in (grad_target, grad_source)
        )
    return grad_target, grad_source, grad_values


@kernel(do_not_specialize=["rows"])
def _edge_attention_backward(
    to_target, from_source, values, row_ptr, col, level, mean, grad, grad_target, grad_source,
    grad_values, rows, heads, columns,
    OUT: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    column = (tl.program_id(1) * WIDTH + tl.arange(0, WIDTH))[None, :]
    head = column // OUT
    in_rows, in_columns = row < rows, column < columns
    inside = in_rows[:, None] & in_columns
    start = tl.load(row_ptr + row, mask=in_rows, other=0).to(tl.int32)
    end = tl.load(row_ptr + row + 1, mask=in_rows, other=0).to(tl.int32)
    own = row.to(tl.int64)[:, None]
    # This row as a target, t, and as a source, s.
    own_head, own_column = own * heads + head, own * columns + column
    t = tl.load(to_target + own_head, mask=inside, other=0.0)
    t_level = tl.load(level + own_head, mask=inside, other=0.0)
    t_mean = tl.load(mean + own_head, mask=inside, other=0.0)
    t_grad = tl.load(grad + own_column, mask=inside, other=0.0)
    s = tl.load(from_source + own_head, mask=inside, other=0.0)
    s_sent = tl.load(values + own_column, mask=inside, other=0.0)
    to_t = tl.zeros((HEIGHT, WIDTH), values.dtype.element_ty)
    to_s = tl.zeros((HEIGHT, WIDTH), values.dtype.element_ty)
    to_sent = tl.zeros((HEIGHT, WIDTH), values.dtype.element_ty)
    for step in range(tl.max(end - start, 0)):
        entry = start + step
        present = entry < end
        other = tl.load(col + entry, mask=present, other=0).to(tl.int64)[:, None]
        mask = present[:, None] & in_columns
        other_head, other_column = other * heads + head, other * columns + column
        source = tl.load(from_source + other_head, mask=mask, other=0.0)
        sent = tl.load(values + other_column, mask=mask, other=0.0)
        raw, energy = _energy(t, source)
        alpha = tl.exp(tl.where(mask, energy - t_level, LOW))
        to_t += tl.where(raw > 0, alpha, LEAK * alpha) * (t_grad * sent - t_mean)

        target = tl.load(to_target + other_head, mask=mask, other=0.0)
        other_level = tl.load(level + other_head, mask=mask, other=0.0)
        other_mean = tl.load(mean + other_head, mask=mask, other=0.0)
        other_grad = tl.load(grad + other_column, mask=mask, other=0.0)
        raw, energy = _energy(target, s)
        alpha = tl.exp(tl.where(mask, energy - other_level, LOW))
        to_s += tl.where(raw > 0, alpha, LEAK * alpha) * (other_grad * s_sent - other_mean)
        to_sent += alpha * other_grad
    tl.store(grad_target + own_column, to_t, mask=inside)
    tl.store(grad_source + own_column, to_s, mask=inside)
    tl.store(grad_values + own_column, to_sent, mask=inside)
