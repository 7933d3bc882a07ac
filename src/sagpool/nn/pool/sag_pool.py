"""Self-attention graph pooling."""

import numpy as np
from torch import Tensor

from sagpool.graphs import Adjacency
from sagpool.nn.pool.attention import AttentionScore, Scores
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.selection import Ratio


class SAGPool(ScorePool):
    """Self-attention graph pooling (Lee, Lee and Kang, 2019).

    ``Z = tanh(GNN(X, A))``, ``idx = top-rank(Z, ⌈kN⌉)``, ``X_out = X[idx] ⊙ Z[idx]``,
    ``A_out = A[idx, idx]`` (the paper's Equations 3 to 5), where the GNN is one graph convolution
    to a single channel, or a variant of it.

    Args:
        in_channels: size of each input row
        ratio: share of each graph's nodes that is kept
        k: keep this many nodes of each graph instead
        min_score: keep the nodes whose softmax score is above this instead
        conv: ``gcn``, ``cheb`` (K = 2), ``sage`` (mean) or ``gat`` (6 heads)
        augmentation: score with A + A² in place of A
        serial: convolutions in a row
        parallel: number of scores that are averaged
        members: how many models train side by side

    Shapes:
        packed: ``pool(x, adjacency)`` gives a `Pooled`
        PyG's form: ``pool(x, edge_index, edge_attr=None, batch=None)`` gives a `PoolOutput`
    """

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio = 0.5,
        *,
        k: int | np.ndarray | None = None,
        min_score: float | None = None,
        conv: str = "gcn",
        augmentation: bool = False,
        serial: int = 1,
        parallel: int = 1,
        members: int = 1,
    ) -> None:
        super().__init__(in_channels, ratio, k=k, min_score=min_score)
        self.attention = AttentionScore(
            in_channels,
            conv,
            augmentation=augmentation,
            serial=serial,
            parallel=parallel,
            members=members,
        )

    def reset_parameters(self) -> None:
        self.attention.reset_parameters()

    def score_weight(self) -> Tensor | None:
        return self.attention.score_weight()

    def scores(self, x: Tensor, adjacency: Adjacency, projected: Tensor | None = None) -> Scores:
        return self.attention(x, adjacency, projected)
