"""Losses of targets, of which some are not measured."""

import torch
from torch import Tensor


def measured_mean(losses: Tensor, measured: Tensor) -> Tensor:
    """``[members, graphs]``, the mean over the measured tasks of each graph; 0 if it has none.

    Args:
        losses: ``[members, graphs, tasks]``, anything where not measured
        measured: ``[members, graphs, tasks]`` bool
    """
    return torch.where(measured, losses, 0).sum(2) / measured.sum(2).clamp(min=1)


def binary_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """``[members, graphs]`` mean binary cross-entropy of each graph's measured tasks.

    Args:
        logits: ``[members, graphs, tasks]``
        targets: ``[members, graphs, tasks]`` of 0 and 1, NaN where not measured
    """
    measured = ~targets.isnan()
    known = torch.where(measured, targets, 0).to(logits.dtype)
    softplus = torch.nn.functional.softplus(logits)  # -log(1 - p), and -log p = this - logit
    return measured_mean(softplus - known * logits, measured)


def squared_losses(values: Tensor, targets: Tensor, spread: Tensor | float = 1.0) -> Tensor:
    """``[members, graphs]`` mean squared error of each graph's measured tasks.

    Args:
        values: ``[members, graphs, tasks]``
        targets: ``[members, graphs, tasks]``, NaN where not measured
        spread: ``[members, 1, tasks]``, the unit in which errors are counted
    """
    measured = ~targets.isnan()
    known = torch.where(measured, targets, 0).to(values.dtype)
    return measured_mean(((values - known) / spread).square(), measured)
