"""Adam for stacked models: one row of numbers for each member."""

from typing import NamedTuple

import torch
from torch import Tensor

from sagpool.ops.device import kernels_for

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
    to_mean, to_square = on * (1 - FIRST), on * (1 - SECOND)
    rate = on * lr / (1 - FIRST**count)
    root = (1 - SECOND**count).sqrt()
    settings = torch.stack([weight_decay, to_mean, to_square, rate, root]).to(grad.dtype)
    if (kernels := kernels_for(grad)) is not None:
        kernels.adam_step(state.weights, state.mean, state.square, grad, settings, EPS)
        return

    decay, to_mean, to_square, rate, root = settings[..., None]
    grad.addcmul_(state.weights, decay)
    state.mean.lerp_(grad, to_mean)
    state.square.lerp_(grad.square_(), to_square)
    denominator = torch.sqrt(state.square, out=grad).div_(root).add_(EPS)
    state.weights.sub_(torch.div(state.mean, denominator, out=grad).mul_(rate))
