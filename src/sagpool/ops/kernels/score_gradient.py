"""Gradients of a score that needs one product of each row, and of the rows kept by it."""

import torch
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.edge_list import add_along_edges
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.tiles import blocks, tile


def gates_backward(
    grad_out: Tensor | None,
    grad_score: Tensor | None,
    x: Tensor,
    gate: Tensor,
    new_row: Tensor,
    tanh: bool,
    gcn: bool,
) -> tuple[Tensor, Tensor | None]:
    """The gradient of the gates of kept rows, or of the scores whose tanh they are.

    Args:
        grad_out: ``[kept, columns]``, of ``(x * gate)[kept]``; None for zeros
        grad_score: ``[kept]``, of ``gate[kept]``; None for zeros
        x: ``[rows, columns]``, contiguous
        gate: ``[rows]``
        new_row: ``[rows]`` int32, -1 for those that are dropped
        tanh: whether to return the gradient of scores
        gcn: whether to return zeros too

    Returns:
        ``[rows]``, and ``[rows]`` zeros for `score_rows_backward`
    """
    rows, columns = x.shape
    grad = torch.empty_like(gate)
    zeros = torch.empty_like(gate) if gcn else None
    height, width = tile(columns)
    _gates_backward[(blocks(rows, height),)](
        grad_out, grad_score, x, gate, new_row, grad, zeros, rows, columns,
        OUT=grad_out is not None, SCORE=grad_score is not None, TANH=tanh, ZEROS=gcn,
        HEIGHT=height, WIDTH=width, num_warps=4,
    )  # fmt: skip
    return grad, zeros


@kernel(do_not_specialize=["rows"])
def _gates_backward(
    grad_out, grad_score, x, gate, new_row, grad, zeros, rows, columns,
    OUT: tl.constexpr, SCORE: tl.constexpr, TANH: tl.constexpr, ZEROS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    in_rows = row < rows
    new = tl.load(new_row + row, mask=in_rows, other=-1).to(tl.int64)
    kept = new >= 0
    found = tl.zeros((HEIGHT,), grad.dtype.element_ty)
    if OUT:
        total = tl.zeros((HEIGHT, WIDTH), grad.dtype.element_ty)
        for first in range(0, columns, WIDTH):
            column = (first + tl.arange(0, WIDTH))[None, :]
            inside = kept[:, None] & (column < columns)
            values = tl.load(x + row[:, None] * columns + column, mask=inside, other=0.0)
            total += values * tl.load(
                grad_out + new[:, None] * columns + column, mask=inside, other=0.0
            )
        found = tl.sum(total, 1)
    if SCORE:
        found += tl.load(grad_score + new, mask=kept, other=0.0)
    if TANH:
        tanh = tl.load(gate + row, mask=kept, other=0.0)
        found *= 1.0 - tanh * tanh
    tl.store(grad + row, found, mask=in_rows)
    if ZEROS:
        tl.store(zeros + row, tl.zeros((HEIGHT,), grad.dtype.element_ty), mask=in_rows)


def score_rows_backward(
    grad_out: Tensor | None,
    grad_raw: Tensor,
    x: Tensor,
    gate: Tensor,
    weight: Tensor,
    new_row: Tensor,
    edge_index: Tensor | None,
    degree: Tensor | None,
    received: Tensor | None,
    wants: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of x and of the weight, of a score and of the rows kept by it, in one pass.

    Args:
        grad_out: ``[kept, columns]``, of ``(x * gate)[kept]``; None for zeros
        grad_raw: ``[rows]``, of the score
        x: ``[rows, columns]``, contiguous
        gate: ``[rows]``
        weight: ``columns`` numbers
        new_row: ``[rows]`` int32, -1 for those that are dropped
        edge_index: as for `score_rows`
        degree: ``[rows]``, from `score_rows`
        received: ``[rows]`` zeros, overwritten, if there are edges
        wants: which of the two gradients

    Returns:
        ``[rows, columns]`` and ``[columns]``
    """
    rows, columns = x.shape
    if edge_index is not None:
        add_along_edges(grad_raw, degree, edge_index, received, transposed=True)
    height, width = tile(columns)
    # Few enough programs that their sums for the weight are quickly added up.
    rows_each = height * blocks(rows, height * 1024)
    programs = blocks(rows, rows_each)
    grad_x = torch.empty_like(x) if wants[0] else None
    parts = x.new_empty(programs, columns) if wants[1] else None
    _score_rows_backward[(programs, blocks(columns, width))](
        grad_out, grad_raw, x, gate, weight, new_row, degree, received, grad_x, parts, rows,
        columns, rows_each,
        OUT=grad_out is not None, GCN=degree is not None, GRAD_X=wants[0], GRAD_WEIGHT=wants[1],
        HEIGHT=height, WIDTH=width, num_warps=4,
    )  # fmt: skip
    return grad_x, None if parts is None else parts.sum(0)


@kernel(do_not_specialize=["rows", "rows_each"])
def _score_rows_backward(
    grad_out, grad_raw, x, gate, weight, new_row, degree, received, grad_x, parts, rows, columns,
    rows_each,
    OUT: tl.constexpr, GCN: tl.constexpr, GRAD_X: tl.constexpr, GRAD_WEIGHT: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    factor = tl.load(weight + column, mask=in_columns, other=0.0)
    total = tl.zeros((HEIGHT, WIDTH), x.dtype.element_ty)
    for first in range(0, rows_each, HEIGHT):
        row = program * rows_each + first + tl.arange(0, HEIGHT)
        in_rows = row < rows
        inside = in_rows[:, None] & in_columns[None, :]
        place = row[:, None] * columns + column[None, :]
        grad = tl.load(grad_raw + row, mask=in_rows, other=0.0)
        if GCN:
            scale = tl.rsqrt(tl.load(degree + row, mask=in_rows, other=0).to(grad.dtype) + 1.0)
            grad = scale * (tl.load(received + row, mask=in_rows, other=0.0) + scale * grad)
        if GRAD_WEIGHT:
            total += tl.load(x + place, mask=inside, other=0.0) * grad[:, None]
        if GRAD_X:
            back = grad[:, None] * factor[None, :]
            if OUT:
                new = tl.load(new_row + row, mask=in_rows, other=-1).to(tl.int64)
                kept = new >= 0
                above = kept[:, None] & in_columns[None, :]
                from_place = new[:, None] * columns + column[None, :]
                multiplied = tl.load(gate + row, mask=kept, other=0.0)
                back += tl.load(grad_out + from_place, mask=above, other=0.0) * multiplied[:, None]
            tl.store(grad_x + place, back, mask=inside)
    if GRAD_WEIGHT:
        tl.store(parts + program * columns + column, tl.sum(total, 0), mask=in_columns)
