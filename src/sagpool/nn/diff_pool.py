"""DiffPool."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn.gcn_conv import GCNConv
from sagpool.nn.pooled_adjacency import PooledAdjacency
from sagpool.ops import congruence, segment_matmul, segment_mean, segment_sum, soft_assignment


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
        share, uncertainty = soft_assignment(self.assign(x, adjacency))  # [rows, clusters], [rows]
        if isinstance(adjacency, PooledAdjacency):
            coarse, blocks = adjacency.pool(share), adjacency.own_blocks
            norm = adjacency.squared_norm
        else:
            coarse = PooledAdjacency.of(adjacency, share)
            blocks, norm = coarse.blocks, _squared_norm(adjacency, x.dtype)
        pooled = segment_matmul(share, x, blocks)  # [graphs, clusters, channels]

        ptr, graph = adjacency.node_ptr, adjacency.graph
        entropy = segment_mean(uncertainty[:, None], ptr, graph)
        squared = norm - 2 * coarse.trace + congruence(share, blocks).squared_norm
        # Rounding may leave less than nothing, and the root has no slope at zero.
        link = squared.clamp(min=1e-12).sqrt() / ptr.diff().to(x.dtype).square()
        return DiffPooled(
            x=pooled.flatten(0, 1),
            adjacency=coarse,
            assignment=share,
            auxiliary=link + entropy.view(-1),
        )


def _squared_norm(adjacency: Adjacency, dtype: torch.dtype) -> Tensor:
    """‖A‖² of each graph, ``[graphs]``."""
    degree = adjacency.degree.to(dtype)[:, None]
    return segment_sum(degree, adjacency.node_ptr, adjacency.graph).view(-1)
