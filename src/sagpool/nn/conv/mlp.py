"""A layer that does not see the edges."""

from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.conv.conv import Activated, Conv, Level
from sagpool.nn.linear import Linear


class MLPConv(Conv):
    """``X Θ + b``: a baseline without edges.

    Args:
        in_channels: size of each input row
        out_channels: size of each output row
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[rows, out_channels]``
    """

    def __init__(self, in_channels: int, out_channels: int, *, members: int = 1) -> None:
        super().__init__()
        self.linear = Linear(in_channels, out_channels, members=members)

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        return self.linear(x)

    def activate(self, level: Level, score_weight: Tensor | None = None) -> Activated:
        return Activated(*self.linear.relu(level.x, score_weight))
