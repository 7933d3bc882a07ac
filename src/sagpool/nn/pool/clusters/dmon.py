"""DMoN."""

import math

import torch
from torch import Tensor

from sagpool.nn.pool.clusters.soft_pool import SMALLEST, Clustering, SoftPool, fraction


class DMoNPool(SoftPool):
    """Clusters of high modularity (Tsitsulin et al., 2023).

    With ``B = A - d dᵀ / 2m``, degrees d and their sum 2m, and ``S = softmax(X W + b)``, the loss
    is ``L_DMoN = - Tr(Sᵀ B S) / 2m + √K / N ‖Σ_i S_i‖ - 1``. X is the output of the graph
    convolution before this layer.

    The paper clusters the nodes of one graph, and has no graph of clusters. As in the authors'
    layer, the features of a cluster are ``SELU`` of the mean of its nodes' features, weighted by S,
    and ``A' = Sᵀ A S`` is not changed further.

    Args:
        in_channels: size of each input row
        clusters: K, nodes of each pooled graph
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``
        result: ``[members * graphs * clusters, in_channels]``
    """

    def __init__(self, in_channels: int, clusters: int, *, members: int = 1) -> None:
        super().__init__(in_channels, clusters, members=members)

    def loss(self, found: Clustering) -> Tensor:
        degree = found.degree[:, None]
        edges = found.total(degree).view(-1)  # 2m
        volume = found.total(degree * found.assignment)  # [graphs, clusters], Sᵀ d
        expected = fraction(volume.square().sum(1), edges)
        sizes = torch.linalg.vector_norm(found.sizes, dim=1)
        collapse = math.sqrt(found.clusters) / found.nodes * sizes - 1
        return collapse - fraction(found.trace - expected, edges)

    def features(self, found: Clustering, x: Tensor) -> Tensor:
        sizes = found.sizes.clamp(min=SMALLEST)[:, :, None]
        return torch.selu(found.pooled(x) / sizes)

    def edges(self, matrix: Tensor) -> Tensor:
        return matrix
