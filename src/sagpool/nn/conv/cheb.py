"""Chebyshev spectral convolution."""

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.conv.conv import Conv
from sagpool.nn.linear import Linear


class ChebConv(Conv):
    """``Σ_k T_k(L̂) X Θ_k + b`` for k = 0, ..., K - 1 (Defferrard et al., 2016).

    L̂ = 2 L / λ_max - I with the symmetric normalised Laplacian L and λ_max = 2, its upper bound,
    so that L̂ = -D^-1/2 A D^-1/2. (The paper does not say; this is PyG's default too.)

    Args:
        in_channels: size of each input row
        out_channels: size of each output row
        K: number of Chebyshev polynomials
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
        K: int = 2,
        bias: bool = True,
        members: int = 1,
    ) -> None:
        super().__init__()
        if K < 1:
            raise SagpoolError(f"ChebConv needs K of at least 1, not {K}.")
        self.linears = nn.ModuleList(
            Linear(
                in_channels,
                out_channels,
                bias=bias and k == 0,
                members=members,
                init="glorot",
            )
            for k in range(K)
        )

    def reset_parameters(self) -> None:
        for linear in self.linears:
            linear.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        # Clenshaw's recurrence runs on the output rows, which for scores are single numbers:
        # b_k = XΘ_k + 2 L̂ b_{k+1} - b_{k+2}, and XΘ_0 + L̂ b_1 - b_2 is the result.
        degree = structure.degree.to(x.dtype)[:, None]
        # A node without neighbours has the scale 0; `where` first, or its gradient would be NaN.
        scale = torch.where(degree > 0, degree, 1).rsqrt() * (degree > 0)

        def laplacian(y: Tensor) -> Tensor:
            return -scale * structure.neighbour_sum(scale * y)

        terms: list[Tensor] = [linear(x) for linear in self.linears]
        if len(terms) == 1:
            return terms[0]
        after, current = None, terms[-1]
        for term in reversed(terms[1:-1]):
            following = term + 2 * laplacian(current)
            after, current = current, following if after is None else following - after
        result = terms[0] + laplacian(current)
        return result if after is None else result - after
