"""Adam for stacked models: one row of numbers for each member."""

from typing import NamedTuple

import torch
from torch import Tensor

FIRST, SECOND, EPS = 0.9, 0.999, 1e-8


class AdamState(NamedTuple):
    """Changed in place by `adam_step`."""

    weights: Tensor  # [members, numbers]
    mean: Tensor  # [members, numbers]
    square: Tensor  # [members, numbers]
    steps: Tensor  # [members] int64


@torch.no_grad()
def adam_step(
    state: AdamState, grad: Tensor, lr: Tensor, weight_decay: Tensor, active: Tensor
) -> None:
    """One step of ``torch.optim.Adam``, each member with its own settings and step count.

    Args:
        state: of all members
        grad: ``[members, numbers]``, overwritten
        lr: ``[members]`` float64 learning rates
        weight_decay: ``[members]`` float64 L2 penalties, added to the gradient
        active: ``[members]`` bool; the others stay as they are
    """
    state.steps.add_(active)
    count = state.steps.clamp(min=1).double()
    on = active.double()
    # An inactive member's averages move by nothing, and so does the member.
    to_mean = (on * (1 - FIRST)).to(grad.dtype)[:, None]
    to_square = (on * (1 - SECOND)).to(grad.dtype)[:, None]
    rate = (on * lr / (1 - FIRST**count)).to(grad.dtype)[:, None]
    root = (1 - SECOND**count).sqrt().to(grad.dtype)[:, None]

    grad.addcmul_(state.weights, weight_decay.to(grad.dtype)[:, None])
    state.mean.lerp_(grad, to_mean)
    state.square.lerp_(grad.square_(), to_square)
    denominator = torch.sqrt(state.square, out=grad).div_(root).add_(EPS)
    state.weights.sub_(torch.div(state.mean, denominator, out=grad).mul_(rate))
