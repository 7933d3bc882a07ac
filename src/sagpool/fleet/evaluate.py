"""Losses and predictions, member by member."""

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
    correct: Tensor  # [members] share of them


@torch.no_grad()
def validate(model: nn.Module, chunks: Sequence[Batch], keys: Tensor) -> Losses:
    """Loss and accuracy of each member on its own graphs, of which each chunk holds some."""
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
        first += batch.real.shape[1] - 1  # all but the filler
    count = count.clamp(min=1)
    return Losses(loss / count, hits.double() / count)


@torch.no_grad()
def predict(model: nn.Module, graphs: Graphs, members: int, keys: Tensor, chunk: int) -> np.ndarray:
    """Log-probabilities of every graph by every member, ``[members, graphs, classes]``."""
    parts = []
    for start in range(0, len(graphs), chunk):
        ids = np.arange(start, min(start + chunk, len(graphs)))
        batch = pack(graphs, np.broadcast_to(ids, (members, len(ids))))
        logits = model(batch, Streams(keys, start)).logits[:, : len(ids)]
        parts.append(logits.log_softmax(2))
    return torch.cat(parts, 1).double().cpu().numpy()


def score(log_share: np.ndarray, y: np.ndarray, part: np.ndarray) -> Score:
    """How one member does on the chosen graphs.

    Args:
        log_share: ``[graphs, classes]``
        y: ``[graphs]``
        part: graph numbers
    """
    if not len(part):
        return Score(float("nan"), float("nan"))
    loss = -log_share[part, y[part]].mean()
    return Score(float(loss), float((log_share[part].argmax(1) == y[part]).mean()))
