"""Cross-entropy."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

# Most data sets have fewer classes, and share the kernels.
_CLASSES = 16
_TILE = 1024


def cross_entropy_sums(logits: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """``[members]``; see `sagpool.ops.cross_entropy_sums`. One program per member."""
    members, graphs, classes = logits.shape
    out = torch.empty(members, dtype=logits.dtype, device=logits.device)
    _cross_entropy_sums[(members,)](
        logits, y, real.view(torch.uint8), out, graphs, classes, **_tile(classes), num_warps=4
    )
    return out


def cross_entropy_sums_backward(grad: Tensor, logits: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """The gradient of the logits, given that of the sums."""
    members, graphs, classes = logits.shape
    out, tile = torch.empty_like(logits), _tile(classes)
    _cross_entropy_sums_backward[(triton.cdiv(graphs, tile["GRAPHS"]), members)](
        grad, logits, y, real.view(torch.uint8), out, graphs, classes, **tile, num_warps=4
    )
    return out


def _tile(classes: int) -> dict[str, int]:
    width = max(_CLASSES, triton.next_power_of_2(classes))
    return {"GRAPHS": max(1, _TILE // width), "CLASSES": width}


@kernel(do_not_specialize=["graphs", "classes"])
def _cross_entropy_sums(
    logits, y, real, out, graphs, classes, GRAPHS: tl.constexpr, CLASSES: tl.constexpr
):
    member = tl.program_id(0).to(tl.int64)
    total = tl.zeros((GRAPHS,), out.dtype.element_ty)
    for first in range(0, graphs, GRAPHS):
        graph = first + tl.arange(0, GRAPHS)
        at = member * graphs + graph
        is_real = tl.load(real + at, mask=graph < graphs, other=0) == 1
        label = tl.load(y + at, mask=is_real, other=0)
        z, scale = _logits_of(logits, at, is_real, classes, CLASSES)
        total += _cross_entropy(z, scale, label, is_real, CLASSES)
    tl.store(out + member, tl.sum(total, 0))


def add_validation(
    loss: Tensor,
    hits: Tensor,
    graphs: Tensor,
    asked: Tensor,
    logits: Tensor,
    y: Tensor,
    real: Tensor,
) -> None:
    """Add `cross_entropy_sums`, the right predictions and the real graphs of each member.

    Args:
        loss: ``[members]``, changed in place
        hits: ``[members]`` int64, changed in place
        graphs: ``[members]`` int64, changed in place
        asked: ``[members]`` int64, changed in place: of every graph one class is asked
        logits: ``[members, graphs, classes]``
        y: ``[members, graphs]`` int64
        real: ``[members, graphs]`` bool
    """
    members, count, classes = logits.shape
    _add_validation[(members,)](
        loss, hits, graphs, asked, logits.contiguous(), y, real.view(torch.uint8), count, classes,
        **_tile(classes), num_warps=4,
    )  # fmt: skip


@kernel(do_not_specialize=["count", "classes"])
def _add_validation(
    loss, hits, graphs, asked, logits, y, real, count, classes,
    GRAPHS: tl.constexpr, CLASSES: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0).to(tl.int64)
    total = tl.zeros((GRAPHS,), loss.dtype.element_ty)
    right = tl.zeros((GRAPHS,), tl.int64)
    there = tl.zeros((GRAPHS,), tl.int64)
    for first in range(0, count, GRAPHS):
        graph = first + tl.arange(0, GRAPHS)
        at = member * count + graph
        is_real = tl.load(real + at, mask=graph < count, other=0) == 1
        label = tl.load(y + at, mask=is_real, other=0)
        z, scale = _logits_of(logits, at, is_real, classes, CLASSES)
        total += _cross_entropy(z, scale, label, is_real, CLASSES)
        # Of equal logits the first counts, as in torch.
        found = tl.argmax(z, 1, tie_break_left=True)
        right += (is_real & (found == label)).to(tl.int64)
        there += is_real.to(tl.int64)
    tl.store(loss + member, tl.load(loss + member) + tl.sum(total, 0))
    tl.store(hits + member, tl.load(hits + member) + tl.sum(right, 0))
    tl.store(graphs + member, tl.load(graphs + member) + tl.sum(there, 0))
    tl.store(asked + member, tl.load(asked + member) + tl.sum(there, 0))


@kernel(do_not_specialize=["graphs", "classes"])
def _cross_entropy_sums_backward(
    grad, logits, y, real, out, graphs, classes, GRAPHS: tl.constexpr, CLASSES: tl.constexpr
):
    member = tl.program_id(1).to(tl.int64)
    graph = tl.program_id(0) * GRAPHS + tl.arange(0, GRAPHS)
    at = member * graphs + graph
    inside = graph < graphs
    is_real = tl.load(real + at, mask=inside, other=0) == 1
    label = tl.load(y + at, mask=is_real, other=0)
    z, scale = _logits_of(logits, at, is_real, classes, CLASSES)
    column = tl.arange(0, CLASSES)[None, :]
    one_hot = (column == label[:, None]).to(z.dtype)
    value = (tl.exp(z) / scale[:, None] - one_hot) * tl.load(grad + member)
    tl.store(
        out + at[:, None] * classes + column,
        tl.where(is_real[:, None], value, 0.0),
        mask=inside[:, None] & (column < classes),
    )


@triton.jit
def _cross_entropy(z, scale, label, is_real, CLASSES: tl.constexpr):
    chosen = tl.arange(0, CLASSES)[None, :] == label[:, None]
    loss = tl.log(scale) - tl.sum(tl.where(chosen, z, 0.0), 1)
    # A mask, not a product: 0 · NaN is NaN.
    return tl.where(is_real, loss, 0.0)


@triton.jit
def _logits_of(logits, at, is_real, classes, CLASSES: tl.constexpr):
    """Logits less the largest of each graph, and the sums of their exponentials."""
    column = tl.arange(0, CLASSES)[None, :]
    inside = column < classes
    z = tl.load(logits + at[:, None] * classes + column, mask=is_real[:, None] & inside, other=0.0)
    largest = tl.max(tl.where(inside, z, -float("inf")), 1)
    z = tl.where(inside, z - largest[:, None], -float("inf"))
    return z, tl.sum(tl.exp(z), 1)
