"""SortPool, with a readout or with DGCNN's 1-D convolutions."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.linear import Linear
from sagpool.nn.pool.pool import Context, Pool, Pooled
from sagpool.nn.pool.selection import SelectingPool, Selection, keep_top


class SortPool(SelectingPool):
    """Keeps the K nodes of each graph with the highest last channel (Zhang et al., 2018).

    Graphs with fewer nodes keep all. Nodes stay in their order, which does not matter for a
    readout; `SortConv` is for layers for which it does.

    Args:
        k: nodes to keep; a number, or an array that fits ``[members, graphs]``
        sort_channels: sort the channels of each node first, in ascending order, as PyG did before
            version 1.5; the last channel is then the largest

    Shapes:
        x: ``[rows, channels]``. Sorted by `Context.rank`, the last channel before ReLU, if given:
            ReLU makes all negative values equal
    """

    def __init__(self, k: int | np.ndarray, *, sort_channels: bool = False) -> None:
        super().__init__(Selection(k=k))
        self.sort_channels = sort_channels

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        if not self.sort_channels:
            return keep_top(x, structure, last_channel(x, context), self.selection)
        # The same as sorting all rows before the selection, with fewer rows to sort.
        pooled = keep_top(x, structure, x.detach().amax(1), self.selection)
        return replace(pooled, x=pooled.x.sort(1).values)

    def can_record(self, dtype: torch.dtype) -> bool:
        return True


def last_channel(x: Tensor, context: Context) -> Tensor:
    """``[rows]``, before ReLU if known; it only ranks nodes, so it has no gradient."""
    with torch.no_grad():
        return x[:, -1] if context.rank is None else context.rank()


class SortConv(Pool):
    """SortPool with the ending of DGCNN: 1-D convolutions along the sorted nodes.

    The K top nodes in descending order, zeros if there are fewer; a convolution over one node at a
    time to 16 channels, max-pooling of pairs, a convolution over five positions to 32 channels, all
    with ReLU (Zhang et al., 2018).

    Args:
        in_channels: size of each input row
        k: nodes to keep, at least 10, the same for all members
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[members * graphs, graph_channels()]``
    """

    leaves = "graphs"
    WIDTH = 5

    def __init__(self, in_channels: int, k: int, *, members: int = 1) -> None:
        super().__init__()
        if k < 2 * self.WIDTH:
            raise SagpoolError(f"DGCNN's convolutions need k of at least 10, not {k}.")
        self.k = k
        self.selection = Selection(k=k)
        self.first = Linear(in_channels, 16, members=members)
        self.second = Linear(16 * self.WIDTH, 32, members=members)

    def reset_parameters(self) -> None:
        self.first.reset_parameters()
        self.second.reset_parameters()

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        nodes = self._sorted(x, structure, last_channel(x, context))  # [graphs of all, k, in]
        h = self.first(nodes.flatten(0, 1)).relu().view(len(nodes), self.k, 16)
        pairs = h[:, : self.k // 2 * 2].unflatten(1, (-1, 2)).amax(2)  # [graphs, k // 2, 16]
        windows = pairs.unfold(1, self.WIDTH, 1)  # [graphs, positions, 16, width]
        out = self.second(windows.flatten(2).flatten(0, 1)).relu().view(len(nodes), -1)
        return Pooled(out, structure)

    def _sorted(self, x: Tensor, structure: Structure, rank: Tensor) -> Tensor:
        pooled = keep_top(x, structure, rank, self.selection)
        smaller = pooled.structure.layout
        by_rank = torch.sort(rank[pooled.perm], descending=True, stable=True).indices
        by_graph = torch.sort(smaller.graph[by_rank], stable=True).indices
        order = by_rank[by_graph]
        column = torch.arange(len(order), device=x.device) - smaller.node_ptr[smaller.graph]
        # A filler may have more than k rows by now; its values do not matter.
        place = (smaller.graph, column.clamp_(max=self.k - 1))
        dense = x.new_zeros(smaller.members * smaller.graphs, self.k, x.shape[1])
        return dense.index_put(place, pooled.x[order])

    def refresh(self, device: torch.device, members: int) -> None:
        self.selection.refresh(device, members)

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return np.ones_like(sizes)

    def can_record(self, dtype: torch.dtype) -> bool:
        return True

    def graph_channels(self) -> int:
        return 32 * (self.k // 2 - self.WIDTH + 1)
