"""MinCutPool."""

from torch import Tensor

from sagpool.nn.pool.clusters.link_loss import MIN_SQUARE
from sagpool.nn.pool.clusters.soft_pool import Clustering, SoftPool, fraction

# The paper does not give the size of the MLP; this is the value in the authors' code.
HIDDEN = 16


class MinCutPool(SoftPool):
    """Clusters with few edges between them (Bianchi, Grattarola and Alippi, 2020).

    With ``Ã = D^-1/2 A D^-1/2``, D̃ its degrees and ``S = softmax(MLP(X))``, the losses are
    ``L_c = - Tr(Sᵀ Ã S) / Tr(Sᵀ D̃ S)`` and ``L_o = ‖Sᵀ S / ‖Sᵀ S‖ - I / √K‖``. The pooled graph
    is ``X' = Sᵀ X``, ``A' = D̂^-1/2 Â D̂^-1/2`` with ``Â = Sᵀ Ã S - diag(Sᵀ Ã S)``. X is the output
    of the graph convolution before this layer.

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
        volume = found.degree[:, None] * found.assignment.square()
        cut = fraction(found.trace, found.total(volume).sum(1))
        return orthogonality(found) - cut


def orthogonality(found: Clustering) -> Tensor:
    """``‖Sᵀ S / ‖Sᵀ S‖ - I / √K‖``, from ``2 - 2 Tr(Sᵀ S) / (√K ‖Sᵀ S‖)``, its square."""
    trace, squared_norm = found.gram
    square = 2 - 2 * trace / (found.clusters * squared_norm).sqrt()
    return square.clamp(min=MIN_SQUARE).sqrt()
