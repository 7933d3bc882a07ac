"""`sagnet`: a network with SAGPool for the user's graphs; `gin-g`: a plain GIN as a baseline."""

import math
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Batch, Structure
from sagpool.models.architectures import Classifier, Output
from sagpool.models.registry import Shape, Value, register
from sagpool.nn import (
    Dropout,
    GINConv,
    Linear,
    Norm,
    Pooled,
    RowNorm,
    SAGPool,
    Standardise,
    StandardisedLinear,
    Streams,
    SumMeanMax,
)
from sagpool.nn.conv import HiddenLevel, InputLevel, Level
from sagpool.nn.pool import Context, readout, readout_width
from sagpool.ops import segment_mean_max, segment_sum

GIN_LAYERS = 5

# Settings worth trying on the user's graphs, chosen by predictions for held-out graphs of MUTAG and
# ESOL (docs/network.md).
CANDIDATES: tuple[Mapping[str, Value], ...] = (
    {"method": "sagnet", "hidden": 64, "ratio": 0.8, "lr": 3e-3, "dropout": 0.25},
    {"method": "sagnet", "hidden": 64, "pooling": False, "lr": 3e-3, "dropout": 0.25},
)


def lengths_for(graphs: int) -> dict[str, Value]:
    """Batch size, epochs and schedule for trainings of about 600 steps on this many graphs.

    Batches have a power of two from 16 to 128 graphs; with fewer graphs, smaller batches keep the
    number of steps. The learning rate falls to 0, so that the last epoch is as good as the best
    one.
    """
    batch_size = 2 ** min(7, max(4, round(math.log2(max(graphs, 1) / 28))))
    epochs = min(60, max(30, 12_000 // max(graphs, 1)))
    return {
        "batch_size": batch_size, "max_epochs": epochs, "patience": epochs, "schedule": "cosine",
    }  # fmt: skip


class Block(nn.Module):
    """A GIN layer with a residual: ``X + relu(norm((relu(norm((A + I) X W₁ + b₁)) W₂ + b₂)))``.

    Args:
        channels: size of each row
        norm: ``row``, ``graph`` or ``none``
        members: how many models train side by side
    """

    def __init__(self, channels: int, norm: str, *, members: int) -> None:
        super().__init__()
        self.first = Linear(channels, channels, members=members)
        self.second = Linear(channels, channels, members=members)
        self.norms = nn.ModuleList(new_norm(norm, channels, members) for _ in range(2))
        self.fused = norm == "none"

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        if self.fused:
            h, _ = self.first.relu(structure.sum_with_self(x))
            return x + self.second.relu(h)[0]
        h = self.first(structure.sum_with_self(x))
        h = self.second(self.norms[0](h, structure.layout).relu())
        return x + self.norms[1](h, structure.layout).relu()


class Unchanged(nn.Module):
    """No normalisation."""

    def forward(self, x: Tensor, _: object) -> Tensor:
        return x


def new_norm(kind: str, channels: int, members: int) -> nn.Module:
    if kind == "row":
        return RowNorm(channels, members=members)
    if kind == "graph":
        return Norm(channels, members=members)
    if kind == "none":
        return Unchanged()
    raise SagpoolError(f"norm must be one of row, graph, none, not '{kind}'.")


class SAGNet(nn.Module):
    """GIN layers with SAGPool after each, readouts of all levels, and a linear path.

    ``X₀ = ((X - μ) ⊙ s) W + b``; at level l, ``Y = block(X, A)`` and ``X, A = SAGPool(Y, A)``;
    r = sum ‖ mean ‖ max of Y and of the pooled X at all levels, side by side;
    ``logits = MLP(standardise(r)) + linear(standardise(Σ X_input))``.
    The linear path is a logistic regression on the counts of labels and the sums of attributes of
    a graph. The pooling uses a GraphSAGE score, which weights a node differently from its
    neighbours: a GCN score would give equal scores to neighbours that the residual keeps apart.

    Args:
        in_channels: node features
        hidden: size of the node representations
        classes: number of classes
        depth: number of levels
        ratio: fraction of each graph's nodes that each pooling keeps
        pooling: whether to pool; otherwise a level is only a block
        norm: normalisation of rows in a block: ``row``, ``graph`` or ``none``
        dropout: rate in the MLP, at its input, and at the input of the linear path
        members: how many models train side by side
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        classes: int,
        *,
        depth: int = 3,
        ratio: float = 0.5,
        pooling: bool = True,
        norm: str = "none",
        dropout: float = 0.5,
        members: int = 1,
    ) -> None:
        super().__init__()
        if depth < 1:
            raise SagpoolError(f"depth must be at least 1, not {depth}.")
        self.in_channels = in_channels
        self.encoder = StandardisedLinear(in_channels, hidden, members=members)
        self.blocks = nn.ModuleList(Block(hidden, norm, members=members) for _ in range(depth))
        self.pools = nn.ModuleList(
            SAGPool(hidden, ratio, conv="sage", members=members)
            for _ in range(depth if pooling else 0)
        )
        self.readout = SumMeanMax(members=members)
        width = 3 * hidden * (len(self.blocks) + len(self.pools))
        self.of_levels = Standardise(width, members=members)
        self.of_inputs = Standardise(in_channels, members=members)
        self.dropout = Dropout(dropout)
        self.classifier = Classifier(width, hidden, classes, dropout=dropout, members=members)
        self.linear = Linear(in_channels, classes, members=members)

    def forward(self, batch: Batch, streams: Streams | None = None) -> Output:
        streams = streams or Streams.fresh(len(batch.real), batch.real.device)
        features = batch.x.to(self.classifier.dtype)
        structure: Structure = batch.structure
        x = self.encoder(features)
        read, levels = [], list[Pooled]()
        for level, block in enumerate(self.blocks):
            x = block(x, structure)
            layout = structure.layout
            mean_max = segment_mean_max(x, layout.node_ptr, layout.graph)
            read.append(self.readout(mean_max, layout))
            if self.pools:
                pooled = cast(Pooled, self.pools[level](x, structure, Context(streams)))
                x, structure = pooled.x, pooled.structure
                read.append(self.readout(pooled.readout("mean-max"), structure.layout))
                levels.append(pooled)
        layout = batch.structure.layout
        sums = segment_sum(features, layout.node_ptr, layout.graph)
        r = self.dropout(self.of_levels(torch.cat(read, 1)), streams)
        s = self.dropout(self.of_inputs(sums), streams)
        logits = self.classifier(r, streams) + self.linear(s)
        return Output(logits.view(*batch.real.shape, -1), None, tuple(levels))


@register(
    "sagnet",
    settings={"depth": 3, "norm": "none", "pooling": True},
    without=["conv", "readout"],
)
def sagnet(shape: Shape) -> nn.Module:
    return SAGNet(
        shape.in_channels,
        shape.hidden,
        shape.classes,
        depth=int(shape.settings["depth"]),
        ratio=float(shape.ratio),
        pooling=bool(shape.settings["pooling"]),
        norm=str(shape.settings["norm"]),
        dropout=shape.dropout,
        members=shape.members,
    )


class GIN(nn.Module):
    """GIN layers; the readouts of all layers go to an MLP (Xu et al., 2019, Equation 4.2).

    Args:
        in_channels: node features
        hidden: size of the node representations
        classes: number of classes
        layers: number of convolutions
        readout: a key of `READOUTS`; the equation has sums
        dropout: rate in the MLP
        members: how many models train side by side
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        classes: int,
        *,
        layers: int = GIN_LAYERS,
        readout: str = "sum",
        dropout: float = 0.5,
        members: int = 1,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise SagpoolError(f"layers must be at least 1, not {layers}.")
        self.in_channels = in_channels
        self.readout = readout
        self.convs = nn.ModuleList(
            GINConv(hidden if layer else in_channels, hidden, members=members)
            for layer in range(layers)
        )
        width = layers * readout_width(readout) * hidden
        self.classifier = Classifier(width, hidden, classes, dropout=dropout, members=members)

    def forward(self, batch: Batch, streams: Streams | None = None) -> Output:
        streams = streams or Streams.fresh(len(batch.real), batch.real.device)
        level: Level = InputLevel(batch, self.classifier.dtype)
        layout, read = batch.structure.layout, []
        for conv in cast(list[GINConv], [*self.convs]):
            level = HiddenLevel(conv.activate(level).x, batch.structure)
            read.append(readout(level.x, layout, self.readout))
        logits = self.classifier(torch.cat(read, 1), streams)
        return Output(logits.view(*batch.real.shape, -1), None, ())


@register("gin-g", settings={"layers": GIN_LAYERS, "readout": "sum"}, without=["conv"])
def gin_g(shape: Shape) -> nn.Module:
    """The baseline that a PyG user would write first."""
    return GIN(
        shape.in_channels,
        shape.hidden,
        shape.classes,
        layers=int(shape.settings["layers"]),
        readout=str(shape.settings["readout"]),
        dropout=shape.dropout,
        members=shape.members,
    )
