"""Sums over the edges of a list, in any order."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.tiles import blocks

_BLOCK = 512


def degrees_of_edges(edge_index: Tensor, rows: int) -> Tensor:
    """``[rows]`` float32, how many edges lead to each row; self-loops do not count."""
    degree = torch.zeros(rows, device=edge_index.device)
    edges = edge_index.shape[1]
    _degrees[(blocks(edges, _BLOCK),)](edge_index, degree, rows, edges, BLOCK=_BLOCK, num_warps=4)
    return degree


@kernel(do_not_specialize=["rows", "edges"])
def _degrees(edge_index, degree, rows, edges, BLOCK: tl.constexpr):
    edge = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    _, to, counted = ends(edge_index, edge_index + edges, edge, rows, edges)
    tl.atomic_add(degree + to, tl.full((BLOCK,), 1.0, tl.float32), mask=counted)


def gcn_of_edges(x: Tensor, degree: Tensor, edge_index: Tensor, transposed: bool) -> Tensor:
    """``D̃^-1/2 (A + I) D̃^-1/2 x``; see `sagpool.ops.gcn_of_edges`.

    Args:
        x: ``[rows]``
        degree: ``[rows]``
        edge_index: ``[2, edges]`` int64, contiguous; edges from a row to itself or to none do not
            count
        transposed: whether to use Aᵀ in place of A
    """
    out = torch.zeros_like(x)
    add_along_edges(x, degree, edge_index, out, transposed)
    rows = len(x)
    _add_own[(blocks(rows, _BLOCK),)](x, degree, out, rows, BLOCK=_BLOCK, num_warps=4)
    return out


def add_along_edges(
    x: Tensor, degree: Tensor, edge_index: Tensor, out: Tensor, transposed: bool
) -> None:
    """Add ``A D̃^-1/2 x`` to ``out``, ``[rows]``; see `gcn_of_edges`."""
    edges = edge_index.shape[1]
    _add_along_edges[(blocks(edges, _BLOCK),)](
        x, degree, edge_index, out, len(x), edges, TRANSPOSED=transposed, BLOCK=_BLOCK, num_warps=4
    )


@kernel(do_not_specialize=["rows", "edges"])
def _add_along_edges(
    x, degree, edge_index, out, rows, edges, TRANSPOSED: tl.constexpr, BLOCK: tl.constexpr
):
    edge = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if TRANSPOSED:
        out_of, to, counted = ends(edge_index + edges, edge_index, edge, rows, edges)
    else:
        out_of, to, counted = ends(edge_index, edge_index + edges, edge, rows, edges)
    sent = _scaled(x, degree, out_of, counted)[0]
    # Rows that were dropped have no gradient: half of all additions.
    tl.atomic_add(out + to, sent, mask=counted & (sent != 0))


@kernel(do_not_specialize=["rows"])
def _add_own(x, degree, out, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    scaled, scale = _scaled(x, degree, row, inside)
    received = tl.load(out + row, mask=inside, other=0.0)
    tl.store(out + row, scale * (received + scaled), mask=inside)


@triton.jit
def _scaled(x, degree, row, inside):
    """The rows times ``D̃^-1/2``, and that."""
    value = tl.load(x + row, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.load(degree + row, mask=inside, other=0).to(value.dtype) + 1.0)
    return scale * value, scale


@triton.jit
def ends(source, target, edge, rows, edges):
    """Both ends, and whether the edge joins two different rows that exist."""
    inside = edge < edges
    out_of = tl.load(source + edge, mask=inside, other=0)
    to = tl.load(target + edge, mask=inside, other=0)
    counted = inside & (out_of != to) & exists(out_of, rows) & exists(to, rows)
    return out_of, to, counted


@triton.jit
def exists(row, rows):
    return (row >= 0) & (row < rows)
