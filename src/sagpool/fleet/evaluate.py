"""Losses and predictions, member by member."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.fleet.training import Score
from sagpool.graphs import Batch, Graphs, pack
from sagpool.models import Output
from sagpool.nn import Streams


class Losses(NamedTuple):
    loss: Tensor  # [members] mean over the member's graphs
    correct: Tensor  # [members] share of them


def member_losses(output: Output, batch: Batch) -> Tensor:
    """``[members]`` cross-entropy, the mean over each member's graphs; 0 for one that has none."""
    assert batch.y is not None
    log_share = output.logits.log_softmax(2)  # [members, graphs, classes]
    loss = -log_share.gather(2, batch.y[..., None]).squeeze(2)
    if output.auxiliary is not None:
        loss = loss + output.auxiliary
    # Not a product: what a filler holds may be anything.
    return torch.where(batch.real, loss, 0).sum(1) / batch.real.sum(1).clamp(min=1)


@torch.no_grad()
def validate(model: nn.Module, batch: Batch, streams: Streams) -> Losses:
    """Loss and accuracy of each member on its own graphs."""
    assert batch.y is not None
    output = model(batch, streams)
    hits = (output.logits.argmax(2) == batch.y) & batch.real
    # The auxiliary losses help to train; what is compared is the classification.
    plain = member_losses(output._replace(auxiliary=None), batch)
    return Losses(plain, hits.sum(1).double() / batch.real.sum(1).clamp(min=1))


@torch.no_grad()
def predict(model: nn.Module, graphs: Graphs, members: int, keys: Tensor, chunk: int) -> np.ndarray:
    """Log-probabilities of every graph by every member, ``[members, graphs, classes]``."""
    parts = []
    for start in range(0, len(graphs), chunk):
        ids = np.arange(start, min(start + chunk, len(graphs)))
        batch = pack(graphs, np.broadcast_to(ids, (members, len(ids))))
        logits = model(batch, Streams(keys)).logits[:, : len(ids)]
        parts.append(logits.log_softmax(2))
    return torch.cat(parts, 1).double().cpu().numpy()


def score(log_share: np.ndarray, y: np.ndarray, part: np.ndarray) -> Score:
    """How one member does on the chosen graphs.

    Args:
        log_share: ``[graphs, classes]``
        y: ``[graphs]``
        part: graph numbers
    """
    loss = -log_share[part, y[part]].mean()
    return Score(float(loss), float((log_share[part].argmax(1) == y[part]).mean()))
