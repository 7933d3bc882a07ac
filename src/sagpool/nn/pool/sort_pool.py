"""SortPool, and the two ways in which a network can go on from it."""

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn.linear import Linear
from sagpool.nn.pool.keep import Pooled, keep_top
from sagpool.nn.pool.selection import Selection


class SortPool(nn.Module):
    """Keeps the K nodes of each graph that are highest in their last channel (Zhang et al., 2018).

    Graphs with fewer keep all. Nodes stay in their order, which a readout does not see; `SortConv`
    is for what does.

    Args:
        k: nodes to keep; a number, or an array that fits ``[members, graphs]``

    Shapes:
        x: ``[rows, channels]``
        rank: ``[rows]``, by which to sort in place of the last channel. A network that ends in
            ReLU should pass that channel as it was before: the many zeros are then no ties.
    """

    def __init__(self, k: int | np.ndarray) -> None:
        super().__init__()
        self.selection = Selection(k=k)

    def forward(self, x: Tensor, adjacency: Adjacency, rank: Tensor | None = None) -> Pooled:
        return keep_top(x, adjacency, x[:, -1] if rank is None else rank, None, self.selection)


class SortConv(nn.Module):
    """SortPool as DGCNN goes on from it: 1-D convolutions along the sorted nodes.

    The K top nodes in falling order, zeros where there are fewer; a convolution over one node at
    a time to 16 channels, max-pooling of pairs, a convolution over five to 32 channels, all with
    ReLU (Zhang et al., 2018).

    Args:
        in_channels: size of each input row
        k: nodes to keep, at least 10, the same for all members
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, rank: ``[rows]``
        result: ``[members * graphs, out_channels]``
    """

    WIDTH = 5

    def __init__(self, in_channels: int, k: int, *, members: int = 1) -> None:
        super().__init__()
        if k < 2 * self.WIDTH:
            raise SagpoolError(f"DGCNN's convolutions need k of at least 10, not {k}.")
        self.k = k
        self.pool = SortPool(k)
        self.first = Linear(in_channels, 16, members=members)
        self.second = Linear(16 * self.WIDTH, 32, members=members)
        self.out_channels = 32 * (k // 2 - self.WIDTH + 1)

    def reset_parameters(self) -> None:
        self.first.reset_parameters()
        self.second.reset_parameters()

    def forward(self, x: Tensor, adjacency: Adjacency, rank: Tensor | None = None) -> Tensor:
        rank = x[:, -1] if rank is None else rank
        nodes = self._sorted(x, adjacency, rank)  # [graphs of all, k, in]
        h = self.first(nodes.flatten(0, 1)).relu().view(len(nodes), self.k, 16)
        pairs = h[:, : self.k // 2 * 2].unflatten(1, (-1, 2)).amax(2)  # [graphs, k // 2, 16]
        windows = pairs.unfold(1, self.WIDTH, 1)  # [graphs, places, 16, width]
        return self.second(windows.flatten(2).flatten(0, 1)).relu().view(len(nodes), -1)

    def _sorted(self, x: Tensor, adjacency: Adjacency, rank: Tensor) -> Tensor:
        pooled = self.pool(x, adjacency, rank)
        smaller = pooled.adjacency
        by_rank = torch.sort(rank[pooled.perm], descending=True, stable=True).indices
        by_graph = torch.sort(smaller.graph[by_rank], stable=True).indices
        order = by_rank[by_graph]
        column = torch.arange(len(order), device=x.device) - smaller.node_ptr[smaller.graph]
        # A filler may have more than k rows by now; what it holds does not matter.
        place = (smaller.graph, column.clamp_(max=self.k - 1))
        dense = x.new_zeros(smaller.members * smaller.graphs, self.k, x.shape[1])
        return dense.index_put(place, pooled.x[order])
