"""The hierarchical pooling architecture."""

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from torch import Tensor, nn

from sagpool.graphs import Adjacency, Batch
from sagpool.models.output import Classifier, Output
from sagpool.nn import (
    DiffPool,
    DiffPooled,
    GCNConv,
    Pooled,
    PooledAdjacency,
    RandomPool,
    ScorePool,
    Streams,
    readout,
)


class HierarchicalPooling(nn.Module):
    """Three blocks of GCN → ReLU → pool → readout; the readouts' sum; an MLP (Figure 2, right).

    Args:
        in_channels: node features
        hidden: size of the node representations
        classes: number of classes
        pools: one pooling layer for each block, for rows of size ``hidden``
        dropout: rate in the MLP
        members: how many models train side by side
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        classes: int,
        pools: Sequence[nn.Module],
        *,
        dropout: float = 0.5,
        members: int = 1,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        widths = [in_channels, *(hidden for _ in pools)]
        self.convs = nn.ModuleList(GCNConv(a, b, members=members) for a, b in pairwise(widths))
        self.pools = nn.ModuleList(pools)
        self.classifier = Classifier(2 * hidden, hidden, classes, dropout=dropout, members=members)

    def forward(self, batch: Batch, streams: Streams | None = None) -> Output:
        members, graphs = batch.real.shape
        if streams is None:
            streams = Streams.fresh(members, batch.real.device)
        propagated = batch.propagated(self.classifier.last.weight.dtype)
        summary = auxiliary = None
        levels: list[Pooled] = []
        pooled: Pooled | DiffPooled | None = None
        convs = cast(list[GCNConv], list(self.convs))
        following = [*(conv.linear.weight for conv in convs[1:]), None]
        for conv, pool, next_weight in zip(convs, self.pools, following, strict=True):
            weight = pool.score_weight() if isinstance(pool, ScorePool) else None
            if isinstance(pooled, DiffPooled) and pooled.readout is not None:
                x, projected = conv.activated_after(pooled.x, pooled.adjacency), None
            else:
                if pooled is not None:
                    propagated = pooled.adjacency.gcn(pooled.x)
                x, projected = conv.activated(propagated, weight)
            before = batch.adjacency if pooled is None else pooled.adjacency
            pooled = self._pool(pool, x, before, projected, streams, next_weight)
            if isinstance(pooled, DiffPooled):
                read = pooled.readout
                if read is None:
                    read = readout(pooled.x, pooled.adjacency)
                added = pooled.auxiliary.view(members, graphs)
                auxiliary = added if auxiliary is None else auxiliary + added
            else:
                read = pooled.readout
                levels.append(pooled)
            summary = read if summary is None else summary + read
        logits = self.classifier(summary, streams).view(members, graphs, -1)
        return Output(logits, auxiliary, tuple(levels))

    def _pool(
        self,
        pool: nn.Module,
        x: Tensor,
        adjacency: Adjacency | PooledAdjacency,
        projected: Tensor | None,
        streams: Streams,
        next_weight: Tensor | None,
    ) -> Pooled | DiffPooled:
        """Some layers want more than rows: the product with a weight, or random numbers."""
        if projected is not None:
            return pool(x, adjacency, projected=projected)
        if isinstance(pool, RandomPool):
            return pool(x, adjacency, streams)
        if isinstance(pool, DiffPool):
            return pool(x, adjacency, next_weight)
        return pool(x, adjacency)
