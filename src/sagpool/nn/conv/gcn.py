"""Graph convolution of Kipf and Welling."""

from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.conv.conv import Activated, Conv, Level
from sagpool.nn.linear import Linear


class GCNConv(Conv):
    """``D̃^-1/2 Ã D̃^-1/2 X Θ + b`` (Kipf and Welling, 2017; the paper's Equation 10).

    Args:
        in_channels: size of each input row
        out_channels: size of each output row
        bias: whether to add b
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[rows, out_channels]``
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, bias: bool = True, members: int = 1
    ) -> None:
        super().__init__()
        self.narrows = out_channels < in_channels
        self.linear = Linear(in_channels, out_channels, bias=bias, members=members, init="glorot")

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        # The two products commute: sum over neighbours where the rows are narrower.
        if self.narrows:
            return self.of_product(self.linear.product(x), structure)
        return self.linear(structure.gcn(x))

    def row_weight(self) -> Tensor | None:
        return self.linear.weight

    def of_product(self, product: Tensor, structure: Structure) -> Tensor:
        return self.linear.add_bias(structure.gcn(product))

    def activate(self, level: Level, score_weight: Tensor | None = None) -> Activated:
        if level.multiplied and self.linear.bias is not None:
            return Activated(level.structure.gcn_relu(level.x, self.linear.bias), None)
        return Activated(*self.linear.relu(level.propagated, score_weight))

    def last_channel(self, level: Level) -> Tensor:
        assert isinstance(level.propagated, Tensor)
        return self.linear.channel(level.propagated, -1)

    def input_weight(self) -> Tensor | None:
        return self.linear.weight
