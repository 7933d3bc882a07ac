"""The link loss of each graph, from its parts."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel


def link_loss(
    norm: Tensor | None,
    trace: Tensor,
    gram_norm: Tensor,
    ptr: Tensor,
    row_ptr: Tensor,
    least: float,
) -> tuple[Tensor, Tensor]:
    """``‖A - S Sᵀ‖ / N²`` and ``‖A - S Sᵀ‖²`` of each graph, ``[graphs]`` each.

    Args:
        norm: ``‖A‖²``, ``[graphs]``; None if it is the number of entries of A
        trace: ``tr(Sᵀ A S)``, ``[graphs]``
        gram_norm: ``‖Sᵀ S‖²``, ``[graphs]``
        ptr: ``[graphs + 1]``
        row_ptr: ``[rows + 1]`` of A + I
        least: lower bound of the square
    """
    out, square = torch.empty_like(trace), torch.empty_like(trace)
    graphs = len(trace)
    _link_loss[(triton.cdiv(graphs, 128),)](
        norm, trace, gram_norm, ptr, row_ptr, out, square, graphs, least,
        COUNT=norm is None, WIDTH=128, num_warps=4,
    )  # fmt: skip
    return out, square


@kernel(do_not_specialize=["graphs"])
def _link_loss(
    norm, trace, gram_norm, ptr, row_ptr, out, square, graphs, least,
    COUNT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    graph = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    mask = graph < graphs
    start = tl.load(ptr + graph, mask=mask, other=0)
    end = tl.load(ptr + graph + 1, mask=mask, other=1)
    nodes = (end - start).to(tl.float32)
    if COUNT:
        entries = tl.load(row_ptr + end, mask=mask, other=0) - tl.load(
            row_ptr + start, mask=mask, other=0
        )
        total = entries.to(tl.float32) - nodes
    else:
        total = tl.load(norm + graph, mask=mask, other=0.0)
    total -= 2 * tl.load(trace + graph, mask=mask, other=0.0)
    total += tl.load(gram_norm + graph, mask=mask, other=0.0)
    tl.store(square + graph, total, mask=mask)
    total = tl.where(total < least, least, total)  # not a maximum, which would lose NaN
    tl.store(out + graph, tl.sqrt(total) / (nodes * nodes), mask=mask)


def link_loss_backward(
    grad: Tensor, square: Tensor, ptr: Tensor, least: float
) -> tuple[Tensor, Tensor]:
    """The gradients of both norms and of the trace, ``[graphs]`` each."""
    grad_norm, grad_trace = torch.empty_like(square), torch.empty_like(square)
    graphs = len(square)
    _link_loss_backward[(triton.cdiv(graphs, 128),)](
        grad, square, ptr, grad_norm, grad_trace, graphs, least, WIDTH=128, num_warps=4
    )
    return grad_norm, grad_trace


@kernel(do_not_specialize=["graphs"])
def _link_loss_backward(
    grad, square, ptr, grad_norm, grad_trace, graphs, least, WIDTH: tl.constexpr
):
    graph = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    mask = graph < graphs
    nodes = tl.load(ptr + graph + 1, mask=mask, other=1) - tl.load(ptr + graph, mask=mask, other=0)
    nodes = nodes.to(tl.float32)
    total = tl.load(square + graph, mask=mask, other=1.0)
    slope = 0.5 / (tl.sqrt(tl.where(total < least, least, total)) * nodes * nodes)
    back = tl.load(grad + graph, mask=mask, other=0.0) * tl.where(total < least, 0.0, slope)
    tl.store(grad_norm + graph, back, mask=mask)
    tl.store(grad_trace + graph, -2 * back, mask=mask)
