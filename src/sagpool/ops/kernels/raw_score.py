"""A score of rows that kernels compute where they read it, from one product of each row."""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.edge_list import add_along_edges, ends
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.tiles import blocks, tile

_BLOCK = 512


class RawScore(NamedTuple):
    """``D̃^-1/2 (A + I) D̃^-1/2 p + b``, or ``p + b`` without degrees."""

    projected: Tensor  # [rows], p
    bias: Tensor | None  # one number, b
    degree: Tensor | None  # [rows] int32
    received: Tensor | None  # [rows], the sum of D̃^-1/2 p over neighbours

    @property
    def is_given(self) -> bool:
        """Whether there is nothing to compute."""
        return self.degree is None and self.bias is None

    def empty(self) -> Tensor:
        """Where a kernel that reads the score is to write it, ``[rows]``."""
        return self.projected if self.is_given else torch.empty_like(self.projected)

    def arguments(self) -> dict[str, Any]:
        """Of a kernel that calls `raw_score`.

        The score is computed at more than one place, and must be the same everywhere: products
        and sums are not fused, which a compiler may do at one place and not at another.
        """
        return {
            **self._asdict(),
            "GCN": self.degree is not None,
            "BIASED": self.bias is not None,
            "enable_fp_fusion": False,
        }


@triton.jit
def raw_score(
    projected, bias, degree, received, row, inside, GCN: tl.constexpr, BIASED: tl.constexpr
):
    value = tl.load(projected + row, mask=inside, other=0.0)
    if GCN:
        scale = tl.rsqrt(tl.load(degree + row, mask=inside, other=0).to(value.dtype) + 1.0)
        value = scale * (tl.load(received + row, mask=inside, other=0.0) + scale * value)
    if BIASED:
        value += tl.load(bias)
    return value


def score_rows(
    x: Tensor, weight: Tensor, bias: Tensor | None, edge_index: Tensor | None, degree: Tensor | None
) -> RawScore:
    """The score of the products ``x w``; edges that join no two different rows do not count.

    Args:
        x: ``[rows, columns]``, contiguous
        weight: w, ``columns`` numbers
        bias: one number, or None
        edge_index: ``[2, edges]`` int64, contiguous; None for a score without neighbours
        degree: ``[rows]`` int32 zeros, which become the degrees, if there are edges
    """
    rows, columns = x.shape
    projected = x.new_empty(rows)
    edges = 0 if edge_index is None else edge_index.shape[1]
    received = None if edge_index is None else torch.empty_like(projected)
    height, width = tile(columns)
    row_programs = blocks(rows, height)
    _project[(row_programs + blocks(edges, _BLOCK),)](
        x, weight, edge_index, projected, received, degree, rows, columns, edges, row_programs,
        GCN=received is not None, HEIGHT=height, WIDTH=width, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    if edge_index is not None and received is not None:
        assert degree is not None
        add_along_edges(projected, degree, edge_index, received, transposed=False)
    return RawScore(projected, bias, degree, received)


@kernel(do_not_specialize=["rows", "edges", "row_programs"])
def _project(
    x, weight, edge_index, projected, received, degree, rows, columns, edges, row_programs,
    GCN: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The products of rows, and by further programs the degrees."""
    program = tl.program_id(0)
    if program < row_programs:
        row = program.to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
        in_rows = row < rows
        total = tl.zeros((HEIGHT, WIDTH), projected.dtype.element_ty)
        for first in range(0, columns, WIDTH):
            column = first + tl.arange(0, WIDTH)
            inside = in_rows[:, None] & (column < columns)[None, :]
            place = row[:, None] * columns + column[None, :]
            factor = tl.load(weight + column, mask=column < columns, other=0.0)
            total += tl.load(x + place, mask=inside, other=0.0) * factor[None, :]
        tl.store(projected + row, tl.sum(total, 1), mask=in_rows)
        if GCN:
            zeros = tl.zeros((HEIGHT,), received.dtype.element_ty)
            tl.store(received + row, zeros, mask=in_rows)
    elif GCN:
        edge = (program - row_programs).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        _, to, counted = ends(edge_index, edge_index + edges, edge, rows, edges)
        tl.atomic_add(degree + to, tl.full((BLOCK,), 1, tl.int32), mask=counted)
