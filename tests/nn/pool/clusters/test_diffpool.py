import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn import DiffPool
from sagpool.nn.pool.clusters import ClusterAdjacency, segments
from sagpool.nn.pool.clusters import diffpool as diffpool_layer
from sagpool.nn.pool.clusters.dense_adjacency import DenseAdjacency
from sagpool.nn.pool.clusters.gradient_chain import GradientChain
from sagpool.nn.pool.clusters.low_rank_adjacency import LowRankAdjacency
from sagpool.nn.pool.clusters.segments import segments_of

pytestmark = pytest.mark.usefixtures("path")


@pytest.fixture(params=["padded", "one product per graph"], autouse=True)
def padding(request, monkeypatch):
    if request.param == "one product per graph":
        monkeypatch.setattr(segments, "MIN_UNPADDED_NUMEL", 0)


@pytest.fixture(params=[0, 2, 64], ids="max dense {}".format)
def max_dense(request, monkeypatch):
    """A' is never dense; dense after the second pooling; dense after the first."""
    monkeypatch.setattr(diffpool_layer, "MAX_DENSE_CLUSTERS", request.param)


def dense_matrix(adjacency: ClusterAdjacency) -> torch.Tensor:
    """A' of each graph."""
    clusters = adjacency.clusters
    columns = torch.eye(clusters, dtype=torch.float64).repeat(adjacency.layout.sizes.size, 1)
    return adjacency.neighbour_sum(columns).view(-1, clusters, clusters)


def reference(dense, pool, m, A, X):
    """S, SᵀX, SᵀAS, and the loss of a single graph."""
    S = dense.convolve(pool.assign, m, A, X).softmax(1)
    link = (A - S @ S.T).square().sum().sqrt() / len(A) ** 2
    entropy = -(S * S.log()).sum(1).mean() if pool.losses == "both" else 0
    return S, S.T @ X, S.T @ A @ S, link + entropy


def layer(channels, clusters, losses="both"):
    torch.manual_seed(clusters)
    pool = DiffPool(channels, clusters, losses=losses, members=3).double()
    for parameter in pool.parameters():
        torch.nn.init.normal_(parameter)
    return pool


@pytest.mark.usefixtures("max_dense")
@pytest.mark.parametrize("clusters", [1, 2, 5])
def test_equation(fleet, dense, agree, clusters):
    pool = layer(3, clusters)
    x = fleet.features(3)
    pooled = pool(x, fleet.adjacency)
    S, X, A, loss = zip(*(reference(dense, pool, *graph) for graph in fleet.each(x)), strict=True)
    inputs = [x, *pool.parameters()]
    agree(torch.cat(fleet.split(pooled.assignment)), torch.cat(S), inputs)
    agree(torch.cat(fleet.split(pooled.x, pooled.structure)), torch.cat(X), inputs)
    agree(dense_matrix(pooled.structure)[fleet.places], torch.stack(A), inputs)
    agree(pooled.auxiliary[fleet.places], torch.stack(loss), inputs)


@pytest.mark.usefixtures("max_dense")
def test_equation_for_pooled_graphs(fleet, dense, agree):
    pools = [layer(3, 4), layer(3, 2)]
    x = fleet.features(3)
    first = pools[0](x, fleet.adjacency)
    assert first.structure.layout.members == 3
    assert first.structure.layout.sizes.tolist() == [[4] * fleet.adjacency.layout.graphs] * 3
    second = pools[1](first.x, first.structure)
    expected = []
    for m, A, X in fleet.each(x):
        _, X1, A1, _ = reference(dense, pools[0], m, A, X)
        expected.append(reference(dense, pools[1], m, A1, X1))
    _, X, A, loss = zip(*expected, strict=True)
    inputs = [x, *(p for pool in pools for p in pool.parameters())]
    agree(torch.cat(fleet.split(second.x, second.structure)), torch.cat(X), inputs)
    agree(dense_matrix(second.structure)[fleet.places], torch.stack(A), inputs)
    agree(second.auxiliary[fleet.places], torch.stack(loss), inputs)


@pytest.mark.usefixtures("max_dense")
@pytest.mark.parametrize("losses", ["link", "none"])
def test_losses_that_are_left_out(fleet, dense, agree, losses, monkeypatch):
    if losses == "none":
        monkeypatch.setattr(diffpool_layer, "link_loss", lambda *_: pytest.fail("is computed"))
    pools = [layer(3, 4, losses), layer(3, 2, losses)]
    x = fleet.features(3)
    first = pools[0](x, fleet.adjacency)
    second = pools[1](first.x, first.structure)
    expected = []
    for m, A, X in fleet.each(x):
        _, X1, A1, loss = reference(dense, pools[0], m, A, X)
        _, X2, _, later_loss = reference(dense, pools[1], m, A1, X1)
        expected.append((X2, loss + later_loss))
    rows, loss = zip(*expected, strict=True)
    inputs = [x, *(p for pool in pools for p in pool.parameters())]
    agree(torch.cat(fleet.split(second.x, second.structure)), torch.cat(rows), inputs)
    if losses == "link":
        agree((first.auxiliary + second.auxiliary)[fleet.places], torch.stack(loss), inputs)
    else:
        assert first.auxiliary is None
        assert second.auxiliary is None


def low_rank(base, t):
    return LowRankAdjacency(base, t.shape[1], segments_of(base.layout, t), t, GradientChain(t))


def dense_of(base, t):
    return DenseAdjacency.of(base, t, t.shape[1], segments_of(base.layout, t))


@pytest.mark.parametrize("made", [low_rank, dense_of])
@pytest.mark.parametrize("clusters", [1, 4, 9])
def test_pooled_graphs_act_as_an_adjacency(fleet, agree, clusters, made):
    """With more clusters than nodes, and with fewer."""
    rows, graphs = len(fleet.adjacency.layout.graph), fleet.adjacency.layout.sizes.size
    random = torch.Generator().manual_seed(clusters)
    z = torch.randn(rows, clusters, generator=random, dtype=torch.float64, requires_grad=True)
    y = torch.randn(graphs * clusters, 2, generator=random, dtype=torch.float64, requires_grad=True)
    T = z.softmax(1)
    pooled = made(fleet.adjacency, T)
    expected = []
    for (_, A, t), part in zip(fleet.each(T), fleet.split(y, pooled), strict=True):
        coarse = t.T @ A @ t
        loops = coarse + torch.eye(clusters)
        root = torch.diag(loops.sum(1) ** -0.5)
        norms = coarse.trace()[None], coarse.square().sum()[None]
        expected.append((coarse @ part, root @ loops @ root @ part, coarse.sum(1), *norms))
    sums, convolved, degree, trace, norm = map(torch.cat, zip(*expected, strict=True))
    agree(torch.cat(fleet.split(pooled.neighbour_sum(y), pooled)), sums, [y, z])
    agree(torch.cat(fleet.split(pooled.gcn(y), pooled)), convolved, [y, z])
    agree(torch.cat(fleet.split(pooled.degree, pooled)), degree, [z])
    agree(pooled.trace[fleet.places], trace, [z])
    agree(pooled.squared_norm[fleet.places], norm, [z])


@pytest.mark.usefixtures("max_dense")
def test_directed_graphs(directed, dense, agree):
    edge_index, x = directed
    edge_index = edge_index[:, edge_index[0] != edge_index[1]].unique(dim=1)
    adjacency = Adjacency.from_edge_index(edge_index, torch.zeros(len(x), dtype=torch.int64))
    A = torch.zeros(len(x), len(x), dtype=torch.float64)
    A[edge_index[1], edge_index[0]] = 1
    torch.manual_seed(0)
    pools = [DiffPool(3, clusters).double() for clusters in (4, 2)]
    first = pools[0](x, adjacency)
    second = pools[1](first.x, first.structure)
    _, X, A1, loss1 = reference(dense, pools[0], 0, A, x)
    _, X, A2, loss2 = reference(dense, pools[1], 0, A1, X)
    inputs = [x, *(p for pool in pools for p in pool.parameters())]
    agree(second.x, X, inputs)
    agree(dense_matrix(second.structure)[0], A2, inputs)
    agree(first.auxiliary + second.auxiliary, (loss1 + loss2)[None], inputs)


@pytest.mark.usefixtures("max_dense")
@pytest.mark.parametrize("clusters", [1, 3])
@pytest.mark.parametrize("name", ["one node", "no edge", "pair"])
def test_small_graphs_have_finite_gradients(packed, name, clusters):
    single = packed([name])
    x = single.features(3)
    torch.manual_seed(0)
    pools = [DiffPool(3, count).double() for count in (clusters, 1)]
    first = pools[0](x, single.adjacency)
    second = pools[1](first.x, first.structure)
    loss = second.x.sum() + first.auxiliary[0] + second.auxiliary[0]
    inputs = [x, *(p for pool in pools for p in pool.parameters())]
    for grad in (loss[None], *torch.autograd.grad(loss, inputs)):
        assert grad.isfinite().all()


@pytest.mark.usefixtures("max_dense")
def test_the_loss_of_a_single_node_has_a_finite_gradient(packed):
    """‖A - SSᵀ‖ is 1, since A has no loop, and a single cluster has zero entropy."""
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
    with pytest.raises(SagpoolError, match="losses must be one of both, link, none, not 'no'"):
        DiffPool(3, 2, losses="no")
