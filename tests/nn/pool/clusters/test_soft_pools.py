"""MinCutPool, DMoN, JustBalance and HOSC against their equations, one graph at a time."""

import math

import pytest
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn import DMoNPool, HOSCPool, JustBalancePool, MinCutPool
from sagpool.nn.pool.clusters import SoftPool

pytestmark = pytest.mark.usefixtures("path")


def inverse_root(d: Tensor) -> Tensor:
    return torch.where(d > 0, d.clamp(min=1e-9) ** -0.5, 0)


def normalised(A: Tensor) -> Tensor:
    root = torch.diag(inverse_root(A.sum(1)))
    return root @ A @ root


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1), 0)


def assignment(pool: SoftPool, m: int, X: Tensor) -> Tensor:
    for number, layer in enumerate(pool.assign):
        X = (X.relu() if number else X) @ layer.weight[m] + layer.bias[m]
    return X.softmax(1)


def connected(P: Tensor) -> Tensor:
    """Â = P - diag(P), D̂^-1/2 Â D̂^-1/2."""
    return normalised(P - torch.diag(P.diagonal()))


def mincut(pool, S, A, X, first):
    A = normalised(A) if first else A
    D = torch.diag(A.sum(1))
    K, gram = S.shape[1], S.T @ S
    cut = -ratio((S.T @ A @ S).trace(), (S.T @ D @ S).trace())
    orthogonal = (gram / gram.norm() - torch.eye(K).to(A) / math.sqrt(K)).norm()
    return S.T @ X, connected(S.T @ A @ S), cut + orthogonal


def dmon(pool, S, A, X, first):
    N, K = S.shape
    d, edges = A.sum(1, keepdim=True), A.sum()
    B = A - ratio(d @ d.T, edges)
    loss = -ratio((S.T @ B @ S).trace(), edges) + math.sqrt(K) / N * S.sum(0).norm() - 1
    mean = S.T @ X / S.sum(0)[:, None]
    return torch.nn.functional.selu(mean), S.T @ A @ S, loss


def just_balance(pool, S, A, X, first):
    N, K = S.shape
    A = normalised(A) if first else A
    loss = -(S.T @ S).sqrt().trace() / math.sqrt(N * K)
    return S.T @ X, connected(S.T @ A @ S), loss


def hosc(pool, S, A, X, first):
    N, K = S.shape
    cuts = []
    for M in (A, A @ A * A):
        inside, volume = (S.T @ M @ S).diagonal(), S.T @ M.sum(1)
        cuts.append(-ratio(inside, volume).sum() / K)
    loss = (1 - pool.alpha) * cuts[0] + pool.alpha * cuts[1]
    if K > 1:
        lengths = S.norm(dim=0).sum() / math.sqrt(N)
        loss = loss + pool.mu * (math.sqrt(K) - lengths) / (math.sqrt(K) - 1)
    return S.T @ X, connected(S.T @ A @ S), loss


EQUATIONS = {MinCutPool: mincut, DMoNPool: dmon, JustBalancePool: just_balance, HOSCPool: hosc}
every_kind = pytest.mark.parametrize("kind", EQUATIONS, ids=lambda kind: kind.__name__)


def reference(pool, m, A, X, first=True):
    """S, X', A' and the loss of a single graph."""
    S = assignment(pool, m, X)
    return S, *EQUATIONS[type(pool)](pool, S, A, X, first)


def layer(kind, clusters, members=3):
    torch.manual_seed(clusters)
    pool = kind(3, clusters, members=members).double()
    for parameter in pool.parameters():
        torch.nn.init.normal_(parameter)
    return pool


@every_kind
@pytest.mark.parametrize("clusters", [(4, 3), (9, 2)])
def test_equations_of_two_poolings(kind, clusters, fleet, agree):
    """With fewer clusters than nodes, and more."""
    pools = [layer(kind, count) for count in clusters]
    x = fleet.features(3)
    first = pools[0](x, fleet.adjacency)
    second = pools[1](first.x, first.structure)
    ones, twos = [], []
    for m, A, X in fleet.each(x):
        ones.append(reference(pools[0], m, A, X))
        _, X1, A1, _ = ones[-1]
        twos.append(reference(pools[1], m, A1, X1, first=False))
    inputs = [x, *(p for pool in pools for p in pool.parameters())]
    for pooled, before, expected in ((first, None, ones), (second, first.structure, twos)):
        S, X, A, loss = zip(*expected, strict=True)
        agree(torch.cat(fleet.split(pooled.assignment, before)), torch.cat(S), inputs)
        agree(torch.cat(fleet.split(pooled.x, pooled.structure)), torch.cat(X), inputs)
        agree(pooled.structure.matrix[fleet.places], torch.stack(A), inputs)
        agree(pooled.auxiliary[fleet.places], torch.stack(loss), inputs)


@every_kind
def test_one_cluster(kind, fleet):
    pool = layer(kind, 1)
    pooled = pool(fleet.features(3), fleet.adjacency)
    expected = [reference(pool, m, A, X)[3] for m, A, X in fleet.each(fleet.features(3))]
    torch.testing.assert_close(
        pooled.auxiliary[fleet.places], torch.stack(expected), rtol=0, atol=2e-6
    )


@every_kind
def test_directed_graphs_of_a_pyg_user(kind, directed, agree):
    edge_index, x = directed
    edge_index = edge_index[:, edge_index[0] != edge_index[1]].unique(dim=1)
    both = torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)
    adjacency = Adjacency.from_edge_index(both, torch.zeros(len(x), dtype=torch.int64))
    A = torch.zeros(len(x), len(x), dtype=torch.float64)
    A[both[0], both[1]] = 1
    pool = layer(kind, 3, members=1)
    pooled, (_, X, A, loss) = pool(x, adjacency), reference(pool, 0, A, x)
    inputs = [x, *pool.parameters()]
    agree(pooled.x, X, inputs)
    agree(pooled.structure.matrix[0], A, inputs)
    agree(pooled.auxiliary[0], loss, inputs)


@every_kind
def test_no_cluster(kind):
    with pytest.raises(SagpoolError, match=r"needs at least 1 cluster, not 0\.$"):
        kind(3, 0)
