"""Validation metrics of all members at once, on the device, for early stopping."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from sagpool.graphs import Batch, Graphs

T = TypeVar("T", float, np.ndarray, Tensor)

# By name, as rules for stopping.
METRICS = ("accuracy", "balanced_accuracy", "roc_auc", "f1", "mcc")
REGRESSION_METRICS = ("rmse", "mae", "r2")
ERRORS = ("rmse", "mae")  # of all metrics, only these are better if lower
SPARE = 64  # a chunk of validation graphs may be padded, and has a filler


class SeenOutputs:
    """The outputs for all validation graphs of an epoch; no metric is a sum over batches.

    Args:
        graphs: the data set
        members: number of members
        dtype: precision of the outputs
    """

    def __init__(self, graphs: Graphs, members: int, dtype: torch.dtype) -> None:
        self.task, device = graphs.task, graphs.device
        # Large enough for any validation part; recordings rely on the fixed address.
        size, outputs = (members, len(graphs) + SPARE), graphs.num_outputs
        self.logits = torch.zeros(*size, outputs, dtype=dtype, device=device)
        self.real = torch.zeros(size, dtype=torch.bool, device=device)
        if self.task == "classification":
            self.truth = torch.zeros(size, dtype=torch.int64, device=device)
        else:
            self.truth = torch.zeros(*size, outputs, dtype=dtype, device=device)

    def reset(self) -> None:
        self.real.zero_()

    def add(self, first: int, logits: Tensor, batch: Batch) -> None:
        """Add the graphs from this position on; they overwrite the padding of earlier chunks."""
        part = slice(first, first + logits.shape[1])
        self.logits[:, part] = logits
        self.real[:, part] = batch.real
        truth = batch.y if self.task == "classification" else batch.targets
        assert truth is not None
        self.truth[:, part] = truth

    def value(self, metric: str) -> Tensor:
        """The metric of each member, ``[members]`` float64."""
        logits = self.logits.double()
        if self.task == "classification":
            return class_metric(metric, logits, self.truth, self.real)
        of_task = task_metric if self.task == "multitask" else regression_metric
        return of_task(metric, logits, self.truth.double(), self.real)


def as_loss(metric: str, value: T) -> T:
    """The metric as the loss that stopping lowers, and the inverse."""
    return value if metric in ERRORS else -value


def class_metric(metric: str, logits: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """A metric of classes; with two classes F1 and ROC-AUC refer to the second.

    With more, they are means over the classes, each against all others.

    Args:
        metric: one of `METRICS`
        logits: ``[members, graphs, classes]``
        y: ``[members, graphs]``
        real: ``[members, graphs]``, which graphs count

    Returns:
        ``[members]``
    """
    classes = logits.shape[2]
    if metric == "roc_auc":
        # Slices, because a recorded step cannot copy indices from the host.
        first = 1 if classes == 2 else 0
        positive = torch.stack([y == number for number in range(first, classes)], 2)
        probability = logits.softmax(2)[..., first:]
        return _mean_auc(probability, positive, real[..., None].expand_as(positive))
    truth = one_hot(y, classes).double() * real[..., None]
    guess = one_hot(logits.argmax(2), classes).double()
    return _confusion_metric(metric, truth.transpose(1, 2) @ guess)


def task_metric(metric: str, logits: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    """The mean of a metric over tasks with targets of 0 and 1, ``[members]``.

    Args:
        metric: one of `METRICS`
        logits: ``[members, graphs, tasks]``
        targets: the same, NaN where not measured
        real: ``[members, graphs]``, which of the graphs count
    """
    measured = ~targets.isnan() & real[..., None]
    positive = targets > 0.5
    if metric == "roc_auc":
        return _mean_auc(logits, positive, measured)
    truth = one_hot(positive.long(), 2).double() * measured[..., None]  # [m, graphs, tasks, 2]
    guess = one_hot((logits > 0).long(), 2).double()
    matrix = torch.einsum("mgta,mgtb->mtab", truth, guess)
    some = measured.any(1)  # [members, tasks]
    return _mean(_confusion_metric(metric, matrix), some, 0.0)


def regression_metric(metric: str, values: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    """The mean of a metric over tasks, in the units of the targets, ``[members]``.

    R² is not defined for a task whose targets are all equal; it is 0 if it is defined for none.

    Args:
        metric: one of `REGRESSION_METRICS`
        values: ``[members, graphs, tasks]``
        targets: the same, NaN where not measured
        real: ``[members, graphs]``, which of the graphs count
    """
    measured = ~targets.isnan() & real[..., None]
    count = measured.sum(1)  # [members, tasks]
    # What is not measured is masked before any arithmetic: 0 · NaN is NaN.
    error = torch.where(measured, values - targets, 0)
    if metric == "mae":
        return _mean(error.abs().sum(1) / count.clamp(min=1), count > 0, 0.0)
    squares = (error**2).sum(1)
    if metric == "rmse":
        return _mean((squares / count.clamp(min=1)).sqrt(), count > 0, 0.0)
    mean = torch.where(measured, targets, 0).sum(1) / count.clamp(min=1)
    spread = (torch.where(measured, targets - mean[:, None], 0) ** 2).sum(1)
    return _mean(1 - squares / torch.where(spread > 0, spread, 1), spread > 0, 0.0)


def _confusion_metric(metric: str, matrix: Tensor) -> Tensor:
    """A metric from ``[..., classes, classes]`` numbers of graphs, by class and prediction."""
    right, truth, guess = matrix.diagonal(dim1=-2, dim2=-1), matrix.sum(-1), matrix.sum(-2)
    total = truth.sum(-1)
    if metric == "accuracy":
        return right.sum(-1) / total.clamp(min=1)
    if metric == "balanced_accuracy":
        return _mean(right / truth.clamp(min=1), truth > 0, 0.0)
    if metric == "f1":
        each = 2 * right / (truth + guess).clamp(min=1)
        return each[..., 1] if matrix.shape[-1] == 2 else each.mean(-1)
    root = (total**2 - (guess**2).sum(-1)) * (total**2 - (truth**2).sum(-1))
    covariance = right.sum(-1) * total - (truth * guess).sum(-1)
    return torch.where(root > 0, covariance / root.clamp(min=1).sqrt(), 0)


def _mean_auc(score: Tensor, positive: Tensor, counts: Tensor) -> Tensor:
    """The mean over columns of the area under the ROC curve; 0.5 if it is defined for none.

    All arguments are ``[members, graphs, columns]``; entries that do not count are last in rank.
    """
    ranked = score.masked_fill(~counts, torch.inf).transpose(1, 2).contiguous()
    in_order = ranked.sort(dim=2).values
    # Equal scores have the mean of their ranks.
    low = torch.searchsorted(in_order, ranked)
    high = torch.searchsorted(in_order, ranked, right=True)
    rank = (low + high + 1).double() / 2
    hit = (positive & counts).transpose(1, 2)
    hits, all_of_them = hit.sum(2).double(), counts.sum(1).double()
    misses = all_of_them - hits
    above = (rank * hit).sum(2) - hits * (hits + 1) / 2
    return _mean(above / (hits * misses).clamp(min=1), (hits > 0) & (misses > 0), 0.5)


def _mean(values: Tensor, known: Tensor, otherwise: float) -> Tensor:
    """The mean over the known entries of the last dimension."""
    count = known.sum(-1)
    mean = torch.where(known, values, 0).sum(-1) / count.clamp(min=1)
    return torch.where(count > 0, mean, otherwise)
