import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from sagpool.errors import SagpoolError
from sagpool.nn import GMT, Linear

pytestmark = pytest.mark.usefixtures("path")


def linear(layer: Linear, m: int, x: Tensor) -> Tensor:
    return x @ layer.weight[m] + layer.bias[m]


def multi_head(pool: GMT, Q: Tensor, K: Tensor, V: Tensor, over: str) -> Tensor:
    """O_1 to O_h side by side."""
    heads = zip(*(part.chunk(pool.heads, dim=1) for part in (Q, K, V)), strict=True)
    axis = 1 if over == "nodes" else 0  # the keys, or the queries
    return torch.cat([(q @ k.T / math.sqrt(Q.shape[1])).softmax(axis) @ v for q, k, v in heads], 1)


def block(pool: GMT, number: int, m: int, Q: Tensor, KV: Tensor) -> Tensor:
    """LN(Z + rFF(Z)), Z = LN(Q + MH(Q, K, V))."""
    own = pool.blocks[number]

    def norm(layer, x):
        return layer_norm(x, x.shape[1:]) * layer.scale[m] + layer.shift[m]

    over = pool.over if number < 2 else "nodes"
    heads = multi_head(pool, Q @ own.query.weight[m], *KV.chunk(2, dim=1), over)
    Z = norm(own.norms[0], Q + linear(own.out, m, heads))
    return norm(own.norms[1], Z + linear(own.feed_forward, m, Z).relu())


def reference(dense, pool: GMT, m: int, A: Tensor, X: Tensor) -> Tensor:
    """GMPool_1(SelfAtt(GMPool_k(X, A))) of a single graph."""
    H = block(pool, 0, m, pool.seeds[m], dense.convolve(pool.nodes, m, A, X))
    H = block(pool, 1, m, H, linear(pool.rows, m, H))
    return block(pool, 2, m, pool.seed[m], linear(pool.last, m, H))[0]


@pytest.mark.parametrize("over", ["nodes", "seeds"])
@pytest.mark.parametrize(("heads", "seeds"), [(1, 7), (2, 3), (4, 1)])
def test_equation(over, heads, seeds, fleet, dense, agree):
    torch.manual_seed(seeds)
    pool = GMT(3, 4, seeds, heads=heads, over=over, members=3).double()
    with torch.no_grad():
        for parameter in pool.parameters():
            parameter.add_(torch.randn_like(parameter))
    x = fleet.features(3)
    pooled = pool(x, fleet.adjacency)
    assert pooled.x.shape == (fleet.adjacency.layout.sizes.size, pool.graph_channels())
    expected = torch.stack([reference(dense, pool, *graph) for graph in fleet.each(x)])
    agree(pooled.x[fleet.places], expected, [x, *pool.parameters()])


def test_what_cannot_be():
    with pytest.raises(SagpoolError, match=r"at least 1 seed, not 0\.$"):
        GMT(3, 4, 0)
    with pytest.raises(SagpoolError, match=r"cannot divide 7 channels among 2 heads\.$"):
        GMT(3, 7, 2)
    with pytest.raises(SagpoolError, match=r"one of nodes, seeds, not 'all'\.$"):
        GMT(3, 4, 2, over="all")
