"""Normalisation of each row separately."""

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from sagpool.ops import Layout


class RowNorm(nn.Module):
    """``γ (x - μ) / σ + β``, with μ and σ over the channels of each row (Ba et al., 2016).

    Like `Norm` it has no running statistics; unlike `Norm`, a node depends on no other node.

    Args:
        channels: size of each row
        members: how many models train side by side

    Shapes:
        x: ``[members * rows, channels]``, result: the same
    """

    def __init__(self, channels: int, *, members: int = 1) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(members, 1, channels))  # γ
        self.shift = nn.Parameter(torch.empty(members, 1, channels))  # β
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.scale)
        nn.init.zeros_(self.shift)

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        """The layout is unused; it is there because `Norm` has the same call."""
        members, _, channels = self.scale.shape
        normal = layer_norm(x, (channels,)).view(members, -1, channels)
        return torch.addcmul(self.shift, normal, self.scale).view_as(x)
