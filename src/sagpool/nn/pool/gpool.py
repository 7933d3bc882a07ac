"""gPool: top-k pooling by a learned projection."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.graphs import Structure
from sagpool.nn.pool.pool import Context
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.scores import Activation, Scores, find_activation, gated
from sagpool.nn.pool.selection import Ratio
from sagpool.ops.pool_by_product import ProductScore


def unit(projection: Tensor) -> Tensor:
    """Vectors ``[members, in, ...]`` divided by their length."""
    # Clamped: where all rows are zero, weight decay shrinks the vector to 0.
    norm = torch.linalg.vector_norm(projection, dim=1, keepdim=True).clamp_min(1e-12)
    return projection / norm


class GPool(ScorePool):
    """gPool (Gao and Ji, 2019; Cangea et al., 2018).

    ``y = X p / ‖p‖``, ``idx = top-rank(y, ⌈kN⌉)``, ``X_out = X[idx] ⊙ tanh(y[idx])``,
    ``A_out = A[idx, idx]`` (the paper's Equation 2). It is SAGPool without the topology. With a
    min_score, ``y = softmax(X p)``, p not normalised (Knyazev et al., 2019).

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's nodes that is kept; an integer is a k
        min_score: keep the nodes whose softmax score is above this instead
        multiplier: factor of the rows that are kept
        nonlinearity: in place of tanh, a function or its name in PyG
        k: keep this many nodes of each graph instead
        members: how many models train side by side

    Shapes:
        packed: ``pool(x, structure, context)`` returns a `Pooled`
        PyG's call: ``pool(x, edge_index, edge_attr=None, batch=None, attn=None)`` returns a
        `PoolOutput`
    """

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio | None = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Activation = "tanh",
        *,
        k: int | np.ndarray | None = None,
        members: int = 1,
    ) -> None:
        super().__init__(in_channels, ratio, k=k, min_score=min_score, multiplier=multiplier)
        self.nonlinearity = find_activation(nonlinearity)
        self.projection = nn.Parameter(torch.empty(members, in_channels, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_channels)
        nn.init.uniform_(self.projection, -bound, bound)

    def score_weight(self) -> Tensor:
        if self.min_score is not None:
            return self.projection
        return unit(self.projection)

    def product_score(self) -> ProductScore | None:
        usual = self.nonlinearity is torch.tanh and type(self).scores is GPool.scores
        if not usual or len(self.projection) > 1:
            return None
        return ProductScore(self.score_weight(), None, neighbours=False)

    def can_record(self, dtype: torch.dtype) -> bool:
        return self.min_score is None

    def scores(self, x: Tensor, structure: Structure, context: Context) -> Scores:
        product = self.product_of(x, context)
        assert product is not None
        return gated(product.view(-1), self.nonlinearity, self.min_score)
