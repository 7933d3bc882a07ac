"""DiffPool."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn.dense import DenseAdjacency
from sagpool.nn.gcn_conv import GCNConv
from sagpool.ops import segment_matmul, segment_mean, segment_sum


class DiffPooled(NamedTuple):
    x: Tensor  # [members * graphs * clusters, channels]
    adjacency: DenseAdjacency
    assignment: Tensor  # [rows, clusters]
    auxiliary: Tensor  # [members * graphs], link and entropy loss of each graph


class DiffPool(nn.Module):
    """Differentiable pooling (Ying et al., 2018), without batch normalisation.

    ``S = softmax(GCN(X, A))``, ``X' = Sᵀ X``, ``A' = Sᵀ A S`` (the paper's Equation 1).

    On sparse graphs no N×N matrix is formed: A S is a sum over neighbours, and the link loss
    ‖A - S Sᵀ‖² equals ‖A‖² - 2 tr(Sᵀ A S) + ‖Sᵀ S‖². Both losses are those of each graph by itself,
    so they do not depend on what else is in the batch: ‖A - S Sᵀ‖ / N², and the mean entropy of
    the rows of S.

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

    def forward(self, x: Tensor, adjacency: Adjacency | DenseAdjacency) -> DiffPooled:
        log_share = self.assign(x, adjacency).log_softmax(1)
        share = log_share.exp()  # [rows, clusters]
        spread = adjacency.neighbour_sum(share)  # A S
        right = torch.cat([x, spread, share], dim=1)
        products = _per_graph(share, right, adjacency)  # [graphs, clusters, channels + 2 clusters]
        clusters = share.shape[1]
        pooled, coarse, gram = products.split([x.shape[1], clusters, clusters], dim=2)

        ptr, graph = adjacency.node_ptr, adjacency.graph
        entropy = segment_mean(-(share * log_share).sum(1, keepdim=True), ptr, graph)
        trace = coarse.diagonal(dim1=1, dim2=2).sum(1)
        squared = _squared_norm(adjacency, x.dtype) - 2 * trace + gram.square().sum((1, 2))
        # Rounding may leave less than nothing, and the root has no slope at zero.
        link = squared.clamp(min=1e-12).sqrt() / ptr.diff().to(x.dtype).square()
        return DiffPooled(
            x=pooled.flatten(0, 1),
            adjacency=DenseAdjacency(coarse.contiguous(), adjacency.members),
            assignment=share,
            auxiliary=link + entropy.view(-1),
        )


def _per_graph(a: Tensor, b: Tensor, adjacency: Adjacency | DenseAdjacency) -> Tensor:
    """``aᵀ b`` of each graph, ``[graphs, channels of a, channels of b]``."""
    if isinstance(adjacency, DenseAdjacency):
        graphs, nodes, _ = adjacency.matrix.shape
        return a.view(graphs, nodes, -1).transpose(1, 2) @ b.view(graphs, nodes, -1)
    starts = adjacency.sizes.ravel().cumsum() - adjacency.sizes.ravel()
    sizes = adjacency.sizes.copy()
    if adjacency.filler:
        sizes[:, -1] = 1  # what becomes of a filler does not matter: the less, the better
    return segment_matmul(a, b, starts, sizes.ravel())


def _squared_norm(adjacency: Adjacency | DenseAdjacency, dtype: torch.dtype) -> Tensor:
    """‖A‖² of each graph, ``[graphs]``."""
    if isinstance(adjacency, DenseAdjacency):
        return adjacency.matrix.square().sum((1, 2))
    degree = adjacency.degree.to(dtype)[:, None]
    return segment_sum(degree, adjacency.node_ptr, adjacency.graph).view(-1)
