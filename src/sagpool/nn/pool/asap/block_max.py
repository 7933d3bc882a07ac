"""The maximum over neighbours in dense graphs, without storing each pair and channel."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from sagpool.ops import entries_max
from sagpool.ops.device import on_cpu
from sagpool.ops.ragged import marked

MOST_NUMBERS = 2**24  # most numbers that are compared at once


def block_max(x: Tensor, joined: Tensor) -> Tensor:
    """``out[g, i]`` = the maximum of ``x[g, j]`` over all j to which i is joined.

    Args:
        x: ``[graphs, nodes, channels]``
        joined: ``[graphs, nodes, nodes]`` bool; every node has a neighbour, perhaps itself

    Returns:
        ``[graphs, nodes, channels]``; of several largest rows, one gets the gradient
    """
    if on_cpu(x):  # counting the pairs needs no synchronisation, and is three times as fast
        return _max_over_pairs(x, joined)
    return _BlockMax.apply(x, joined)


def _max_over_pairs(x: Tensor, joined: Tensor) -> Tensor:
    nodes = x.shape[1]
    row_ptr = pad(torch.cumsum(joined.sum(2).view(-1), 0, dtype=torch.int32), (1, 0))
    pair = marked(joined.reshape(-1))  # in [graphs, nodes, nodes]
    col = pair % nodes + pair // nodes**2 * nodes
    return entries_max(x.flatten(0, 1), row_ptr, col.int()).view_as(x)


class _BlockMax(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, joined: Tensor) -> Tensor:
        step = max(1, MOST_NUMBERS // max(x[:, :1].numel() * joined.shape[1], 1))
        best = torch.full_like(x, -torch.inf)
        arg = torch.zeros(x.shape, dtype=torch.int64, device=x.device)
        for first in range(0, x.shape[1], step):
            among = joined[:, :, first : first + step, None]  # [graphs, nodes, step, 1]
            values = torch.where(among, x[:, None, first : first + step], -torch.inf)
            found, at = values.max(2)
            # A NaN is larger than everything; it is found by `max`, and must not be lost here.
            better = (found > best) | found.isnan()
            best, arg = torch.where(better, found, best), torch.where(better, at + first, arg)
        ctx.save_for_backward(arg)
        return best

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (arg,) = ctx.saved_tensors
        return torch.zeros_like(grads[0]).scatter_add_(1, arg, grads[0]), None
