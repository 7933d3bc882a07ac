"""JustBalance."""

from torch import Tensor

from sagpool.nn.pool.clusters.mincut import HIDDEN
from sagpool.nn.pool.clusters.soft_pool import Clustering, SoftPool


class JustBalancePool(SoftPool):
    """Clusters of equal sizes (Bianchi, 2022).

    ``S = softmax(MLP(X))``; the loss is ``L = - Tr(√(Sᵀ S))``, the root of each element.
    It is divided by ``√(N K)``, as in the authors' code, so that it is -1 for clusters of equal
    sizes. The pooled graph is that of MinCutPool.

    Args:
        in_channels: size of each input row
        clusters: K, nodes of each pooled graph
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``
        result: ``[members * graphs * clusters, in_channels]``
    """

    normalises = True

    def __init__(self, in_channels: int, clusters: int, *, members: int = 1) -> None:
        super().__init__(in_channels, clusters, hidden=[HIDDEN], members=members)

    def loss(self, found: Clustering) -> Tensor:
        return -found.lengths.sum(1) / (found.clusters * found.nodes).sqrt()
