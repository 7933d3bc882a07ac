"""`Linear`: the only layer that knows about members."""

import math

import torch
from torch import Tensor, nn

from sagpool.ops import LabelSums, dense_relu, linear


class Linear(nn.Module):
    """``y = x W + b`` with separate weights for each member of a fleet.

    Args:
        in_channels: size of each input row
        out_channels: size of each output row
        bias: whether to add b
        members: how many models train side by side
        init: ``torch`` (uniform, as ``torch.nn.Linear``) or ``glorot`` (and a zero bias, as PyG's
            convolutions)

    Shapes:
        x: ``[members * rows, in_channels]``, member after member
        result: ``[members * rows, out_channels]``
        weight: ``[members, in_channels, out_channels]``, bias: ``[members, 1, out_channels]``
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        bias: bool = True,
        members: int = 1,
        init: str = "torch",
    ) -> None:
        super().__init__()
        self.init = init
        self.weight = nn.Parameter(torch.empty(members, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(members, 1, out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _, fan_in, fan_out = self.weight.shape
        if self.init == "glorot":
            bound = math.sqrt(6 / (fan_in + fan_out))
        else:
            bound = 1 / math.sqrt(fan_in)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            bias_bound = 0.0 if self.init == "glorot" else bound
            nn.init.uniform_(self.bias, -bias_bound, bias_bound)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    def relu(
        self, x: Tensor | LabelSums, beside: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """``relu(x W + b)``, and its product with ``beside``; see `sagpool.ops.dense_relu`."""
        if self.bias is None:
            raise TypeError("A layer without a bias has no fused ReLU.")
        return dense_relu(x, self.weight, self.bias, beside)

    def channel(self, x: Tensor, number: int) -> Tensor:
        """One channel of the result, ``[members * rows]``."""
        members, fan_in, _ = self.weight.shape
        y = torch.bmm(x.view(members, -1, fan_in), self.weight[..., number, None])
        if self.bias is not None:
            y = y + self.bias[..., number, None]
        return y.view(-1)

    def product(self, x: Tensor) -> Tensor:
        """``x W``, without the bias."""
        return linear(x, self.weight)

    def add_bias(self, y: Tensor) -> Tensor:
        if self.bias is None:
            return y
        members, _, fan_out = self.weight.shape
        return (y.view(members, -1, fan_out) + self.bias).view(-1, fan_out)

    def __repr__(self) -> str:
        members, fan_in, fan_out = self.weight.shape
        return f"Linear({fan_in}, {fan_out}, bias={self.bias is not None}, members={members})"
