"""GraphSAGE convolution with the mean aggregator."""

import torch
from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.conv.conv import Conv
from sagpool.nn.linear import Linear


class SAGEConv(Conv):
    """``X Θ_root + D^-1 A X Θ + b`` (Hamilton et al., 2017, mean aggregator).

    The mean over no neighbours is zero. With edge weights, the mean is weighted.

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
        self.neighbours = Linear(in_channels, out_channels, bias=bias, members=members)
        self.root = Linear(in_channels, out_channels, bias=False, members=members)

    def reset_parameters(self) -> None:
        self.neighbours.reset_parameters()
        self.root.reset_parameters()

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        mean = structure.neighbour_mean(self.neighbours.product(x))
        return self.root(x) + self.neighbours.add_bias(mean)

    def row_weight(self) -> Tensor | None:
        return torch.cat([self.neighbours.weight, self.root.weight], 2)

    def of_product(self, product: Tensor, structure: Structure) -> Tensor:
        of_neighbours, of_root = product.chunk(2, 1)
        return of_root + self.neighbours.add_bias(structure.neighbour_mean(of_neighbours))
