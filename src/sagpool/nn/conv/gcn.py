"""Graph convolution of Kipf and Welling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from sagpool.nn.linear import Linear
from sagpool.nn.neighbourhood import Neighbourhood
from sagpool.ops import LabelSums

if TYPE_CHECKING:
    from sagpool.nn.pool.diffpool import ClusterAdjacency


class GCNConv(nn.Module):
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

    def activated(
        self, propagated: Tensor | LabelSums, beside: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """ReLU of the convolution, from the rows that ``adjacency.gcn`` made of x.

        Args:
            propagated: ``[rows, in_channels]``
            beside: ``[members, out_channels, 1]``, whose product with the result is wanted too

        Returns:
            ``[rows, out_channels]``, and ``[rows, 1]`` or None
        """
        return self.linear.relu(propagated, beside)

    def activated_after(self, product: Tensor, adjacency: ClusterAdjacency) -> Tensor:
        """ReLU of the convolution, from the product of x with the weight.

        Args:
            product: ``[rows, out_channels]``
            adjacency: of the rows
        """
        if self.linear.bias is None:
            raise TypeError("A layer without a bias has no fused ReLU.")
        return adjacency.gcn_relu(product, self.linear.bias)

    def forward(self, x: Tensor, adjacency: Neighbourhood) -> Tensor:
        # The two products commute: neighbours are summed where the rows are narrower.
        if self.narrows:
            return self.linear.add_bias(adjacency.gcn(self.linear.product(x)))
        return self.linear(adjacency.gcn(x))
