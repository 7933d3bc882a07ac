"""DiffPool's layer and whole models by kernels, in Triton's interpreter if there is no GPU."""

import os
from functools import partial

import pytest
import torch

from sagpool.graphs import load, pack
from sagpool.graphs.batch import pack_on_device
from sagpool.models import Shape, build
from sagpool.nn import DiffPool, Streams
from sagpool.nn.pool.clusters.low_rank_adjacency import LowRankAdjacency
from sagpool.ops import DeviceLayout
from sagpool.ops.device import kernels_forced, triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)


@pytest.fixture(autouse=True)
def by_kernels(use_kernels):
    use_kernels(True)


def randn(*shape):
    random = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=random).to(DEVICE)


@pytest.fixture(scope="module")
def batch():
    """Two members, one with fewer graphs, and fillers of many rows."""
    with kernels_forced(True):
        return pack(load("MUTAG").to(DEVICE), [[5, 4], [8]], rows=48)


@pytest.fixture(params=[0, 8, 64])
def max_dense(request, monkeypatch):
    """A' is never dense; dense if it is small; dense from the first pooling on."""
    monkeypatch.setattr("sagpool.nn.pool.clusters.diffpool.MAX_DENSE_CLUSTERS", request.param)


# For tests in which not all three values differ in when A' becomes dense.
with_max_dense = partial(pytest.mark.parametrize, indirect=["max_dense"])


@pytest.mark.usefixtures("max_dense")
@with_max_dense(
    ("max_dense", "clusters"),
    [(0, (30, 7)), (8, (30, 7)), (64, (30, 7)), (0, (5, 1)), (64, (5, 1))],
)
def test_two_poolings(clusters, batch, against_double):
    """Kernels in single precision against torch in double precision."""
    adjacency = batch.structure
    torch.manual_seed(0)
    pools = [DiffPool(12, c, members=2).to(DEVICE) for c in clusters]
    exact = [DiffPool(12, c, members=2).to(DEVICE).double() for c in clusters]
    real = batch.real.view(-1)
    x = randn(len(adjacency.layout.graph), 12) * real[adjacency.layout.graph][:, None]

    def pooled(layers, x):
        first = layers[0](x, adjacency)
        propagated = first.structure.gcn(first.x)
        second = layers[1](propagated, first.structure)
        results = (first.x, propagated, second.x)
        by_graph = [x.view(len(real), -1, 12)[real] for x in results]
        return *by_graph, first.auxiliary[real], second.auxiliary[real]

    def with_weights(layers, x, *weights):
        names = [name for name, _ in layers.named_parameters()]
        call = _Call(layers, pooled)
        return torch.func.functional_call(
            call, {f"layers.{n}": w for n, w in zip(names, weights, strict=True)}, (x,)
        )

    pools, exact = torch.nn.ModuleList(pools), torch.nn.ModuleList(exact)
    weights = [p.detach() for p in pools.parameters()]
    against_double(
        lambda *inputs: with_weights(pools, *inputs),
        lambda *inputs: with_weights(exact, *inputs),
        [x, *weights],
    )


@pytest.mark.usefixtures("max_dense")
@with_max_dense("max_dense", [0, 64])
def test_results_may_be_used_in_many_ways(batch, against_double):
    """Several kernels use the assignment, other functions too, or none of them."""
    adjacency, real = batch.structure, batch.real.view(-1)
    torch.manual_seed(0)
    pool = DiffPool(12, 20, members=2).to(DEVICE)
    x = randn(len(adjacency.layout.graph), 12) * real[adjacency.layout.graph][:, None]

    def uses(x):
        pooled = pool.to(x.dtype)(x, adjacency)
        coarse = pooled.structure
        once = coarse.gcn(pooled.x)
        by_graph = [once, coarse.gcn(once), coarse.neighbour_sum(pooled.x), coarse.degree]
        assigned = pooled.assignment * real[adjacency.layout.graph][:, None]
        return *(y.view(len(real), -1)[real] for y in by_graph), assigned, pooled.auxiliary[real]

    for wanted in (slice(None), slice(-1, None), slice(-2, -1), slice(2)):
        some = lambda x, wanted=wanted: uses(x)[wanted]  # noqa: E731
        against_double(some, some, [x], close=5e-5)


@pytest.mark.usefixtures("max_dense")
def test_no_gradient_of_a_user_is_overwritten(batch, against_double):
    """An addition gives one gradient tensor to both terms, so no kernel may write into it."""
    adjacency, real = batch.structure, batch.real.view(-1)
    torch.manual_seed(0)
    pools = torch.nn.ModuleList(DiffPool(12, clusters, members=2) for clusters in (32, 7))
    real_row = real[adjacency.layout.graph][:, None]
    x = randn(len(adjacency.layout.graph), 12) * real_row

    def uses(x, to_x, to_assignment, to_gcn, to_source):
        first_pool, second_pool = pools.to(DEVICE, x.dtype)
        first = first_pool(x, adjacency)
        coarse = first.structure
        pooled_x, assigned = first.x + to_x, first.assignment + to_assignment
        second = second_pool(pooled_x, coarse)
        convolved = coarse.gcn(pooled_x) + to_gcn  # after the next pooling
        low_rank = isinstance(coarse, LowRankAdjacency)
        source = coarse.assignment + to_source if low_rank else to_source
        by_graph = [pooled_x, convolved, second.x, second.structure.gcn(second.x)]
        losses = (first.auxiliary + second.auxiliary)[real]
        rows = (assigned * real_row, source * real_row)
        return *(y.view(len(real), -1)[real] for y in by_graph), *rows, losses

    of_clusters, of_nodes = (len(real) * 32, 12), (len(x), 32)
    terms = [randn(*shape) for shape in (of_clusters, of_nodes) * 2]
    against_double(uses, uses, [x, *terms], close=5e-5)


@pytest.mark.usefixtures("max_dense")
@with_max_dense("max_dense", [0, 64])
def test_a_use_under_no_grad_does_not_affect_later_gradients(batch):
    pool = DiffPool(12, 20, members=2).to(DEVICE)
    found = []
    for before in (False, True):
        x = randn(len(batch.structure.layout.graph), 12).requires_grad_()
        pooled = pool(x, batch.structure)
        if before:
            with torch.no_grad():
                pooled.structure.gcn(pooled.x)
        found.append(torch.autograd.grad(pooled.structure.gcn(pooled.x).square().sum(), x)[0])
    assert found[0].any()
    torch.testing.assert_close(*found)


class _Call(torch.nn.Module):
    def __init__(self, layers, function):
        super().__init__()
        self.layers, self.function = layers, function

    def forward(self, x):
        return self.function(self.layers, x)


@pytest.mark.usefixtures("max_dense")
@with_max_dense(
    ("max_dense", "max_nodes", "hidden", "losses"),
    [
        *((0, 28, 20, "both"), (64, 28, 20, "both"), (64, 28, 12, "link"), (64, 28, 12, "none")),
        *((d, 110, hidden, "both") for d, hidden in ((0, 12), (0, 33), (8, 33), (64, 12))),
    ],
)
def test_a_whole_model(max_nodes, hidden, losses, batch):
    """With fewer clusters than nodes, and with more; with narrow layers, and with wide ones."""
    own = {"losses": losses}
    shape = Shape(7, 2, hidden=hidden, members=2, max_nodes=max_nodes, ratio=0.25, settings=own)
    torch.manual_seed(0)
    model = build("diffpool-h", shape).eval()
    for conv in model.convs:
        torch.nn.init.normal_(conv.linear.bias)  # initialised with zeros; the same on all devices
    model = model.to(DEVICE)

    def step(model):
        model.zero_grad()
        loss = model(batch, Streams(torch.tensor([1, 2], device=DEVICE))).loss_sums(batch)
        loss.sum().backward()
        return loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())

    for one, other in zip(step(model), step(model.double()), strict=True):
        scale = float(other.abs().max()) + 1e-30
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=2e-5 * scale)


@pytest.mark.usefixtures("max_dense")
@with_max_dense(("max_dense", "max_nodes"), [(0, 28), (64, 28), (0, 140), (8, 140), (64, 140)])
def test_nan_stays_in_its_member(max_nodes, batch):
    """Even if a whole tile of clusters is NaN."""
    shape = Shape(7, 2, hidden=8, members=2, max_nodes=max_nodes, ratio=0.25)
    model = build("diffpool-h", shape).to(DEVICE)
    with torch.no_grad():
        model.convs[0].linear.weight[1] = torch.nan
    loss = model(batch, Streams(torch.tensor([1, 2], device=DEVICE))).loss_sums(batch)
    assert loss.isnan().tolist() == [False, True]
    for grad in torch.autograd.grad(loss.sum(), list(model.parameters())):
        assert grad[0].isfinite().all()


@pytest.mark.usefixtures("max_dense")
def test_the_host_need_not_know_graph_sizes(batch, monkeypatch):
    """Otherwise a step could not be recorded as a CUDA graph."""
    ids = torch.tensor([[5, 4], [8, -1]], dtype=torch.int32, device=DEVICE)
    unknown = pack_on_device(batch.source, ids, 48, len(batch.structure.col) + 20)
    monkeypatch.setattr(DeviceLayout, "sizes", property(lambda layout: pytest.fail("asked for")))
    torch.manual_seed(0)
    model = build("diffpool-h", Shape(7, 2, hidden=8, members=2, max_nodes=28)).to(DEVICE)
    streams = Streams(torch.tensor([1, 2], device=DEVICE))
    loss = model(unknown, streams).loss_sums(unknown)
    loss.sum().backward()
    assert loss.isfinite().all()
