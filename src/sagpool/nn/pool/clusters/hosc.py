"""HOSC."""

import math

import torch
from torch import Tensor

from sagpool.nn.pool.clusters.dense_adjacency import DenseAdjacency
from sagpool.nn.pool.clusters.mincut import HIDDEN
from sagpool.nn.pool.clusters.soft_pool import Clustering, SoftPool, fraction
from sagpool.ops import propagate


class HOSCPool(SoftPool):
    """Clusters that cut few edges and few triangles (Duval and Malliaros, 2022).

    With the triangles ``M = A² ⊙ A`` and ``cut(A) = - 1 / K Σ_k (Sᵀ A S)_kk / (Sᵀ d)_k``, with the
    degrees d of A, the loss is ``(1 - α) cut(A) + α cut(M) + μ L_o`` with
    ``L_o = (√K - 1 / √N Σ_k ‖S_:k‖) / (√K - 1)``. ``S = softmax(MLP(X))``; the pooled graph is
    that of MinCutPool, from A in place of the normalised Ã.

    Args:
        in_channels: size of each input row
        clusters: K, nodes of each pooled graph
        alpha: α, the weight of triangles
        mu: μ, the weight of orthogonality
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``
        result: ``[members * graphs * clusters, in_channels]``
    """

    def __init__(
        self,
        in_channels: int,
        clusters: int,
        *,
        alpha: float = 0.5,
        mu: float = 0.1,
        members: int = 1,
    ) -> None:
        super().__init__(in_channels, clusters, hidden=[HIDDEN], members=members)
        self.alpha, self.mu = alpha, mu

    def loss(self, found: Clustering) -> Tensor:
        s, degree = found.assignment, found.degree[:, None]
        inside = found.matrix.diagonal(dim1=1, dim2=2)  # [graphs, clusters]
        edges = fraction(inside, found.total(degree * s)).mean(1)
        around, degree = _triangles(found)
        triangles = fraction(found.total(s * around), found.total(degree * s)).mean(1)
        cut = (1 - self.alpha) * edges + self.alpha * triangles
        return self.mu * _imbalance(found) - cut


def _triangles(found: Clustering) -> tuple[Tensor, Tensor]:
    """``M S``, ``[rows, clusters]``, and the row sums of M, ``[rows, 1]``."""
    s, structure = found.assignment, found.structure
    if isinstance(structure, DenseAdjacency):
        matrix = structure.matrix
        triangles = torch.bmm(matrix, matrix) * matrix
        around = torch.bmm(triangles, s.view(*matrix.shape[:2], -1))
        return around.view_as(s), triangles.sum(2).view(-1, 1)
    base = structure.csr()
    entries, weight = (base.row_ptr, base.col), base.triangles.to(s.dtype)
    around = propagate(s, *entries, weight, symmetric=base.symmetric)
    ones = s.new_ones(len(s), 1)
    return around, propagate(ones, *entries, weight, symmetric=base.symmetric)


def _imbalance(found: Clustering) -> Tensor:
    """``(√K - 1 / √N Σ_k ‖S_:k‖) / (√K - 1)``, from 0 to 1; 0 for a single cluster."""
    root = math.sqrt(found.clusters)
    length = found.lengths.sum(1) / found.nodes.sqrt()
    return (root - length) / (root - 1) if found.clusters > 1 else torch.zeros_like(length)
