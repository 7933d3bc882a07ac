"""Losses and predictions of each member."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.fleet.training import Score
from sagpool.graphs import Batch, Graphs, pack
from sagpool.nn import Streams


class Losses(NamedTuple):
    """Sums over the graphs of each member, changed in place."""

    loss: Tensor  # [members]
    hits: Tensor  # [members] int64
    graphs: Tensor  # [members] int64

    @staticmethod
    def zeros(keys: Tensor, dtype: torch.dtype) -> "Losses":
        """For as many members as there are keys."""
        return Losses(
            torch.zeros_like(keys, dtype=dtype), torch.zeros_like(keys), torch.zeros_like(keys)
        )

    def reset(self) -> None:
        for tensor in self:
            tensor.zero_()

    def means(self) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy of each member."""
        count = self.graphs.clamp(min=1)
        return self.loss / count, self.hits.double() / count


@torch.no_grad()
def validate(model: nn.Module, batch: Batch, streams: Streams, losses: Losses) -> None:
    """Add the losses and hits on a batch of validation graphs."""
    assert batch.y is not None
    output = model(batch, streams)
    # Auxiliary losses are for training; models are compared by their classification.
    losses.loss.add_(output._replace(auxiliary=None).loss_sums(batch))
    losses.hits.add_(((output.logits.argmax(2) == batch.y) & batch.real).sum(1))
    losses.graphs.add_(batch.real.sum(1))


@torch.no_grad()
def predict(model: nn.Module, graphs: Graphs, members: int, keys: Tensor, chunk: int) -> np.ndarray:
    """Log-probabilities of every graph by every member, ``[members, graphs, classes]``."""
    chunks = []
    for start in range(0, len(graphs), chunk):
        ids = np.arange(start, min(start + chunk, len(graphs)))
        batch = pack(graphs, np.broadcast_to(ids, (members, len(ids))))
        logits = model(batch, Streams(keys, start)).logits[:, : len(ids)]
        chunks.append(logits.log_softmax(2))
    return torch.cat(chunks, 1).double().cpu().numpy()


def score(log_probability: np.ndarray, y: np.ndarray, ids: np.ndarray) -> Score:
    """Loss and accuracy of one member on some graphs.

    Args:
        log_probability: ``[graphs, classes]``
        y: ``[graphs]``
        ids: numbers of the graphs to look at
    """
    if not len(ids):
        return Score(float("nan"), float("nan"))
    loss = -log_probability[ids, y[ids]].mean()
    return Score(float(loss), float((log_probability[ids].argmax(1) == y[ids]).mean()))
