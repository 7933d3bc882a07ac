"""A control: nodes kept at random."""

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.graphs import Adjacency
from sagpool.nn.pooled import Pooled, keep_top
from sagpool.nn.select import Ratio, Selection
from sagpool.nn.streams import Streams


class RandomPool(nn.Module):
    """Keeps ⌈kN⌉ nodes of each graph at random, drawn anew at each call, and does not gate them.

    What a learned pooling gains over this is what its scores are worth.

    Args:
        ratio: share of each graph's nodes that is kept
        k: keep this many nodes of each graph instead
    """

    def __init__(self, ratio: Ratio = 0.5, *, k: int | np.ndarray | None = None) -> None:
        super().__init__()
        self.selection = Selection(ratio, k)

    def forward(self, x: Tensor, adjacency: Adjacency, streams: Streams | None = None) -> Pooled:
        if streams is None:
            streams = Streams.fresh(adjacency.members, x.device)
        # How many nodes lie before a part of a batch differs from member to member. So a part
        # draws from a stretch of its own, and other nodes are kept than in the whole batch: as
        # random, and whoever trains beside it.
        start = streams.first_graph << 32
        rank = streams.uniform(adjacency.rows, start).view(-1).to(torch.float32)
        return keep_top(x, adjacency, rank, None, self.selection)
