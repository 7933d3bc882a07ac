"""Graph attention convolution."""

import math

import torch
from torch import Tensor, nn

from sagpool.graphs import Structure
from sagpool.nn.conv.conv import Conv
from sagpool.nn.linear import Linear


class GATConv(Conv):
    """``Σ_j α_ij Θ x_j + b`` over the neighbours j of i and i itself, averaged over the heads.

    α_ij = softmax_j(LeakyReLU(a_targetᵀ Θ x_i + a_sourceᵀ Θ x_j)) (Veličković et al., 2018).
    Heads are averaged, not concatenated: a score is one number.

    Args:
        in_channels: size of each input row
        out_channels: size of each output row
        heads: number of attention heads
        bias: whether to add b
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[rows, out_channels]``
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        heads: int = 6,
        bias: bool = True,
        members: int = 1,
    ) -> None:
        super().__init__()
        self.heads, self.out_channels, self.members = heads, out_channels, members
        self.linear = Linear(
            in_channels, heads * out_channels, bias=False, members=members, init="glorot"
        )
        self.source = nn.Parameter(torch.empty(members, 1, heads, out_channels))
        self.target = nn.Parameter(torch.empty(members, 1, heads, out_channels))
        self.bias = nn.Parameter(torch.empty(members, 1, out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()
        bound = math.sqrt(6 / (self.heads + self.out_channels))
        nn.init.uniform_(self.source, -bound, bound)
        nn.init.uniform_(self.target, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        shape = (self.members, -1, self.heads, self.out_channels)
        h = self.linear(x).view(shape)  # [members, rows, heads, out]
        to_target = (h * self.target).sum(-1).view(-1, self.heads)
        from_source = (h * self.source).sum(-1).view(-1, self.heads)
        values = h.flatten(2).flatten(0, 1)  # [rows, heads * out]
        received = structure.attention(to_target, from_source, values).view(shape)
        out = received.mean(2)  # [members, rows, out]
        return (out if self.bias is None else out + self.bias).view(-1, self.out_channels)
