"""Normalisation that mixes neither members nor graphs."""

import torch
from torch import Tensor, nn

from sagpool.ops import Layout, segment_expand, segment_mean

EPS = 1e-5


class Norm(nn.Module):
    """``γ (x - α μ) / σ + β``, with μ and σ over the nodes of each graph
    (GraphNorm, Cai et al., 2021).

    Unlike batch normalisation it has no running statistics, and a graph's rows do not depend on
    the other graphs of the batch. σ is the root of the mean of ``(x - α μ)²``.

    Args:
        channels: size of each row
        members: how many models train side by side

    Shapes:
        x: ``[rows, channels]``, result: the same
    """

    def __init__(self, channels: int, *, members: int = 1) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(members, 1, channels))  # γ
        self.shift = nn.Parameter(torch.empty(members, 1, channels))  # β
        self.mean_scale = nn.Parameter(torch.empty(members, 1, channels))  # α
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.scale)
        nn.init.zeros_(self.shift)
        nn.init.ones_(self.mean_scale)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        by_graph = layout.node_ptr, layout.graph
        stacked = (layout.members, -1, x.shape[1])  # [members, rows, channels]
        mean = segment_expand(segment_mean(x, *by_graph), *by_graph)
        centred = x - (mean.view(stacked) * self.mean_scale).view_as(x)
        variance = segment_expand(segment_mean(centred.square(), *by_graph), *by_graph)
        normal = centred * (variance + EPS).rsqrt()
        return (normal.view(stacked) * self.scale + self.shift).view_as(x)
