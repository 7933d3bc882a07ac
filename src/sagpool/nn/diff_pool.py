"""DiffPool."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn.gcn_conv import GCNConv
from sagpool.nn.pooled_adjacency import PooledAdjacency
from sagpool.ops import (
    Blocks,
    SoftAssignment,
    congruence,
    product_beside,
    segment_matmul,
    segment_mean,
    segment_sum,
    soft_assignment,
)
from sagpool.ops.assignment import mean_of_graphs
from sagpool.ops.blocks import Spans
from sagpool.ops.coarsen import LEAST_SQUARE, coarsen, coarsen_again, link_loss
from sagpool.ops.device import kernels_for


class DiffPooled(NamedTuple):
    x: Tensor  # [members * graphs * clusters, channels]
    adjacency: PooledAdjacency
    assignment: Tensor  # [rows, clusters]
    auxiliary: Tensor  # [members * graphs], link and entropy loss of each graph


class DiffPool(nn.Module):
    """Differentiable pooling (Ying et al., 2018), without batch normalisation.

    ``S = softmax(GCN(X, A))``, ``X' = Sᵀ X``, ``A' = Sᵀ A S`` (the paper's Equation 1).

    A' stays in factors (see `PooledAdjacency`), and the link loss ‖A - S Sᵀ‖² is
    ‖A‖² - 2 tr(Sᵀ A S) + ‖Sᵀ S‖²: no matrix is formed that has more numbers than S. Both losses
    are those of each graph by itself, so they do not depend on what else is in the batch:
    ‖A - S Sᵀ‖ / N², and the mean entropy of the rows of S.

    Args:
        in_channels: size of each input row
        clusters: nodes of each graph afterwards
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``
    """

    def __init__(self, in_channels: int, clusters: int, *, members: int = 1) -> None:
        super().__init__()
        if clusters < 1:
            raise SagpoolError(f"DiffPool needs at least 1 cluster, not {clusters}.")
        self.assign = GCNConv(in_channels, clusters, members=members)

    def reset_parameters(self) -> None:
        self.assign.reset_parameters()

    def forward(self, x: Tensor, adjacency: Adjacency | PooledAdjacency) -> DiffPooled:
        if _has_kernels(x):
            (share, uncertainty), x = self._assignment(x, adjacency)
            level = _by_kernels
        else:
            share, uncertainty = soft_assignment(self.assign(x, adjacency))
            level = _by_torch
        pooled, coarse, entropy, link = level(share, uncertainty, x, adjacency)
        return DiffPooled(
            x=pooled.flatten(0, 1),
            adjacency=coarse,
            assignment=share,
            auxiliary=link + entropy,
        )

    def _assignment(
        self, x: Tensor, adjacency: Adjacency | PooledAdjacency
    ) -> tuple[SoftAssignment, Tensor]:
        """By kernels, which add the bias on their way; and x for the pooling."""
        linear = self.assign.linear
        if self.assign.narrows:
            y, x = product_beside(x, linear.weight)
            return soft_assignment(adjacency.gcn(y), linear.bias), x
        return soft_assignment(linear.product(adjacency.gcn(x)), linear.bias), x


def _has_kernels(x: Tensor) -> bool:
    return x.dtype == torch.float32 and kernels_for(x) is not None


class _Level(NamedTuple):
    pooled: Tensor  # [graphs, clusters, channels]
    coarse: PooledAdjacency
    entropy: Tensor  # [graphs]
    link: Tensor  # [graphs]


def _by_torch(
    share: Tensor, uncertainty: Tensor, x: Tensor, adjacency: Adjacency | PooledAdjacency
) -> _Level:
    blocks: Blocks | Spans
    if isinstance(adjacency, PooledAdjacency):
        coarse, blocks = adjacency.pool(share), adjacency.own_blocks
        norm = adjacency.squared_norm
    else:
        coarse = PooledAdjacency.of(adjacency, share)
        blocks, norm = coarse.blocks, _squared_norm(adjacency, x.dtype)
    pooled = segment_matmul(share, x, blocks)
    ptr, graph = adjacency.node_ptr, adjacency.graph
    entropy = segment_mean(uncertainty[:, None], ptr, graph)
    squared = norm - 2 * coarse.trace + congruence(share, blocks).squared_norm
    link = squared.clamp(min=LEAST_SQUARE).sqrt() / ptr.diff().to(x.dtype).square()
    return _Level(pooled, coarse, entropy.view(-1), link)


def _squared_norm(adjacency: Adjacency, dtype: torch.dtype) -> Tensor:
    """‖A‖² of each graph, ``[graphs]``."""
    degree = adjacency.degree.to(dtype)[:, None]
    return segment_sum(degree, adjacency.node_ptr, adjacency.graph).view(-1)


def _by_kernels(
    share: Tensor, uncertainty: Tensor, x: Tensor, adjacency: Adjacency | PooledAdjacency
) -> _Level:
    norm = None
    if isinstance(adjacency, PooledAdjacency):
        spans, norm = adjacency.spans, adjacency.squared_norm
        entropy = uncertainty.view(spans.graphs, -1).mean(1)
        made = coarsen_again(share, x, adjacency.share, spans)
        coarse = PooledAdjacency(adjacency.base, spans, made.share)
    else:
        coarse = PooledAdjacency.of(adjacency, share)
        entropy = mean_of_graphs(uncertainty, coarse.spans)
        made = coarsen(share, x, coarse.spans)
    row_ptr = coarse.base.row_ptr
    link = link_loss(norm, coarse.trace, made.gram_norm, adjacency.node_ptr, row_ptr)
    return _Level(made.x, coarse, entropy, link)
