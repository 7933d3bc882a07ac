"""The kernels of DiffPool, in Triton's interpreter where there is no GPU."""

import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

from sagpool.fleet.evaluate import loss_sums
from sagpool.graphs import load, pack
from sagpool.graphs.batch import pack_on_device
from sagpool.models import Shape, build
from sagpool.nn import DiffPool, Streams
from sagpool.ops import (
    Blocks,
    DeviceLayout,
    Layout,
    congruence,
    segment_apply,
    segment_matmul,
    soft_assignment,
)
from sagpool.ops.aligned import aligned
from sagpool.ops.assignment import mean_of_graphs
from sagpool.ops.blocks import Spans
from sagpool.ops.coarsen import coarsen
from sagpool.ops.device import triton_kernels

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)

# Graphs of one row, of about a tile, and of several; the last of each member is a filler.
SIZES = np.array([[1, 33, 70, 5, 9], [40, 2, 31, 32, 13]])
WIDTHS = pytest.mark.parametrize(("m", "n"), [(1, 1), (10, 3), (39, 70), (70, 16), (130, 20)])
FILLERS = pytest.mark.parametrize("filler", [True, False])


@pytest.fixture(autouse=True)
def by_kernels(monkeypatch):
    for name, module in list(sys.modules.items()):
        if name.startswith("sagpool.") and hasattr(module, "kernels_for"):
            monkeypatch.setattr(module, "kernels_for", lambda tensor: triton_kernels())


def randn(*shape):
    random = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=random).to(DEVICE)


def spans_and_blocks(filler):
    """The same graphs for the kernels, and for torch in double precision."""
    taken = SIZES.copy()
    if filler:
        taken[:, -1] = 1
    starts = np.cumsum(SIZES) - SIZES.ravel()
    spans = Spans.of(Layout(SIZES.copy(), filler=filler, place=DEVICE))
    rows = torch.empty(SIZES.sum(), 1, device=DEVICE)
    return spans, Blocks.of(rows, starts, taken.ravel())


def widened(share):
    """With columns of zeros, as the kernels like it."""
    return pad(share, (0, aligned(share.shape[1]) - share.shape[1]))


def joined(size):
    """A symmetric matrix for the rows of all graphs, which joins nobody to another graph."""
    graph = np.repeat(np.arange(SIZES.size), SIZES.ravel())
    matrix = torch.from_numpy(graph[:, None] == graph).to(DEVICE) * randn(size, size)
    return matrix + matrix.T


def values_and_gradients(compute, inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    results = compute(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    total = 0.0
    for out in results:
        direction = torch.linspace(-1, 1, out.numel(), device=DEVICE).view_as(out).to(out)
        total = total + (out * direction).sum()
    return *(out.detach() for out in results), *torch.autograd.grad(total, leaves)


def compare(found, expected, inputs, close=3e-6):
    """Values and gradients: the kernels' against torch's in double precision."""
    exact = values_and_gradients(expected, [x.double() for x in inputs])
    for one, other in zip(values_and_gradients(found, inputs), exact, strict=True):
        scale = float(other.abs().max()) + 1e-30
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=close * scale)


@WIDTHS
@FILLERS
def test_products(m, n, filler):
    spans, blocks = spans_and_blocks(filler)
    a, b, x = randn(spans.rows, m), randn(spans.rows, n), randn(spans.graphs, m, n)
    compare(
        lambda a, b: segment_matmul(a, b, spans),
        lambda a, b: segment_matmul(a, b, blocks),
        [a, b],
    )
    compare(
        lambda a, x: segment_apply(a, x, spans),
        lambda a, x: segment_apply(a, x, blocks),
        [a, x],
    )


@WIDTHS
@FILLERS
def test_readout_of_what_is_not_in_memory(m, n, filler):
    spans, blocks = spans_and_blocks(filler)
    logits, x, product = randn(spans.rows, m), randn(spans.rows, n), randn(spans.rows, n + 2)

    def by_kernels(logits, x, product):
        made = coarsen(widened(logits.softmax(1)), m, x, spans, product)
        return made.readout, made.x, made.gram_norm

    def by_torch(logits, x, product):
        share = logits.softmax(1)
        pooled = segment_matmul(share, x, blocks)
        readout = torch.cat([pooled.mean(1), pooled.amax(1)], 1)
        gram_norm = congruence(share, blocks).squared_norm
        return readout, segment_matmul(share, product, blocks), gram_norm

    compare(by_kernels, by_torch, [logits, x, product])


@pytest.mark.parametrize("columns", [1, 10, 39, 70])
@pytest.mark.parametrize("identity", [True, False])
@FILLERS
def test_trace_and_norm(columns, identity, filler):
    """Of graphs that have more, and fewer, rows than there are columns."""
    spans, blocks = spans_and_blocks(filler)
    t, A = randn(spans.rows, columns), joined(spans.rows)
    if filler:  # a row that does not count must not be reached by one that does
        alone = torch.zeros_like(A[0], dtype=torch.bool)
        for end in SIZES.sum(1).cumsum():
            alone[end - SIZES[0, -1] : end] = True
        A[alone] = 0
        A[:, alone] = 0
    multiply = None if identity else (lambda x: A.to(x) @ x)
    compare(
        lambda t: tuple(congruence(t, spans, multiply)),
        lambda t: tuple(congruence(t, blocks, multiply)),
        [t],
    )


@pytest.mark.parametrize("columns", [1, 5, 70, 130])
@pytest.mark.parametrize("biased", [True, False])
def test_assignment(columns, biased):
    def found(logits, bias):
        share, entropy = soft_assignment(logits, bias if biased else None)
        return share, entropy + 0 * bias.sum()

    def found_in_more_columns(logits, bias):
        share, entropy = soft_assignment(pad(logits, (0, 3), value=7.0), bias)
        assert (share[:, columns:] == 0).all()
        return share[:, :columns], entropy

    def expected(logits, bias):
        share = (logits.view(3, -1, columns) + (bias if biased else 0)).softmax(2).flatten(0, 1)
        return share, -(share * share.log()).sum(1) + 0 * bias.sum()

    inputs = [randn(3 * 37, columns), randn(3, 1, columns)]
    compare(found, expected, inputs)
    if biased:
        compare(found_in_more_columns, expected, inputs)


@FILLERS
def test_means(filler):
    spans, _ = spans_and_blocks(filler)

    def expected(x):
        parts = list(x.split(SIZES.ravel().tolist()))
        if filler:
            parts[4], parts[9] = parts[4][:1], parts[9][:1]
        return torch.stack([part.mean() for part in parts])

    compare(lambda x: mean_of_graphs(x, spans), expected, [randn(spans.rows)])


def test_a_row_that_is_certain_has_no_entropy_and_a_finite_gradient():
    z = torch.tensor([[1e4, 0, -1e4]], device=DEVICE, requires_grad=True)
    share, entropy = soft_assignment(z)
    assert share.tolist() == [[1, 0, 0]]
    assert entropy.item() == 0
    assert torch.autograd.grad(entropy.sum() + share[0, 0], z)[0].tolist() == [[0, 0, 0]]


def test_a_nan_stays_in_its_graph():
    spans, _ = spans_and_blocks(filler=True)
    ends = np.cumsum(SIZES)
    broken = slice(int(ends[1]), int(ends[2]))
    others = torch.ones(spans.rows, dtype=torch.bool, device=DEVICE)
    others[broken] = False
    a, b = randn(spans.rows, 20).requires_grad_(), randn(spans.rows, 17).requires_grad_()
    with torch.no_grad():
        a[broken], b[broken] = torch.nan, torch.nan
    products = segment_matmul(a, b, spans)
    norms = congruence(a, spans).squared_norm
    for results in (products.flatten(1), norms[:, None], segment_apply(a, products, spans)):
        if len(results) == spans.graphs:
            assert results.isnan().any(1).tolist() == [graph == 2 for graph in range(10)]
        else:
            assert not results[others].isnan().any()
            assert results[~others].isnan().all()
    total = products.square().sum() + norms.sum()
    for grad in torch.autograd.grad(total, [a, b]):
        assert not grad[others].isnan().any()


@pytest.fixture(scope="module")
def batch():
    """Two members, one with a graph less, and fillers of many rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sagpool.graphs.batch.kernels_for", lambda tensor: triton_kernels())
        return pack(load("MUTAG").to(DEVICE), [[0, 5, 9], [3, 7]], rows=90)


@pytest.fixture(params=[0, 8, 64])
def most_formed(request, monkeypatch):
    """Whether pooled graphs are matrices: never, if they are small, from the first pooling on."""
    monkeypatch.setattr("sagpool.nn.diff_pool.MOST_FORMED", request.param)


@pytest.mark.usefixtures("most_formed")
@pytest.mark.parametrize("clusters", [(30, 7), (5, 1)])
def test_two_poolings(clusters, batch):
    """Kernels in single precision against torch in double; which takes no kernels."""
    adjacency = batch.adjacency
    torch.manual_seed(0)
    pools = [DiffPool(12, c, members=2).to(DEVICE) for c in clusters]
    exact = [DiffPool(12, c, members=2).to(DEVICE).double() for c in clusters]
    real = batch.real.view(-1)
    x = randn(len(adjacency.graph), 12) * real[adjacency.graph][:, None]

    def pooled(layers, x):
        first = layers[0](x, adjacency)
        propagated = first.adjacency.gcn(first.x)
        second = layers[1](propagated, first.adjacency)
        results = (first.x, propagated, second.x)
        by_graph = [x.view(8, -1, 12)[real] for x in results]
        return *by_graph, first.auxiliary[real], second.auxiliary[real]

    def with_weights(layers, x, *weights):
        names = [name for name, _ in layers.named_parameters()]
        call = _Call(layers, pooled)
        return torch.func.functional_call(
            call, {f"layers.{n}": w for n, w in zip(names, weights, strict=True)}, (x,)
        )

    pools, exact = torch.nn.ModuleList(pools), torch.nn.ModuleList(exact)
    weights = [p.detach() for p in pools.parameters()]
    compare(
        lambda *inputs: with_weights(pools, *inputs),
        lambda *inputs: with_weights(exact, *inputs),
        [x, *weights],
    )


@pytest.mark.usefixtures("most_formed")
def test_shares_may_be_used_in_many_ways(batch):
    """What they are handed on to, others beside it, and nothing at all."""
    adjacency, real = batch.adjacency, batch.real.view(-1)
    torch.manual_seed(0)
    pool = DiffPool(12, 20, members=2).to(DEVICE)
    x = randn(len(adjacency.graph), 12) * real[adjacency.graph][:, None]

    def uses(x):
        pooled = pool.to(x.dtype)(x, adjacency)
        coarse = pooled.adjacency
        once = coarse.gcn(pooled.x)
        by_graph = [once, coarse.gcn(once), coarse.neighbour_sum(pooled.x), coarse.degree]
        assigned = pooled.assignment * real[adjacency.graph][:, None]
        return *(y.view(8, -1)[real] for y in by_graph), assigned, pooled.auxiliary[real]

    for wanted in (slice(None), slice(-1, None), slice(-2, -1), slice(2)):
        some = lambda x, wanted=wanted: uses(x)[wanted]  # noqa: E731
        compare(some, some, [x], close=5e-5)


@pytest.mark.usefixtures("most_formed")
def test_a_use_without_gradients_takes_none_from_later_ones(batch):
    pool = DiffPool(12, 20, members=2).to(DEVICE)
    found = []
    for before in (False, True):
        x = randn(len(batch.adjacency.graph), 12).requires_grad_()
        pooled = pool(x, batch.adjacency)
        if before:
            with torch.no_grad():
                pooled.adjacency.gcn(pooled.x)
        found.append(torch.autograd.grad(pooled.adjacency.gcn(pooled.x).square().sum(), x)[0])
    assert found[0].any()
    torch.testing.assert_close(*found)


class _Call(torch.nn.Module):
    def __init__(self, layers, function):
        super().__init__()
        self.layers, self.function = layers, function

    def forward(self, x):
        return self.function(self.layers, x)


@pytest.mark.usefixtures("most_formed")
@pytest.mark.parametrize(("max_nodes", "hidden"), [(28, 12), (28, 20), (110, 12), (110, 33)])
def test_a_whole_model(max_nodes, hidden, batch):
    """Fewer clusters than nodes, and more; layers that are narrow, and not."""
    shape = Shape(7, 2, hidden=hidden, members=2, max_nodes=max_nodes, ratio=0.25)
    torch.manual_seed(0)
    model = build("diffpool-h", shape).to(DEVICE).eval()
    for conv in model.convs:
        torch.nn.init.normal_(conv.linear.bias)  # they begin with zeros

    def step(model):
        model.zero_grad()
        loss = loss_sums(model(batch, Streams(torch.tensor([1, 2], device=DEVICE))), batch)
        loss.sum().backward()
        return loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())

    for one, other in zip(step(model), step(model.double()), strict=True):
        scale = float(other.abs().max()) + 1e-30
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=2e-5 * scale)


@pytest.mark.usefixtures("most_formed")
@pytest.mark.parametrize("max_nodes", [28, 140])
def test_a_member_that_diverged_stays_alone(max_nodes, batch):
    """Even if a whole tile of clusters is lost."""
    shape = Shape(7, 2, hidden=8, members=2, max_nodes=max_nodes, ratio=0.25)
    model = build("diffpool-h", shape).to(DEVICE)
    with torch.no_grad():
        model.convs[0].linear.weight[1] = torch.nan
    loss = loss_sums(model(batch, Streams(torch.tensor([1, 2], device=DEVICE))), batch)
    assert loss.isnan().tolist() == [False, True]
    for grad in torch.autograd.grad(loss.sum(), list(model.parameters())):
        assert grad[0].isfinite().all()


@pytest.mark.usefixtures("most_formed")
def test_the_host_need_not_know_how_large_graphs_are(batch, monkeypatch):
    """So that a step can be recorded."""
    ids = torch.tensor([[0, 5, 9], [3, 7, -1]], dtype=torch.int32, device=DEVICE)
    unknown = pack_on_device(batch.stock, ids, 90, len(batch.adjacency.col) + 20)
    monkeypatch.setattr(DeviceLayout, "sizes", property(lambda layout: pytest.fail("asked for")))
    torch.manual_seed(0)
    model = build("diffpool-h", Shape(7, 2, hidden=8, members=2, max_nodes=28)).to(DEVICE)
    streams = Streams(torch.tensor([1, 2], device=DEVICE))
    loss = loss_sums(model(unknown, streams), unknown)
    loss.sum().backward()
    assert loss.isfinite().all()
