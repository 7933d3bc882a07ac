"""A linear layer for one-hot rows, and the backward pass of bias and ReLU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.ragged import dot, precision
from sagpool.ops.kernels.scores import (
    add_score,
    add_scores,
    no_scores,
    score_columns,
    store_scores,
)

_TILE = 1024
_MAX_COLUMNS = 128
MOST_NARROW = 8
_LEAST_OF_DOT, _MOST_OF_DOT = 16, 32
_PROGRAMS = 8192  # enough to keep every processor of a large GPU busy


def label_relu(
    row_ptr: Tensor,
    col: Tensor,
    label: Tensor,
    weight: Tensor,
    bias: Tensor,
    score_weight: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """``h = relu(Â x W + b)`` for one-hot rows x, and ``h v``, in one pass.

    A row of x W is a row of W. The loop is over neighbours, as in `gcn_of_rows`, but it adds up the
    few rows of W, which stay in the fastest caches.

    Args:
        row_ptr: ``[members * rows + 1]`` int32, of Ã
        col: ``[entries]`` int32, of Ã
        label: ``[members * rows]`` int32, -1 for none
        weight: W, ``[members, labels, columns]``
        bias: ``[members, 1, columns]``
        score_weight: v, ``[members, columns, scores]``, if any

    Returns:
        ``[members, rows, columns]``, and ``[members * rows, scores]`` if v is given
    """
    members, _, columns = weight.shape
    rows = len(label) // members
    h = weight.new_empty(members, rows, columns)
    scores = score_columns(score_weight)
    y = None if score_weight is None else weight.new_empty(members * rows, scores["SCORES"])
    width = min(_MAX_COLUMNS, triton.next_power_of_2(columns))
    height = 4 if width == _MAX_COLUMNS else min(128, _TILE // width)
    weight = weight if weight[0].is_contiguous() else weight.contiguous()
    _label_relu[(triton.cdiv(rows, height), members)](
        row_ptr, col, label, weight, bias, score_weight, h, y, rows, columns, weight.stride(0),
        bias.stride(0), 0 if score_weight is None else score_weight.stride(0),
        HEIGHT=height, WIDTH=width, num_warps=1, **scores,
    )  # fmt: skip
    return h, y


@kernel(do_not_specialize=["rows"])
def _label_relu(
    row_ptr, col, label, weight, bias, score_weight, h, y, rows, columns, weight_stride,
    bias_stride, score_weight_stride,
    SCORES: tl.constexpr, PADDED: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    in_rows = row < rows
    at = member * rows + row
    weight += member * weight_stride
    start = tl.load(row_ptr + at, mask=in_rows, other=0)
    end = tl.load(row_ptr + at + 1, mask=in_rows, other=0)
    own = 1 / tl.sqrt(tl.maximum(end - start, 1).to(h.dtype.element_ty))
    if SCORES > 0:
        score_weight += member * score_weight_stride
    score = no_scores(HEIGHT, SCORES, PADDED, h.dtype.element_ty)
    for first in range(0, columns, WIDTH):
        column = first + tl.arange(0, WIDTH)
        in_columns = column < columns
        total = tl.zeros((HEIGHT, WIDTH), h.dtype.element_ty)
        for step in range(tl.max(end - start, 0)):
            entry = start + step
            present = entry < end
            source = tl.load(col + entry, mask=present, other=0)
            which = tl.load(label + source, mask=present, other=-1)
            present &= which >= 0
            length = tl.load(row_ptr + source + 1, mask=present, other=1) - tl.load(
                row_ptr + source, mask=present, other=0
            )
            factor = 1 / tl.sqrt(length.to(h.dtype.element_ty))
            values = tl.load(
                weight + which[:, None] * columns + column[None, :],
                mask=present[:, None] & in_columns[None, :],
                other=0.0,
            )
            total += factor[:, None] * values
        total *= own[:, None]
        total += tl.load(bias + member * bias_stride + column, mask=in_columns, other=0.0)[None, :]
        # Not a maximum, which would turn NaN into 0.
        total = tl.where(total < 0, 0.0, total)
        mask = in_rows[:, None] & in_columns[None, :]
        tl.store(h + at[:, None] * columns + column[None, :], total, mask=mask)
        score = add_scores(score, total, score_weight, column, in_columns, SCORES, PADDED)
    if SCORES > 0:
        store_scores(score, y + at * SCORES, 1, in_rows, SCORES, PADDED)


def bias_relu_backward(
    grad_h: Tensor | None,
    grad_y: Tensor | None,
    h: Tensor,
    score_weight: Tensor | None,
    x: Tensor | None = None,
    *,
    product: bool = True,
) -> tuple[Tensor | None, Tensor, Tensor | None, Tensor | None]:
    """The gradients of the product, of the bias, of v and of the weight, in one pass.

    Each program sums over its own rows. The partial sums are then added in a fixed order.

    Args:
        grad_h: ``[members, rows, columns]``, or None for zeros
        grad_y: ``[members, rows, scores]``, or None
        h: ``[members, rows, columns]``
        score_weight: v, ``[members, columns, scores]``, or None
        x: ``[members, rows, in]``, for the gradient of the weight; see `sums_weight_gradient`
        product: whether the gradient of the product is wanted

    Returns:
        the gradients of the product, the bias, v, and (with x) the weight, ``[members, in,
        columns]``
    """
    members, rows, columns = h.shape
    fan_in = 0 if x is None else x.shape[2]
    by_dot = fan_in > MOST_NARROW
    width = min(_MAX_COLUMNS, triton.next_power_of_2(columns))
    width = max(width, _LEAST_OF_DOT) if by_dot else width
    height = min(128, _TILE // width)
    chunks = max(1, min(triton.cdiv(rows, height), triton.cdiv(_PROGRAMS, members)))
    chunk = triton.cdiv(triton.cdiv(rows, chunks), height) * height
    chunks = triton.cdiv(rows, chunk)
    grad = torch.empty_like(h) if product else None
    # Of the bias, v and the weight, so that one operation adds up all of them.
    scores = score_columns(grad_y)
    before_weight = 1 + scores["SCORES"]
    parts = h.new_empty(members, chunks, before_weight + fan_in, columns)
    _bias_relu_backward[(chunks, members, triton.cdiv(columns, width))](
        grad_h, grad_y, h, score_weight, x, grad, parts, rows, chunk, columns,
        0 if score_weight is None else score_weight.stride(0), fan_in,
        GRAD=grad_h is not None, PRODUCT=product,
        INPUTS=max(4, triton.next_power_of_2(fan_in)) if fan_in else 0, DOT=by_dot,
        PRECISION=precision(), HEIGHT=height, WIDTH=width, num_warps=2, **scores,
    )  # fmt: skip
    sums = parts.sum(1)  # [members, 1 + scores + in, columns]
    of_score_weight = None if grad_y is None else sums[:, 1:before_weight].transpose(1, 2)
    of_weight = None if x is None else sums[:, before_weight:]
    return grad, sums[:, :1], of_score_weight, of_weight


def sums_weight_gradient(x: Tensor, columns: int, *, product: bool) -> bool:
    """Whether `bias_relu_backward` should compute the gradient of the weight, too.

    Of wide weights a program could not hold it. Of float64, and of narrow inputs whose own gradient
    is needed, matrix products are as fast.
    """
    fan_in = x.shape[2]
    if not product and fan_in <= MOST_NARROW:
        return True
    small = MOST_NARROW < fan_in <= _MOST_OF_DOT and columns <= _MOST_OF_DOT
    return small and x.dtype == torch.float32


@kernel(do_not_specialize=["rows", "chunk", "fan_in"])
def _bias_relu_backward(
    grad_h, grad_y, h, score_weight, x, grad, parts, rows, chunk, columns,
    score_weight_stride, fan_in,
    GRAD: tl.constexpr, PRODUCT: tl.constexpr, INPUTS: tl.constexpr, DOT: tl.constexpr,
    PRECISION: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SCORES: tl.constexpr,
    PADDED: tl.constexpr,
):  # fmt: skip
    number, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    in_columns = column < columns
    of_bias = tl.zeros((WIDTH,), h.dtype.element_ty)
    of_score_weight = no_scores(WIDTH, SCORES, PADDED, h.dtype.element_ty)
    if INPUTS > 0:
        inputs = tl.arange(0, INPUTS)
        of_weight = tl.zeros((INPUTS, WIDTH), h.dtype.element_ty)
    if SCORES > 0:
        score_weight += member * score_weight_stride + column * SCORES
        v = tl.load(score_weight, mask=in_columns, other=0.0)
    start = number * chunk
    end = tl.minimum(start + chunk, rows)
    for first in range(start, end, HEIGHT):
        row = first + tl.arange(0, HEIGHT)
        in_rows = row < end
        at = member * rows + row
        mask = in_rows[:, None] & in_columns[None, :]
        place = at[:, None] * columns + column[None, :]
        value = tl.load(h + place, mask=mask, other=0.0)
        if GRAD:
            of_value = tl.load(grad_h + place, mask=mask, other=0.0)
        else:
            of_value = tl.zeros((HEIGHT, WIDTH), h.dtype.element_ty)
        for which in tl.static_range(SCORES):
            if SCORES > 1:
                v = tl.load(score_weight + which, mask=in_columns, other=0.0)
            of_score = tl.load(grad_y + at * SCORES + which, mask=in_rows, other=0.0)
            of_value += of_score[:, None] * v[None, :]
            one = tl.sum(value * of_score[:, None], 0)
            of_score_weight = add_score(of_score_weight, one, which, SCORES, PADDED)
        of_value = tl.where(value <= 0, 0.0, of_value)
        of_bias += tl.sum(of_value, 0)
        if DOT:
            in_x = in_rows[None, :] & (inputs < fan_in)[:, None]
            of_rows = tl.load(x + at[None, :] * fan_in + inputs[:, None], mask=in_x, other=0.0)
            of_weight = dot(of_rows, of_value, of_weight, PRECISION)
        elif INPUTS > 0:
            for k in range(fan_in):
                of_input = tl.load(x + at * fan_in + k, mask=in_rows, other=0.0)
                summed = tl.sum(of_input[:, None] * of_value, 0)
                of_weight += tl.where((inputs == k)[:, None], summed[None, :], 0.0)
        if PRODUCT:
            tl.store(grad + place, of_value, mask=mask)
    BEFORE_WEIGHT: tl.constexpr = 1 + SCORES
    part = member * tl.num_programs(0) + number
    place = parts + part * (BEFORE_WEIGHT + fan_in) * columns + column
    tl.store(place, of_bias, mask=in_columns)
    if SCORES > 0:
        store_scores(of_score_weight, place + columns, columns, in_columns, SCORES, PADDED)
    if INPUTS > 0:
        tl.store(
            place[None, :] + (BEFORE_WEIGHT + inputs[:, None]) * columns,
            of_weight,
            mask=(inputs < fan_in)[:, None] & in_columns[None, :],
        )
