"""DiffPool."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn.conv.gcn import GCNConv
from sagpool.nn.pool.diffpool.assignment import SoftAssignment, mean_of_graphs, soft_assignment
from sagpool.nn.pool.diffpool.coarsen import LEAST_SQUARE, coarsen, coarsen_again, link_loss
from sagpool.nn.pool.diffpool.congruence import congruence
from sagpool.nn.pool.diffpool.dense_adjacency import DenseAdjacency
from sagpool.nn.pool.diffpool.device import kernels_for
from sagpool.nn.pool.diffpool.low_rank_adjacency import LowRankAdjacency
from sagpool.nn.pool.diffpool.matmul import segment_matmul
from sagpool.nn.pool.diffpool.pooled_adjacency import PooledAdjacency, blocks_of
from sagpool.nn.pool.diffpool.segments import Blocks, Spans
from sagpool.ops import matmul_with_passthrough, segment_mean, segment_sum
from sagpool.ops.aligned import aligned

# A' is formed if it has no more rows than this; products with larger ones are made by factors.
MOST_FORMED = 64


class DiffPooled(NamedTuple):
    x: Tensor  # [members * graphs * clusters, channels], X'
    adjacency: PooledAdjacency
    assignment: Tensor  # [rows, clusters]
    auxiliary: Tensor  # [members * graphs], link and entropy loss of each graph
    readout: Tensor | None = None  # [members * graphs, 2 * channels], if x is X' W instead of X'


class DiffPool(nn.Module):
    """Differentiable pooling (Ying et al., 2018), without batch normalisation.

    ``S = softmax(GCN(X, A))``, ``X' = Sᵀ X``, ``A' = Sᵀ A S`` (the paper's Equation 1).

    A' stays in factors where it is large (see `LowRankAdjacency`), and the link loss ‖A - S Sᵀ‖²
    is ‖A‖² - 2 tr(Sᵀ A S) + ‖Sᵀ S‖²: no large matrix is formed that has more numbers than S. Both
    losses are those of each graph by itself, so they do not depend on what else is in the batch:
    ‖A - S Sᵀ‖ / N², and the mean entropy of the rows of S.

    Args:
        in_channels: size of each input row
        clusters: nodes of each graph afterwards
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``
        following: W, ``[members, in_channels, channels]``, by which X' will be multiplied: where
            that is faster, the result has X' W in place of X', and a readout of X'
    """

    def __init__(self, in_channels: int, clusters: int, *, members: int = 1) -> None:
        super().__init__()
        if clusters < 1:
            raise SagpoolError(f"DiffPool needs at least 1 cluster, not {clusters}.")
        self.assign = GCNConv(in_channels, clusters, members=members)

    def reset_parameters(self) -> None:
        self.assign.reset_parameters()

    def forward(
        self,
        x: Tensor,
        adjacency: Adjacency | PooledAdjacency,
        following: Tensor | None = None,
    ) -> DiffPooled:
        if _has_kernels(x):
            (share, uncertainty), x = self._assignment(x, adjacency)
        else:
            share, uncertainty = soft_assignment(self.assign(x, adjacency))
        clusters = self.assign.linear.weight.shape[2]
        if isinstance(adjacency, DenseAdjacency):
            level = _formed_level(share, uncertainty, x, adjacency)
        elif _has_kernels(x):
            level = _level_by_kernels(share, clusters, uncertainty, x, adjacency, following)
        else:
            level = _level_by_torch(share, uncertainty, x, adjacency)
        return DiffPooled(
            x=level.pooled.flatten(0, 1),
            adjacency=level.coarse,
            assignment=share[:, :clusters],
            auxiliary=level.link + level.entropy,
            readout=level.readout,
        )

    def _assignment(
        self, x: Tensor, adjacency: Adjacency | PooledAdjacency
    ) -> tuple[SoftAssignment, Tensor]:
        """By kernels, which add the bias on their way; and x for the pooling.

        The shares have more columns than there are clusters, unless the graphs are formed ones.
        """
        weight: Tensor = self.assign.linear.weight
        bias = self.assign.linear.bias
        if not isinstance(adjacency, DenseAdjacency):
            clusters = weight.shape[2]
            weight = pad(weight, (0, aligned(clusters) - clusters))
        if self.assign.narrows:
            y, x = matmul_with_passthrough(x, weight)
            return soft_assignment(adjacency.gcn(y), bias), x
        y, _ = matmul_with_passthrough(adjacency.gcn(x), weight)
        return soft_assignment(y, bias), x


def _has_kernels(x: Tensor) -> bool:
    return x.dtype == torch.float32 and kernels_for(x) is not None


class _Level(NamedTuple):
    pooled: Tensor  # [graphs, clusters, channels]
    coarse: PooledAdjacency
    entropy: Tensor  # [graphs]
    link: Tensor  # [graphs]
    readout: Tensor | None = None  # [graphs, 2 * channels]


def _formed_level(
    share: Tensor, uncertainty: Tensor, x: Tensor, adjacency: DenseAdjacency
) -> _Level:
    graphs, nodes = len(adjacency.matrix), adjacency.clusters
    s, h = share.view(graphs, nodes, -1), x.view(graphs, nodes, -1)
    back = s.transpose(1, 2)  # [graphs, clusters, nodes]
    coarse = adjacency.pool(share)
    gram_norm = torch.bmm(back, s).square().sum((1, 2))
    squared = adjacency.squared_norm - 2 * coarse.trace + gram_norm
    link = squared.clamp(min=LEAST_SQUARE).sqrt() / nodes**2
    return _Level(torch.bmm(back, h), coarse, uncertainty.view(graphs, nodes).mean(1), link)


def _level_by_torch(
    share: Tensor, uncertainty: Tensor, x: Tensor, adjacency: Adjacency | PooledAdjacency
) -> _Level:
    blocks: Blocks | Spans
    if isinstance(adjacency, LowRankAdjacency):
        known: Blocks | Spans | None = adjacency.blocks
        if isinstance(known, Blocks) and known.padding is None:
            known = None  # padding may be of use now that rows are narrower
        coarse = _coarse(adjacency.base, adjacency.shares(share), share.shape[1], known)
        blocks, norm = adjacency.own_blocks, adjacency.squared_norm
    else:
        assert isinstance(adjacency, Adjacency)
        blocks = blocks_of(adjacency, share)
        coarse = _coarse(adjacency, share, share.shape[1], blocks)
        norm = _squared_norm(adjacency, x.dtype)
    pooled = segment_matmul(share, x, blocks)
    ptr, graph = adjacency.node_ptr, adjacency.graph
    entropy = segment_mean(uncertainty[:, None], ptr, graph)
    squared = norm - 2 * coarse.trace + congruence(share, blocks).squared_norm
    link = squared.clamp(min=LEAST_SQUARE).sqrt() / ptr.diff().to(x.dtype).square()
    return _Level(pooled, coarse, entropy.view(-1), link)


def _coarse(
    base: Adjacency,
    share: Tensor,
    clusters: int,
    blocks: Blocks | Spans | None = None,
    handed: Tensor | None = None,
) -> LowRankAdjacency | DenseAdjacency:
    """``Tᵀ A T``, of the first graphs and the shares T of their nodes."""
    blocks = blocks or blocks_of(base, share)
    if clusters <= MOST_FORMED:
        return DenseAdjacency.of(base, share if handed is None else handed, clusters, blocks)
    return LowRankAdjacency(base, blocks, share, clusters, handed)


def _squared_norm(adjacency: Adjacency, dtype: torch.dtype) -> Tensor:
    """‖A‖² of each graph, ``[graphs]``."""
    degree = adjacency.degree.to(dtype)[:, None]
    return segment_sum(degree, adjacency.node_ptr, adjacency.graph).view(-1)


def _level_by_kernels(
    share: Tensor,
    clusters: int,
    uncertainty: Tensor,
    x: Tensor,
    adjacency: Adjacency | PooledAdjacency,
    following: Tensor | None,
) -> _Level:
    norm = None
    if isinstance(adjacency, LowRankAdjacency):
        base, spans, norm = adjacency.base, adjacency.spans, adjacency.squared_norm
        entropy = uncertainty.view(spans.graphs, -1).mean(1)
        made = coarsen_again(share, clusters, x, adjacency.handed_on, spans, adjacency.own_spans)
    else:
        assert isinstance(adjacency, Adjacency)
        base, spans = adjacency, Spans.of(adjacency)
        entropy = mean_of_graphs(uncertainty, spans)
        product = None
        if following is not None and clusters > MOST_FORMED:
            # Most graphs have fewer nodes than clusters: they are multiplied before there are more.
            product, x = matmul_with_passthrough(x, following)
        made = coarsen(share, clusters, x, spans, product)
    coarse = _coarse(base, made.share, clusters, spans, made.handed)
    link = link_loss(norm, coarse.trace, made.gram_norm, adjacency.node_ptr, base.row_ptr)
    return _Level(made.x, coarse, entropy, link, made.readout)
