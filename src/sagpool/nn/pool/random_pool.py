"""A control: nodes kept at random."""

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.graphs import Adjacency
from sagpool.nn.pool.keep import Pooled, keep_top
from sagpool.nn.pool.selection import Ratio, Selection
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
        # By graph and node: so a batch that is done in parts draws the same numbers.
        graph = adjacency.graph % adjacency.graphs + streams.first_graph
        row = torch.arange(len(adjacency.graph), device=x.device)
        node = row - adjacency.node_ptr[adjacency.graph]
        position = (graph << 32) + node
        rank = streams.uniform_at(position.view(adjacency.members, -1)).view(-1)
        return keep_top(x, adjacency, rank, None, self.selection)
