"""The hierarchical pooling architecture."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from sagpool.graphs import Batch
from sagpool.models.output import Classifier, Output
from sagpool.nn import DiffPooled, GCNConv, Pooled, RandomPool, Streams, readout


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
        widths = [in_channels, *(hidden for _ in pools)]
        self.convs = nn.ModuleList(GCNConv(a, b, members=members) for a, b in pairwise(widths))
        self.pools = nn.ModuleList(pools)
        self.classifier = Classifier(2 * hidden, hidden, classes, dropout=dropout, members=members)

    def forward(self, batch: Batch, streams: Streams | None = None) -> Output:
        members, graphs = batch.real.shape
        if streams is None:
            streams = Streams.fresh(members, batch.real.device)
        x, adjacency = batch.x.to(self.classifier.last.weight.dtype), batch.adjacency
        summary = auxiliary = None
        levels = []
        for conv, pool in zip(self.convs, self.pools, strict=True):
            x = conv(x, adjacency).relu()
            draws = {"streams": streams} if isinstance(pool, RandomPool) else {}
            pooled = pool(x, adjacency, **draws)
            x, adjacency = pooled.x, pooled.adjacency
            summary = readout(x, adjacency) if summary is None else summary + readout(x, adjacency)
            if isinstance(pooled, Pooled):
                levels.append(pooled)
            if isinstance(pooled, DiffPooled):
                added = pooled.auxiliary.view(members, graphs)
                auxiliary = added if auxiliary is None else auxiliary + added
        logits = self.classifier(summary, streams).view(members, graphs, -1)
        return Output(logits, auxiliary, tuple(levels))
