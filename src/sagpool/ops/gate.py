"""Rows that are there in part: times their gates, and the readout over them."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.ops.device import kernels_for
from sagpool.ops.layout import Layout
from sagpool.ops.segment import segment_sum


class Gated(NamedTuple):
    x: Tensor  # [rows, channels]
    present: Tensor  # [graphs], sums of the presence
    # [graphs, 2 * channels], sum / max(present, 1) ‖ maximum, where it comes for free
    mean_max: Tensor | None


def gate_rows(x: Tensor, gate: Tensor, presence: Tensor, layout: Layout) -> Gated:
    """``x ⊙ gate``, and the readout of rows of which only a part is there.

    Args:
        x: ``[rows, channels]``
        gate: ``[rows]``
        presence: ``[rows]`` from 0 to 1
        layout: which rows belong to which graph; with kernels, all results of fillers are zero
    """
    if kernels_for(x) is not None:
        return Gated(*_GateRows.apply(x, gate, presence, layout))
    present = segment_sum(presence[:, None], layout.node_ptr, layout.graph).view(-1)
    return Gated(x * gate[:, None], present, None)


class _GateRows(Function):
    """One pass over x, and one over its gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gate: Tensor, presence: Tensor, layout: Layout
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.kernels, ctx.layout = kernels_for(x), layout
        out, mean_max, arg, present = ctx.kernels.gather_gated(
            x, gate, None, layout.node_ptr, layout.filler_period, layout.rows, presence
        )
        ctx.save_for_backward(x, gate, arg, present, mean_max)
        return out, present, mean_max

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, gate, arg, present, mean_max = ctx.saved_tensors
        grad_out, of_present, grad_read = (
            None if grad is None else grad.contiguous() for grad in grads
        )
        layout, channels = ctx.layout, x.shape[1]
        grad_x, grad_gate = ctx.kernels.gather_gated_backward(
            *(grad_out, grad_read, x, gate, arg, layout.graph, layout.node_ptr, None, present)
        )
        if grad_read is not None:
            mean, of_mean = mean_max[:, :channels], grad_read[:, :channels]
            divided = torch.where(present < 1, 0, -(of_mean * mean).sum(1) / present)
            of_present = divided if of_present is None else of_present + divided
        grad_presence = None if of_present is None else of_present.index_select(0, layout.graph)
        return grad_x, grad_gate, grad_presence, None
