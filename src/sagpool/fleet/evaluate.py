"""Losses and predictions of each member."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.fleet.training import Score
from sagpool.graphs import Batch, Graphs, pack
from sagpool.graphs.graphs import Task
from sagpool.nn import Streams
from sagpool.nn.from_graphs import mean_and_scale
from sagpool.ops.device import kernels_for, to_host


class Losses(NamedTuple):
    """Sums over the graphs of each member, changed in place."""

    loss: Tensor  # [members]
    hits: Tensor  # [members] int64
    graphs: Tensor  # [members] int64
    asked: Tensor  # [members] int64, graphs or measured targets, the denominator of the accuracy

    @staticmethod
    def zeros(keys: Tensor, dtype: torch.dtype) -> Losses:
        """Zeros, with one member for each key."""
        zeros = (torch.zeros_like(keys) for _ in range(3))
        return Losses(torch.zeros_like(keys, dtype=dtype), *zeros)

    def reset(self) -> None:
        for tensor in self:
            tensor.zero_()

    def means(self) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy of each member; the accuracy is NaN if undefined."""
        return self.loss / self.graphs.clamp(min=1), self.hits.double() / self.asked


@torch.no_grad()
def validate(
    model: nn.Module,
    batch: Batch,
    streams: Streams,
    losses: Losses,
    class_weight: Tensor | None = None,
) -> Tensor:
    """Add the losses and hits on a batch of validation graphs; returns the logits."""
    output = model(batch, streams)
    logits: Tensor = output.logits
    kernels = kernels_for(logits)
    if kernels is not None and batch.targets is None and class_weight is None:
        kernels.add_validation(*losses, logits, batch.y, batch.real)
        return logits
    # Auxiliary losses are for training; models are compared by their classification.
    losses.loss.add_(output._replace(auxiliary=None).loss_sums(batch, class_weight))
    count = batch.real.sum(1)
    losses.graphs.add_(count)
    if batch.targets is None:
        losses.hits.add_(((output.logits.argmax(2) == batch.y) & batch.real).sum(1))
        losses.asked.add_(count)
    elif batch.task == "multitask":
        measured = ~batch.targets.isnan()
        losses.hits.add_((((output.logits > 0) == (batch.targets > 0.5)) & measured).sum((1, 2)))
        losses.asked.add_(measured.sum((1, 2)))
    return logits


@torch.no_grad()
def predict(
    model: nn.Module,
    graphs: Graphs,
    members: int,
    keys: Tensor,
    chunk: int,
    task: Task = "classification",
) -> np.ndarray:
    """The outputs of every member for every graph, ``[members, graphs, outputs]``.

    Log-probabilities of classes; the logit of each of several tasks; values of a regression.
    """
    chunks = []
    for start in range(0, len(graphs), chunk):
        ids = np.arange(start, min(start + chunk, len(graphs)))
        batch = pack(graphs, np.broadcast_to(ids, (members, len(ids))))
        logits = model(batch, Streams(keys, start)).logits[:, : len(ids)]
        chunks.append(logits.log_softmax(2) if task == "classification" else logits)
    return to_host(torch.cat(chunks, 1).double()).numpy()


class Truth(NamedTuple):
    """The targets of all graphs."""

    task: Task
    known: np.ndarray  # [graphs] classes, or [graphs, tasks] targets

    @staticmethod
    def of(graphs: Graphs) -> Truth:
        known = graphs.y if graphs.task == "classification" else graphs.targets
        assert known is not None
        return Truth(graphs.task, to_host(known).numpy())

    def score(self, outputs: np.ndarray, ids: np.ndarray, unit: np.ndarray) -> Score:
        """Loss and accuracy of one member on some graphs.

        Args:
            outputs: ``[graphs, outputs]`` as `predict` gives them
            ids: numbers of the graphs to look at
            unit: ``[outputs]``, the weight of each class, or the unit of the errors of each task
        """
        if not len(ids):
            return Score(float("nan"), float("nan"))
        known, found = self.known[ids], outputs[ids]
        if self.task == "classification":
            loss = -(unit[known] * found[np.arange(len(ids)), known]).mean()
            return Score(float(loss), float((found.argmax(1) == known).mean()))
        measured = ~np.isnan(known)
        known = np.where(measured, known, 0)
        if self.task == "multitask":
            losses = np.logaddexp(0, found) - known * found
            right = ((found > 0) == (known > 0.5))[measured]
            accuracy = float(right.mean()) if len(right) else float("nan")
        else:
            losses, accuracy = ((found - known) / unit) ** 2, float("nan")
        each = np.where(measured, losses, 0).sum(1) / measured.sum(1).clip(1)
        return Score(float(each.mean()), accuracy)

    def unit(self, train: np.ndarray, outputs: int, class_weight: str = "none") -> np.ndarray:
        """``[outputs]`` for `score`, from the graphs that a member trains on."""
        if self.task == "classification" and class_weight == "balanced":
            return balanced_weights(self.known[train], outputs)
        if self.task == "regression":
            return 1 / mean_and_scale(torch.from_numpy(self.known[train]))[1].numpy()
        return np.ones(outputs)

    def confusion(self, outputs: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """``[classes, classes]`` graphs by class and prediction; empty without classes."""
        classes = outputs.shape[1] if self.task == "classification" else 0
        counts = np.zeros((classes, classes), np.int64)
        if classes:
            np.add.at(counts, (self.known[ids], outputs[ids].argmax(1)), 1)
        return counts


def balanced_weights(y: np.ndarray, classes: int) -> np.ndarray:
    """``[classes]`` n / (classes · n_c), on average 1 over these graphs; 0 for an empty class."""
    counts = np.bincount(y, minlength=classes)
    return np.where(counts > 0, len(y) / (classes * np.maximum(counts, 1)), 0.0)
