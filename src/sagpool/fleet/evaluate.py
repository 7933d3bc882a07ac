"""Losses and predictions of each member."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.fleet.training import Score
from sagpool.graphs import Batch, Graphs, pack
from sagpool.nn import Streams


class Losses(NamedTuple):
    loss: Tensor  # [members] mean over the member's graphs
    accuracy: Tensor  # [members]


@torch.no_grad()
def validate(model: nn.Module, chunks: Sequence[Batch], keys: Tensor) -> Losses:
    """Loss and accuracy of each member on its validation graphs, which come in several batches."""
    loss = torch.zeros_like(keys, dtype=next(model.parameters()).dtype)
    hits, count = torch.zeros_like(keys), torch.zeros_like(keys)
    first = 0
    for batch in chunks:
        assert batch.y is not None
        output = model(batch, Streams(keys, first))
        # Auxiliary losses are for training; models are compared by their classification.
        loss += output._replace(auxiliary=None).loss_sums(batch)
        hits += ((output.logits.argmax(2) == batch.y) & batch.real).sum(1)
        count += batch.real.sum(1)
        first += batch.real.shape[1] - 1  # all but the filler graph
    count = count.clamp(min=1)
    return Losses(loss / count, hits.double() / count)


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
