"""A convolution that sees triangles."""

from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.conv.conv import Conv
from sagpool.nn.linear import Linear
from sagpool.ops import propagate


class TriangleConv(Conv):
    """``X Θ_root + A X Θ + M X Θ_triangles + b`` with ``M = A² ⊙ A``.

    M counts the triangles that an edge is in. A sum over neighbours alone cannot tell graphs with
    and without triangles apart if their nodes have the same degrees, however often it is repeated.

    For the graphs of a batch, M is computed once for the whole collection. After a pooling it is
    computed in each step, on the host, so this layer is for networks with a single pooling at the
    end.

    Args:
        in_channels: size of each input row
        out_channels: size of each output row
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[rows, out_channels]``
    """

    def __init__(self, in_channels: int, out_channels: int, *, members: int = 1) -> None:
        super().__init__()
        self.root = Linear(in_channels, out_channels, members=members)
        self.neighbours = Linear(in_channels, out_channels, bias=False, members=members)
        self.triangles = Linear(in_channels, out_channels, bias=False, members=members)

    def reset_parameters(self) -> None:
        for linear in (self.root, self.neighbours, self.triangles):
            linear.reset_parameters()

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        graphs = structure.csr()
        matrix = graphs.row_ptr, graphs.col, graphs.triangles.to(x.dtype)
        around = propagate(self.triangles(x), *matrix, symmetric=graphs.symmetric)
        return self.root(x) + structure.neighbour_sum(self.neighbours(x)) + around
