"""The methods of the paper's Table 3, sagnet, and later poolings that PyG has, as a PyG user would
write them: the peers of the fleet.
"""

import math
from collections.abc import Iterable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import (
    ASAPooling,
    DenseGCNConv,
    DMoNPooling,
    EdgePooling,
    GCNConv,
    GINConv,
    GraphMultisetTransformer,
    SAGEConv,
    SAGPooling,
    Set2Set,
    SortAggregation,
    TopKPooling,
    dense_diff_pool,
    dense_mincut_pool,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import to_dense_adj, to_dense_batch

from sagpool import Graphs
from sagpool.fleet import Training
from sagpool.fleet.schedule import shape_of

BLOCKS = 3
POOLS = {
    "sagpool-h": lambda hidden, ratio: SAGPooling(hidden, ratio=ratio, GNN=GCNConv),
    "gpool-h": lambda hidden, ratio: TopKPooling(hidden, ratio=ratio),
    "asap-h": lambda hidden, ratio: ASAPooling(hidden, ratio=ratio, GNN=GCNConv),
    "edgepool-h": lambda hidden, ratio: EdgePooling(hidden),
}
GLOBAL_POOLS = {
    "sagpool-g": lambda width, k: SAGPooling(width, ratio=k, GNN=GCNConv),
    "sortpool-g": lambda width, k: SortAggregation(k),
    "set2set-g": lambda width, k: Set2Set(width, processing_steps=10),
}
SOFT_POOLS = ("mincut-h", "dmon-h")
METHODS = (*POOLS, "diffpool-h", *SOFT_POOLS, *GLOBAL_POOLS, "gmt-g", "sagnet")

# The classes of a batch's graphs, and the arguments of a model.
Collated = tuple[Tensor, tuple[Tensor | int, ...]]


class PyGNet(nn.Module):
    """A classifier of graphs.

    ``size`` is the number of graphs in the batch. Without it, as in most code, PyG reads it from
    the device in every layer that returns a row for each graph.
    """

    def loss(self, y: Tensor, *inputs: Tensor | int) -> Tensor:
        return cross_entropy(self(*inputs), y)


class PyGHierarchical(PyGNet):
    """The net of PyG's own examples/topk_pool.py, with GCN layers."""

    def __init__(
        self,
        method: str,
        in_channels: int,
        hidden: int,
        classes: int,
        ratio: float,
        dropout: float = 0.5,
    ):
        super().__init__()
        self.convs = nn.ModuleList(
            GCNConv(hidden if block else in_channels, hidden) for block in range(BLOCKS)
        )
        self.pools = nn.ModuleList(POOLS[method](hidden, ratio) for _ in range(BLOCKS))
        self.head = _mlp(2 * hidden, hidden, classes, dropout)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None = None
    ) -> Tensor:
        summary = torch.zeros((), device=x.device)
        for conv, pool in zip(self.convs, self.pools, strict=True):
            x = conv(x, edge_index).relu()
            if isinstance(pool, ASAPooling):
                # Without weights: torch has no gradient for the sparse products that compute them.
                x, edge_index, _, batch, _ = pool(x, edge_index, batch=batch)
            elif isinstance(pool, EdgePooling):
                x, edge_index, batch, _ = pool(x, edge_index, batch)
            else:
                x, edge_index, _, batch, _, _ = pool(x, edge_index, batch=batch)
            summary = summary + _readout(x, batch, size)
        return self.head(summary)


class PyGDiffPool(PyGNet):
    """DiffPool with PyG's dense_diff_pool, dense and padded.

    The layers before the first pooling work on the edges, and each batch is padded to its own
    largest graph: faster and smaller than padding all data to the largest, as PyG's example does.
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        classes: int,
        ratio: float,
        max_nodes: int,
        dropout: float = 0.5,
    ):
        super().__init__()
        first, *later = _clusters(max_nodes, ratio)
        self.first = GCNConv(in_channels, hidden)
        self.first_assign = GCNConv(hidden, first)
        self.convs = nn.ModuleList(DenseGCNConv(hidden, hidden) for _ in later)
        self.assigns = nn.ModuleList(DenseGCNConv(hidden, number) for number in later)
        self.head = _mlp(2 * hidden, hidden, classes, dropout)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None = None
    ) -> Tensor:
        return self._logits_and_auxiliary(x, edge_index, batch, size)[0]

    def loss(self, y: Tensor, *inputs: Tensor | int) -> Tensor:
        logits, auxiliary = self._logits_and_auxiliary(*inputs)
        return cross_entropy(logits, y) + auxiliary

    def _logits_and_auxiliary(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        x = self.first(x, edge_index).relu()
        assignment = self.first_assign(x, edge_index)
        x, mask = to_dense_batch(x, batch, batch_size=size)  # [graphs, most nodes, hidden]
        assignment, _ = to_dense_batch(assignment, batch, batch_size=size)
        adj = to_dense_adj(edge_index, batch, batch_size=size)
        x, adj, link, entropy = dense_diff_pool(x, adj, assignment, mask)
        summary, auxiliary = _dense_readout(x), link + entropy
        for conv, assign in zip(self.convs, self.assigns, strict=True):
            x = conv(x, adj).relu()
            x, adj, link, entropy = dense_diff_pool(x, adj, assign(x, adj))
            summary = summary + _dense_readout(x)
            auxiliary = auxiliary + link + entropy
        return self.head(summary), auxiliary


class PyGMinCut(nn.Module):
    """Assigns clusters by one linear layer, as in PyG's example."""

    def __init__(self, hidden: int, clusters: int):
        super().__init__()
        self.assign = nn.Linear(hidden, clusters)

    def forward(
        self, x: Tensor, adj: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, adj, cut, orthogonality = dense_mincut_pool(x, adj, self.assign(x), mask)
        return x, adj, cut + orthogonality


class PyGDMoN(nn.Module):
    def __init__(self, hidden: int, clusters: int):
        super().__init__()
        self.pool = DMoNPooling(hidden, clusters)

    def forward(
        self, x: Tensor, adj: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        _, x, adj, modularity, orthogonality, collapse = self.pool(x, adj, mask)
        return x, adj, modularity + orthogonality + collapse


class PyGSoft(PyGNet):
    """The number of clusters is the ratio times the nodes of a mean graph."""

    def __init__(
        self,
        method: str,
        in_channels: int,
        hidden: int,
        classes: int,
        clusters: list[int],
        dropout: float = 0.5,
    ):
        super().__init__()
        pool = PyGMinCut if method == "mincut-h" else PyGDMoN
        self.first = GCNConv(in_channels, hidden)
        self.convs = nn.ModuleList(DenseGCNConv(hidden, hidden) for _ in clusters[1:])
        self.pools = nn.ModuleList(pool(hidden, number) for number in clusters)
        self.head = _mlp(2 * hidden, hidden, classes, dropout)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None = None
    ) -> Tensor:
        return self._logits_and_auxiliary(x, edge_index, batch, size)[0]

    def loss(self, y: Tensor, *inputs: Tensor | int) -> Tensor:
        logits, auxiliary = self._logits_and_auxiliary(*inputs)
        return cross_entropy(logits, y) + auxiliary

    def _logits_and_auxiliary(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        x = self.first(x, edge_index).relu()
        x, mask = to_dense_batch(x, batch, batch_size=size)  # [graphs, most nodes, hidden]
        adj = to_dense_adj(edge_index, batch, batch_size=size)
        x, adj, auxiliary = self.pools[0](x, adj, mask)
        summary = _dense_readout(x)
        for conv, pool in zip(self.convs, self.pools[1:], strict=True):
            x, adj, loss = pool(conv(x, adj).relu(), adj)
            summary, auxiliary = summary + _dense_readout(x), auxiliary + loss
        return self.head(summary), auxiliary


class PyGGlobal(PyGNet):
    """Three global poolings, each a single layer of PyG, called as documented."""

    def __init__(
        self,
        method: str,
        in_channels: int,
        hidden: int,
        classes: int,
        k: int,
        dropout: float = 0.5,
    ):
        super().__init__()
        widths = [in_channels, *[hidden] * BLOCKS]
        self.convs = nn.ModuleList(GCNConv(a, b) for a, b in pairwise(widths))
        self.pool = GLOBAL_POOLS[method](BLOCKS * hidden, k)
        self.head = _mlp(2 * BLOCKS * hidden, hidden, classes, dropout)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None = None
    ) -> Tensor:
        layers = []
        for conv in self.convs:
            x = conv(x, edge_index).relu()
            layers.append(x)
        return self.head(self._pool(torch.cat(layers, dim=1), edge_index, batch, size))

    def _pool(self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None) -> Tensor:
        if isinstance(self.pool, SAGPooling):
            x, _, _, batch, _, _ = self.pool(x, edge_index, batch=batch)
            return _readout(x, batch, size)
        pooled = self.pool(x, batch, dim_size=size)
        if isinstance(self.pool, SortAggregation):
            return _dense_readout(pooled.view(len(pooled), self.pool.k, -1))
        return pooled


class PyGGMT(PyGGlobal):
    """Keys and values are linear: PyG's layer has no graph convolutions for them."""

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        classes: int,
        seeds: int,
        dropout: float = 0.5,
    ):
        super().__init__("set2set-g", in_channels, hidden, classes, seeds, dropout)
        self.narrow = nn.Linear(BLOCKS * hidden, hidden)
        self.pool = GraphMultisetTransformer(hidden, seeds, heads=2, layer_norm=True)
        self.head = _mlp(hidden, hidden, classes, dropout)

    def _pool(self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None) -> Tensor:
        return self.pool(self.narrow(x), batch, dim_size=size)


class PyGSagnet(PyGNet):
    """Normalised GIN layers with SAGPool after each, as in sagpool.models.sagnet.

    A PyG user would standardise the inputs before the training, so this is left out.
    """

    def __init__(
        self, in_channels: int, hidden: int, classes: int, ratio: float, dropout: float = 0.5
    ):
        super().__init__()
        self.encoder = nn.Linear(in_channels, hidden)
        self.convs = nn.ModuleList(GINConv(_normed_mlp(hidden)) for _ in range(BLOCKS))
        self.pools = nn.ModuleList(
            SAGPooling(hidden, ratio=ratio, GNN=SAGEConv) for _ in range(BLOCKS)
        )
        width = 6 * BLOCKS * hidden
        self.norm = nn.LayerNorm(width)
        self.head = _mlp(width, hidden, classes, dropout)
        self.linear = nn.Linear(in_channels, classes)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int | None = None
    ) -> Tensor:
        counts, read = global_add_pool(x, batch, size), []
        x = self.encoder(x)
        for conv, pool in zip(self.convs, self.pools, strict=True):
            x = x + conv(x, edge_index)
            read.append(_three_readouts(x, batch, size))
            x, edge_index, _, batch, _, _ = pool(x, edge_index, batch=batch)
            read.append(_three_readouts(x, batch, size))
        return self.head(self.norm(torch.cat(read, dim=1))) + self.linear(counts)


def pyg_model(training: Training, graphs: Graphs) -> PyGNet:
    """The net of a training, built from PyG's layers."""
    shape = shape_of(graphs, training)
    size = (shape.in_channels, shape.hidden, shape.classes)
    if training.method in POOLS:
        return PyGHierarchical(training.method, *size, training.ratio, training.dropout)
    if training.method == "sagnet":
        return PyGSagnet(*size, training.ratio, training.dropout)
    if training.method == "diffpool-h":
        return PyGDiffPool(*size, training.ratio, shape.max_nodes, training.dropout)
    if training.method in SOFT_POOLS:
        clusters = _clusters(shape.mean_nodes, training.ratio)
        return PyGSoft(training.method, *size, clusters, training.dropout)
    if training.method == "gmt-g":
        seeds = _clusters(shape.mean_nodes, training.ratio)[0]
        return PyGGMT(*size, seeds, training.dropout)
    return PyGGlobal(training.method, *size, shape.k, training.dropout)


def _clusters(nodes: float, ratio: float) -> list[int]:
    """Number of clusters of each block."""
    counts = [math.ceil(nodes)]
    for _ in range(BLOCKS):
        counts.append(math.ceil(ratio * counts[-1]))
    return counts[1:]


def pyg_epoch(
    model: PyGNet,
    optimiser: torch.optim.Optimizer,
    train: Iterable[Collated],
    validation: Iterable[Collated],
) -> int:
    """Train and validate for one epoch; returns the number of training steps."""
    steps = 0
    model.train()
    for y, inputs in train:
        optimiser.zero_grad()
        model.loss(y, *inputs).backward()
        optimiser.step()
        steps += 1
    model.eval()
    with torch.no_grad():
        losses = [cross_entropy(model(*inputs), y, reduction="sum") for y, inputs in validation]
    float(sum(losses))  # early stopping needs the losses on the host
    return steps


def _mlp(in_channels: int, hidden: int, classes: int, dropout: float) -> nn.Module:
    return nn.Sequential(
        nn.Linear(in_channels, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden // 2),
        nn.ReLU(),
        nn.Linear(hidden // 2, classes),
    )


def _normed_mlp(hidden: int) -> nn.Module:
    layers = [(nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.ReLU()) for _ in range(2)]
    return nn.Sequential(*(layer for part in layers for layer in part))


def _three_readouts(x: Tensor, batch: Tensor, size: int | None) -> Tensor:
    pools = (global_add_pool, global_mean_pool, global_max_pool)
    return torch.cat([pool(x, batch, size) for pool in pools], dim=1)


def _readout(x: Tensor, batch: Tensor, size: int | None) -> Tensor:
    return torch.cat([global_mean_pool(x, batch, size), global_max_pool(x, batch, size)], dim=1)


def _dense_readout(x: Tensor) -> Tensor:
    return torch.cat([x.mean(dim=1), x.amax(dim=1)], dim=1)  # [graphs, 2 * channels]
