import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.nn import DenseAdjacency, DiffPool

pytestmark = pytest.mark.usefixtures("path")


def reference(dense, pool, m, A, X):
    """S, SᵀX, SᵀAS, and the loss of one graph by itself."""
    S = dense.convolve(pool.assign, m, A, X).softmax(1)
    link = (A - S @ S.T).square().sum().sqrt() / len(A) ** 2
    entropy = -(S * S.log()).sum(1).mean()
    return S, S.T @ X, S.T @ A @ S, link + entropy


def layer(channels, clusters):
    torch.manual_seed(clusters)
    pool = DiffPool(channels, clusters, members=3).double()
    for parameter in pool.parameters():
        torch.nn.init.normal_(parameter)
    return pool


@pytest.mark.parametrize("clusters", [1, 2, 5])
def test_equation(fleet, dense, agree, clusters):
    pool = layer(3, clusters)
    x = fleet.features(3)
    pooled = pool(x, fleet.adjacency)
    S, X, A, loss = zip(*(reference(dense, pool, *graph) for graph in fleet.each(x)), strict=True)
    inputs = [x, *pool.parameters()]
    agree(torch.cat(fleet.split(pooled.assignment)), torch.cat(S), inputs)
    agree(torch.cat(fleet.split(pooled.x, pooled.adjacency)), torch.cat(X), inputs)
    agree(pooled.adjacency.matrix[fleet.places], torch.stack(A), inputs)
    agree(pooled.auxiliary[fleet.places], torch.stack(loss), inputs)


def test_equation_on_the_dense_graphs_that_it_makes(fleet, dense, agree):
    pools = [layer(3, 4), layer(3, 2)]
    x = fleet.features(3)
    first = pools[0](x, fleet.adjacency)
    assert first.adjacency.members == 3
    assert first.adjacency.sizes.tolist() == [[4] * fleet.adjacency.graphs] * 3
    second = pools[1](first.x, first.adjacency)
    expected = []
    for m, A, X in fleet.each(x):
        _, X1, A1, _ = reference(dense, pools[0], m, A, X)
        expected.append(reference(dense, pools[1], m, A1, X1))
    _, X, A, loss = zip(*expected, strict=True)
    inputs = [x, *(p for pool in pools for p in pool.parameters())]
    agree(torch.cat(fleet.split(second.x, second.adjacency)), torch.cat(X), inputs)
    agree(second.adjacency.matrix[fleet.places], torch.stack(A), inputs)
    agree(second.auxiliary[fleet.places], torch.stack(loss), inputs)


def test_dense_graphs_act_as_an_adjacency(agree):
    half = torch.rand(3, 4, 4, dtype=torch.float64)
    graphs = DenseAdjacency(half + half.transpose(1, 2), 3)
    y = torch.randn(12, 2, dtype=torch.float64, requires_grad=True)
    sums, convolved = [], []
    for A, part in zip(graphs.matrix, y.split(4), strict=True):
        sums.append(A @ part)
        loops = A + torch.eye(4)
        root = torch.diag(loops.sum(1) ** -0.5)
        convolved.append(root @ loops @ root @ part)
    agree(graphs.neighbour_sum(y), torch.cat(sums), [y])
    agree(graphs.gcn(y), torch.cat(convolved), [y])
    torch.testing.assert_close(graphs.degree, graphs.matrix.sum(2).flatten())


def test_the_loss_of_a_node_that_is_alone_has_a_gradient(packed):
    """‖A - SSᵀ‖ is 1, since A has no loop, and nothing is uncertain about a single cluster."""
    single = packed(["one node"])
    pool = DiffPool(3, 1).double()
    x = single.features(3)
    pooled = pool(x, single.adjacency)
    torch.testing.assert_close(pooled.auxiliary[0].detach(), torch.ones(()).double())
    pooled.auxiliary[0].backward()
    assert x.grad.isfinite().all()


def test_wrong_arguments():
    with pytest.raises(SagpoolError, match="at least 1 cluster, not 0"):
        DiffPool(3, 0)
