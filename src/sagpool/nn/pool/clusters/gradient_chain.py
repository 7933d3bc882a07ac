"""Lets the kernels that use one assignment matrix add up its gradient in a single buffer."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class GradientChain:
    """The assignment matrix T, passed from each kernel that uses it to the next.

    Each kernel returns T as an additional output, which is the input of the next. In the backward
    pass each receives the gradient that the later kernels have accumulated, and adds its own in
    place: T is large, and adding up separate gradients takes longer than computing some of them.

    ``latest`` must not leave this package: other functions, such as an addition, may return a
    gradient that other tensors need unchanged.
    """

    latest: Tensor

    def advance(self, output: Tensor) -> None:
        """Set the output of the last kernel, which the next kernel takes."""
        if torch.is_grad_enabled():  # otherwise it would cut later kernels off from autograd
            self.latest = output
