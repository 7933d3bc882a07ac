"""Graph isomorphism network convolution."""

from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.conv.conv import Activated, Conv, Level
from sagpool.nn.linear import Linear


class GINConv(Conv):
    """``MLP(X + A X)``, an MLP of two layers (Xu et al., 2019, Equation 4.1 with ε = 0).

    Args:
        in_channels: size of each input row
        out_channels: size of each output row, and of the MLP's hidden layer
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[rows, out_channels]``
    """

    def __init__(self, in_channels: int, out_channels: int, *, members: int = 1) -> None:
        super().__init__()
        self.first = Linear(in_channels, out_channels, members=members)
        self.second = Linear(out_channels, out_channels, members=members)

    def reset_parameters(self) -> None:
        self.first.reset_parameters()
        self.second.reset_parameters()

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        return self.second(self._hidden(x, structure))

    def activate(self, level: Level, score_weight: Tensor | None = None) -> Activated:
        hidden = self._hidden(level.x, level.structure)
        return Activated(*self.second.relu(hidden, score_weight))

    def _hidden(self, x: Tensor, structure: Structure) -> Tensor:
        return self.first.relu(structure.sum_with_self(x))[0]
