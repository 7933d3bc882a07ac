"""Sums over neighbours with a factor for each row, and the gradients of the factors."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.propagate import MAX_COLUMNS, TILE, width_of


def scaled_sum(
    x: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    of_row: Tensor | None,
    of_source: Tensor | None,
    *,
    with_self: bool,
) -> Tensor:
    """``out[i] = r[i] * Σ_j c[j] * x[j]`` over the entries j of row i.

    Args:
        x: ``[rows, columns]``
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32
        of_row: r, ``[rows]``; ones if not given
        of_source: c, ``[rows]``; ones if not given
        with_self: whether the entry of a row for itself counts
    """
    x = x.contiguous()
    out = torch.empty_like(x)
    _launch(x, row_ptr, col, of_row, of_source, out, None, None, None, None, with_self)
    return out


def scaled_sum_backward(
    grad: Tensor,
    x: Tensor,
    out: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    of_row: Tensor | None,
    of_source: Tensor | None,
    *,
    with_self: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The gradients of x and of both factors, none of which is 0, in one pass.

    For a symmetric matrix, whose transpose has the same entries. A product of rows with ``out``
    has the factor in it already, so it is divided by it.

    Args:
        grad: ``[rows, columns]``, of `scaled_sum`
        x: ``[rows, columns]``
        out: the result of `scaled_sum`
        row_ptr: ``[rows + 1]`` int32
        col: ``[entries]`` int32
        of_row: as for `scaled_sum`
        of_source: as for `scaled_sum`
        with_self: as for `scaled_sum`
    """
    grad, x = grad.contiguous(), x.contiguous()
    grad_x = torch.empty_like(x)
    grad_row, grad_source = (
        None if factor is None else torch.empty_like(factor) for factor in (of_row, of_source)
    )
    # The transposed product: the factors change places.
    _launch(grad, row_ptr, col, of_source, of_row, grad_x, x, out, grad_source, grad_row, with_self)
    return grad_x, grad_row, grad_source


def _launch(
    x: Tensor,
    row_ptr: Tensor,
    col: Tensor,
    of_row: Tensor | None,
    of_source: Tensor | None,
    out: Tensor,
    beside_out: Tensor | None,
    beside_x: Tensor | None,
    dot_row: Tensor | None,
    dot_source: Tensor | None,
    with_self: bool,
) -> None:
    rows, columns = x.shape
    if not rows or not columns:
        return
    width = width_of(columns)
    height = 4 if width == MAX_COLUMNS else min(128, TILE // width)
    _scaled_sum[(triton.cdiv(rows, height),)](
        x, row_ptr, col, of_row, of_source, out, beside_out, beside_x, dot_row, dot_source, rows,
        columns, SELF=with_self, ROW=of_row is not None, SOURCE=of_source is not None,
        DOTS=beside_x is not None, HEIGHT=height, WIDTH=width, num_warps=1,
    )  # fmt: skip


@kernel(do_not_specialize=["rows"])
def _scaled_sum(
    x, row_ptr, col, of_row, of_source, out, beside_out, beside_x, dot_row, dot_source, rows,
    columns,
    SELF: tl.constexpr, ROW: tl.constexpr, SOURCE: tl.constexpr, DOTS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """With DOTS, also the products of the rows of ``out`` and of ``x`` with those beside them."""
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    in_rows = row < rows
    start = tl.load(row_ptr + row, mask=in_rows, other=0).to(tl.int32)
    end = tl.load(row_ptr + row + 1, mask=in_rows, other=0).to(tl.int32)
    own = tl.full((HEIGHT,), 1.0, x.dtype.element_ty)
    if ROW:
        own = tl.load(of_row + row, mask=in_rows, other=1.0)
    with_out = tl.zeros((HEIGHT,), x.dtype.element_ty)
    with_x = tl.zeros((HEIGHT,), x.dtype.element_ty)
    for first in range(0, columns, WIDTH):
        column = first + tl.arange(0, WIDTH)
        in_columns = column < columns
        total = tl.zeros((HEIGHT, WIDTH), x.dtype.element_ty)
        for step in range(tl.max(end - start, 0)):
            present = start + step < end
            source = tl.load(col + start + step, mask=present, other=0)
            if not SELF:
                present &= source != row
            values = tl.load(
                x + source.to(tl.int64)[:, None] * columns + column[None, :],
                mask=present[:, None] & in_columns[None, :],
                other=0.0,
            )
            if SOURCE:
                values *= tl.load(of_source + source, mask=present, other=0.0)[:, None]
            total += values
        total *= own[:, None]
        place = row.to(tl.int64)[:, None] * columns + column[None, :]
        mask = in_rows[:, None] & in_columns[None, :]
        tl.store(out + place, total, mask=mask)
        if DOTS:
            with_out += tl.sum(total * tl.load(beside_out + place, mask=mask, other=0.0), 1)
            values = tl.load(x + place, mask=mask, other=0.0)
            with_x += tl.sum(values * tl.load(beside_x + place, mask=mask, other=0.0), 1)
    if DOTS:
        if ROW:
            tl.store(dot_row + row, with_out / own, mask=in_rows)
        if SOURCE:
            factor = tl.load(of_source + row, mask=in_rows, other=1.0)
            tl.store(dot_source + row, with_x / factor, mask=in_rows)
