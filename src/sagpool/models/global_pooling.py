"""The global pooling architecture."""

import torch
from torch import Tensor, nn

from sagpool.graphs import Adjacency, Batch
from sagpool.models.output import Classifier, Output
from sagpool.nn import GCNConv, Pooled, RandomPool, SortConv, SortPool, Streams, readout

LAYERS = 3


class GlobalPooling(nn.Module):
    """Three GCN + ReLU, their outputs side by side, one pooling, readout, MLP (Figure 2, left).

    Args:
        in_channels: node features
        hidden: size of the node representations of each layer
        classes: number of classes
        pool: a layer that keeps nodes and leaves them to the readout; one that gives each graph a
            row by itself (Set2Set, SortConv); or None to read out all nodes
        pooled_channels: size of a graph's row, if ``pool`` gives it
        dropout: rate in the MLP
        members: how many models train side by side
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        classes: int,
        pool: nn.Module | None,
        *,
        pooled_channels: int | None = None,
        dropout: float = 0.5,
        members: int = 1,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.convs = nn.ModuleList(
            GCNConv(hidden if layer else in_channels, hidden, members=members)
            for layer in range(LAYERS)
        )
        self.pool = pool
        width = 2 * LAYERS * hidden if pooled_channels is None else pooled_channels
        self.classifier = Classifier(width, hidden, classes, dropout=dropout, members=members)

    def forward(self, batch: Batch, streams: Streams | None = None) -> Output:
        members, graphs = batch.real.shape
        if streams is None:
            streams = Streams.fresh(members, batch.real.device)
        adjacency = batch.adjacency
        first, *others = self.convs
        looked_up = batch.propagated(self.classifier.last.weight.dtype)
        layers: list[Tensor] = [first.activated(looked_up)[0]]  # type: ignore[operator]
        for conv in others:
            propagated = adjacency.gcn(layers[-1])
            layers.append(conv.activated(propagated)[0])  # type: ignore[operator]
        pooled = self._pool(torch.cat(layers, dim=1), adjacency, propagated, streams)
        levels: tuple[Pooled, ...] = ()
        if isinstance(pooled, Pooled):
            levels = (pooled,)
            pooled = pooled.readout
        logits = self.classifier(pooled, streams).view(members, graphs, -1)
        return Output(logits, None, levels)

    def _pool(
        self, x: Tensor, adjacency: Adjacency, propagated: Tensor, streams: Streams
    ) -> Pooled | Tensor:
        """Some layers want more than rows: SortPool the last channel as it was before ReLU."""
        if self.pool is None:
            return readout(x, adjacency)
        if isinstance(self.pool, (SortPool, SortConv)):
            with torch.no_grad():  # it ranks, and passes no gradient on
                rank = self.convs[-1].linear.channel(propagated, -1)  # type: ignore
            return self.pool(x, adjacency, rank)
        if isinstance(self.pool, RandomPool):
            return self.pool(x, adjacency, streams)
        return self.pool(x, adjacency)
