"""`Scores`: the numbers that rank nodes and those that multiply them."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from sagpool.errors import SagpoolError

Activation = Callable[[Tensor], Tensor]


class Scores(NamedTuple):
    """Each node is ranked by one number and multiplied by another.

    tanh saturates: two nodes with equal tanh can still be ranked by the value before it.
    """

    rank: Tensor  # [rows], or [rows, masks]
    gate: Tensor  # [rows], or [rows, masks]

    def of_masks(self) -> "list[Scores]":
        """The scores of each mask, ``[rows]`` each."""
        pairs = zip(self.rank.unbind(1), self.gate.unbind(1), strict=True)
        return [Scores(rank, gate) for rank, gate in pairs]


def gated(raw: Tensor, nonlinearity: Activation, min_score: float | None) -> Scores:
    """Scores ``[rows]`` with their gates; nodes are ranked by the gates, unless these are a tanh.

    A function that is not monotonic, like an absolute value, is meant to change the ranks. With a
    min_score the gates are a softmax of the ranks, which is computed later.
    """
    if min_score is not None:
        return Scores(rank=raw, gate=raw)
    gate = nonlinearity(raw)
    return Scores(rank=raw if is_tanh(nonlinearity) else gate, gate=gate)


def is_tanh(nonlinearity: Activation) -> bool:
    return nonlinearity in (torch.tanh, functional.tanh) or isinstance(nonlinearity, nn.Tanh)


def find_activation(nonlinearity: str | Activation) -> Activation:
    """The function of this name in PyG, or the function itself; ``torch.tanh`` for any tanh."""
    if nonlinearity == "tanh":
        return torch.tanh
    if isinstance(nonlinearity, str):
        from torch_geometric.nn.resolver import activation_resolver

        try:
            nonlinearity = activation_resolver(nonlinearity)
        except ValueError:
            raise SagpoolError(f"PyG knows no nonlinearity '{nonlinearity}'.") from None
    if not callable(nonlinearity):
        raise SagpoolError(f"nonlinearity must be a name or a function, not {nonlinearity!r}.")
    return torch.tanh if is_tanh(nonlinearity) else nonlinearity
