"""The paper's two architectures: a convolution × pooling layers × a readout."""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Batch
from sagpool.nn import Dropout, Linear, Streams
from sagpool.nn.conv import Conv, HiddenLevel, InputLevel, Level, find_conv
from sagpool.nn.pool import Context, Pool, Pooled, readout_width
from sagpool.nn.pool.masks import side_by_side
from sagpool.nn.pool.pool import check_pooled
from sagpool.ops import binary_losses, cross_entropy_sums, squared_losses

LAYERS = 3  # convolutions of the global architecture


class Output(NamedTuple):
    logits: Tensor  # [members, graphs, classes or tasks]; undefined for fillers
    auxiliary: Tensor | None  # [members, graphs], losses of pooling layers
    levels: tuple[Pooled, ...]  # levels of the pooling layers that selected nodes
    spread: Tensor | None = None  # [members, 1, tasks] for a regression: the unit of its errors

    def loss_sums(self, batch: Batch, class_weight: Tensor | None = None) -> Tensor:
        """``[members]`` task and auxiliary losses, summed over each member's graphs.

        The loss of classes is cross-entropy; of several tasks with targets of 0 and 1, the mean
        over the measured ones; of a regression, the mean squared error in units of `spread`.

        Args:
            batch: a batch with classes or targets
            class_weight: ``[members, classes]``, the weight of a graph of each class
        """
        if batch.targets is None:
            assert batch.y is not None
            return cross_entropy_sums(
                self.logits, batch.y, batch.real, self.auxiliary, class_weight
            )
        if batch.task == "multitask":
            losses = binary_losses(self.logits, batch.targets)
        else:
            unit = 1.0 if self.spread is None else self.spread
            losses = squared_losses(self.logits, batch.targets, unit)
        if self.auxiliary is not None:
            losses = losses + self.auxiliary
        return torch.where(batch.real, losses, 0).sum(1)


class HierarchicalPooling(nn.Module):
    """Three blocks of conv → ReLU → pool → readout; the readouts' sum; an MLP (Figure 2, right).

    Args:
        in_channels: node features
        hidden: size of the node representations
        classes: number of classes
        pools: one pooling layer for each block, for rows of size ``hidden``
        conv: a key of `CONVS`
        readout: a key of `READOUTS`
        dropout: rate in the MLP
        members: how many models train side by side
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        classes: int,
        pools: Sequence[Pool],
        *,
        conv: str = "gcn",
        readout: str = "mean-max",
        dropout: float = 0.5,
        members: int = 1,
    ) -> None:
        super().__init__()
        for pool in pools:
            if pool.leaves == "graphs":
                raise SagpoolError(
                    f"{type(pool).__name__} leaves one row per graph, so no block can follow it; "
                    "use it in the global architecture."
                )
        self.in_channels, self.hidden = in_channels, hidden
        widths = [in_channels, *(hidden for _ in pools)]
        self.convs = nn.ModuleList(
            find_conv(conv)(a, b, members=members) for a, b in pairwise(widths)
        )
        self.pools = nn.ModuleList(pools)
        self.readout = readout
        self.masks = max(pool.masks for pool in pools)
        if any(pool.masks != self.masks for pool in pools):
            raise SagpoolError("All pooling layers of a network need the same number of masks.")
        width = self.masks * readout_width(readout) * hidden
        self.classifier = Classifier(width, hidden, classes, dropout=dropout, members=members)

    def forward(self, batch: Batch, streams: Streams | None = None) -> Output:
        streams = streams or Streams.fresh(len(batch.real), batch.real.device)
        convs, pools = cast(list[Conv], [*self.convs]), cast(list[Pool], [*self.pools])
        level: Level = InputLevel(batch, self.classifier.dtype)
        read, results = [], list[Pooled]()
        for conv, pool, following in zip(convs, pools, [*convs[1:], None], strict=True):
            x, projected = conv.activate(level, self._score_weight(pool))
            factor = level.presence if isinstance(level, Pooled) else None
            if factor is not None and not pool.takes_factor:
                x, projected, factor = x * factor[:, None], None, None
            context = Context(streams, projected, x, self._next_weight(following), factor)
            level = pooled = pool(x, level.structure, context)
            check_pooled(pool, pooled, batch.real.numel(), x.shape[1])
            read.append(pooled.readout(self.readout))
            results.append(pooled)
        total = sum(read[1:], read[0])
        if self.masks > 1:
            total = side_by_side(total, len(batch.real), self.masks)
        logits = self.classifier(total, streams)
        return _output(logits, pools, results, batch)

    def _score_weight(self, pool: Pool) -> Tensor | None:
        """The weight to multiply at once, unless the pooling adds channels to its rows."""
        weight = pool.score_weight()
        return weight if weight is not None and weight.shape[1] == self.hidden else None

    def _next_weight(self, conv: Conv | None) -> Tensor | None:
        """The next weight, if the pooling may apply it at once, which most readouts prevent."""
        return conv.input_weight() if conv is not None and self.readout == "mean-max" else None


class GlobalPooling(nn.Module):
    """Three conv + ReLU, their outputs side by side, one pooling, readout, MLP (Figure 2, left).

    Args:
        in_channels: node features
        hidden: size of the node representations of each layer
        classes: number of classes
        pool: pooling layer for rows of size ``LAYERS * hidden``
        conv: a key of `CONVS`
        readout: a key of `READOUTS`; not used if ``pool`` leaves one row per graph
        dropout: rate in the MLP
        members: how many models train side by side
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        classes: int,
        pool: Pool,
        *,
        conv: str = "gcn",
        readout: str = "mean-max",
        dropout: float = 0.5,
        members: int = 1,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.convs = nn.ModuleList(
            find_conv(conv)(hidden if layer else in_channels, hidden, members=members)
            for layer in range(LAYERS)
        )
        if pool.masks > 1:
            raise SagpoolError("Several masks are for the hierarchical architecture.")
        self.pool = pool
        self.readout = readout
        if pool.leaves == "graphs":
            width = pool.graph_channels()
        else:
            width = readout_width(readout) * LAYERS * hidden
        self.classifier = Classifier(width, hidden, classes, dropout=dropout, members=members)

    def forward(self, batch: Batch, streams: Streams | None = None) -> Output:
        streams = streams or Streams.fresh(len(batch.real), batch.real.device)
        level: Level = InputLevel(batch, self.classifier.dtype)
        layers: list[Tensor] = []
        for conv in cast(list[Conv], [*self.convs]):
            if layers:
                level = HiddenLevel(layers[-1], batch.structure)
            layers.append(conv.activate(level).x)
        context = Context(
            streams, rank=lambda: conv.last_channel(level), node_target=lambda: batch.node_target
        )
        x = torch.cat(layers, dim=1)
        pooled: Pooled = self.pool(x, batch.structure, context)
        width = self.pool.graph_channels() if self.pool.leaves == "graphs" else x.shape[1]
        check_pooled(self.pool, pooled, batch.real.numel(), width)
        read = pooled.x if self.pool.leaves == "graphs" else pooled.readout(self.readout)
        return _output(self.classifier(read, streams), [self.pool], [pooled], batch)


def _output(
    logits: Tensor, pools: Sequence[Pool], results: Sequence[Pooled], batch: Batch
) -> Output:
    members, graphs = batch.real.shape
    losses = [pooled.auxiliary for pooled in results if pooled.auxiliary is not None]
    # After a pooling to clusters, rows are no longer nodes of the input.
    of_nodes = takewhile(lambda pair: pair[0].leaves == "nodes", zip(pools, results, strict=True))
    return Output(
        logits.view(members, graphs, -1),
        sum(losses[1:], losses[0]).view(members, graphs) if losses else None,
        tuple(pooled for _, pooled in of_nodes if pooled.source is not None),
    )


class Classifier(nn.Module):
    """The authors' MLP: to h, ReLU, dropout, to h / 2, ReLU, to the classes.

    Shapes:
        x: ``[members * graphs, in_channels]``, result: ``[members * graphs, classes]``
    """

    def __init__(
        self, in_channels: int, hidden: int, classes: int, *, dropout: float, members: int
    ) -> None:
        super().__init__()
        if hidden < 2:
            raise SagpoolError(f"The hidden size must be at least 2, not {hidden}.")
        self.first = Linear(in_channels, hidden, members=members)
        self.second = Linear(hidden, hidden // 2, members=members)
        self.last = Linear(hidden // 2, classes, members=members)
        self.dropout = Dropout(dropout)

    @property
    def dtype(self) -> torch.dtype:
        return self.last.weight.dtype

    def forward(self, x: Tensor, streams: Streams) -> Tensor:
        x = self.dropout(self.first(x).relu(), streams)
        return self.last(self.second(x).relu())
