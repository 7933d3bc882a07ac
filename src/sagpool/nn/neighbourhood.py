"""What the graph convolutions need to know of the graphs."""

from typing import Protocol

from torch import Tensor


class Neighbourhood(Protocol):
    """What a convolution needs to know of the graphs: an `Adjacency`, or what acts like one."""

    @property
    def degree(self) -> Tensor:
        """``[rows]`` row sums of A."""

    def gcn(self, x: Tensor) -> Tensor:
        """``D̃^-1/2 (A + I) D̃^-1/2 x``"""

    def neighbour_sum(self, x: Tensor) -> Tensor:
        """``A x``"""
