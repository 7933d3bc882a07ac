"""Attention of rows over the edges of a list, in any order, of one value for each head."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.edge_attention import LEAK
from sagpool.ops.kernels.edge_list import ends
from sagpool.ops.kernels.jit import kernel
from sagpool.ops.kernels.tiles import blocks

_TILE = 1024


def attention_of_edges(
    to_target: Tensor, from_source: Tensor, values: Tensor, edge_index: Tensor
) -> tuple[Tensor, Tensor]:
    """The attended values, and log Σ exp(energy), ``[rows, heads]`` each.

    Args:
        to_target: ``[rows, heads]``, contiguous
        from_source: ``[rows, heads]``, contiguous
        values: ``[rows, heads]``, contiguous
        edge_index: ``[2, edges]`` int64, contiguous; edges from a row to itself or to none do not
            count
    """
    rows, heads = values.shape
    highest = torch.full_like(values, -torch.inf)  # energy of an edge to each row
    total, weight = torch.zeros_like(values), torch.zeros_like(values)
    out, level = torch.empty_like(values), torch.empty_like(values)
    edges, tile = edge_index.shape[1], _tile(heads)
    grid = (blocks(edges, tile["BLOCK"]),)
    _highest[grid](to_target, from_source, edge_index, highest, rows, edges, heads, **tile)
    _add_weighted[grid](
        to_target, from_source, values, edge_index, highest, total, weight, rows, edges, heads,
        **tile,
    )  # fmt: skip
    _add_own[(blocks(rows, tile["BLOCK"]),)](
        to_target, from_source, values, highest, total, weight, out, level, rows, heads, **tile
    )
    return out, level


def _tile(heads: int) -> dict[str, int]:
    width = 1 << (heads - 1).bit_length()
    return {"BLOCK": max(1, _TILE // width), "WIDTH": width, "num_warps": 4}


@triton.jit
def _energy(to_target, from_source, target, source, mask):
    """The energies, and whether they are above zero, where the leaky ReLU has slope 1."""
    raw = tl.load(to_target + target, mask=mask, other=0.0)
    raw += tl.load(from_source + source, mask=mask, other=0.0)
    return tl.where(raw > 0, raw, LEAK * raw), raw > 0


@triton.jit
def _heads_of_edges(edge_index, rows, edges, heads, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Where the numbers of the sources and targets of edges are, and which of them count."""
    edge = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    source, target, counted = ends(edge_index, edge_index + edges, edge, rows, edges)
    head = tl.arange(0, WIDTH)[None, :]
    mask = counted[:, None] & (head < heads)
    return source[:, None] * heads + head, target[:, None] * heads + head, mask


@triton.jit
def _heads_of_rows(rows, heads, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Where the numbers of rows are, and which of them exist."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    head = tl.arange(0, WIDTH)[None, :]
    return row[:, None] * heads + head, (row < rows)[:, None] & (head < heads)


@kernel(do_not_specialize=["rows", "edges", "heads"])
def _highest(
    to_target, from_source, edge_index, highest, rows, edges, heads,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    source, target, mask = _heads_of_edges(edge_index, rows, edges, heads, BLOCK, WIDTH)
    energy, _ = _energy(to_target, from_source, target, source, mask)
    tl.atomic_max(highest + target, energy, mask=mask)


@kernel(do_not_specialize=["rows", "edges", "heads"])
def _add_weighted(
    to_target, from_source, values, edge_index, highest, total, weight, rows, edges, heads,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    source, target, mask = _heads_of_edges(edge_index, rows, edges, heads, BLOCK, WIDTH)
    energy, _ = _energy(to_target, from_source, target, source, mask)
    own, _ = _energy(to_target, from_source, target, target, mask)
    shift = tl.maximum(tl.load(highest + target, mask=mask, other=0.0), own)
    alpha = tl.exp(energy - shift)
    tl.atomic_add(weight + target, alpha, mask=mask)
    tl.atomic_add(total + target, alpha * tl.load(values + source, mask=mask, other=0.0), mask=mask)


@kernel(do_not_specialize=["rows", "heads"])
def _add_own(
    to_target, from_source, values, highest, total, weight, out, level, rows, heads,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Each row attends to itself too."""
    at, mask = _heads_of_rows(rows, heads, BLOCK, WIDTH)
    own, _ = _energy(to_target, from_source, at, at, mask)
    shift = tl.maximum(tl.load(highest + at, mask=mask, other=0.0), own)
    alpha = tl.exp(own - shift)
    whole = tl.load(weight + at, mask=mask, other=0.0) + alpha
    sent = alpha * tl.load(values + at, mask=mask, other=0.0)
    tl.store(out + at, (tl.load(total + at, mask=mask, other=0.0) + sent) / whole, mask=mask)
    tl.store(level + at, shift + tl.log(whole), mask=mask)


def attention_of_edges_backward(
    grad: Tensor,
    to_target: Tensor,
    from_source: Tensor,
    values: Tensor,
    edge_index: Tensor,
    out: Tensor,
    level: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``to_target``, ``from_source`` and ``values``, ``[rows, heads]`` each.

    Args:
        grad: ``[rows, heads]``, of the attended values
        to_target: as for `attention_of_edges`
        from_source: as for `attention_of_edges`
        values: as for `attention_of_edges`
        edge_index: as for `attention_of_edges`
        out: the attended values
        level: from `attention_of_edges`
    """
    rows, heads = values.shape
    grads = torch.empty_like(values), torch.empty_like(values), torch.empty_like(values)
    edges, tile = edge_index.shape[1], _tile(heads)
    known = grad, to_target, from_source, values, out, level
    _own_backward[(blocks(rows, tile["BLOCK"]),)](*known, *grads, rows, heads, **tile)
    _edges_backward[(blocks(edges, tile["BLOCK"]),)](
        *known, edge_index, *grads, rows, edges, heads, **tile
    )
    return grads


@triton.jit
def _of_pair(grad, to_target, from_source, values, out, level, target, source, mask):
    """The gradients of the energy before its leaky ReLU, and of the value that is sent."""
    energy, positive = _energy(to_target, from_source, target, source, mask)
    alpha = tl.exp(energy - tl.load(level + target, mask=mask, other=0.0))
    of_value = alpha * tl.load(grad + target, mask=mask, other=0.0)
    sent = tl.load(values + source, mask=mask, other=0.0)
    of_energy = of_value * (sent - tl.load(out + target, mask=mask, other=0.0))
    return tl.where(positive, of_energy, LEAK * of_energy), of_value


@kernel(do_not_specialize=["rows", "heads"])
def _own_backward(
    grad, to_target, from_source, values, out, level, of_target, of_source, of_values, rows, heads,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    at, mask = _heads_of_rows(rows, heads, BLOCK, WIDTH)
    of_energy, of_value = _of_pair(grad, to_target, from_source, values, out, level, at, at, mask)
    tl.store(of_target + at, of_energy, mask=mask)
    tl.store(of_source + at, of_energy, mask=mask)
    tl.store(of_values + at, of_value, mask=mask)


@kernel(do_not_specialize=["rows", "edges", "heads"])
def _edges_backward(
    grad, to_target, from_source, values, out, level, edge_index, of_target, of_source, of_values,
    rows, edges, heads, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    source, target, mask = _heads_of_edges(edge_index, rows, edges, heads, BLOCK, WIDTH)
    of_energy, of_value = _of_pair(
        grad, to_target, from_source, values, out, level, target, source, mask
    )
    mask &= of_value != 0  # rows that were dropped have no gradient
    tl.atomic_add(of_target + target, of_energy, mask=mask)
    tl.atomic_add(of_source + source, of_energy, mask=mask)
    tl.atomic_add(of_values + source, of_value, mask=mask)
