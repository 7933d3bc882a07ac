"""The Triton kernels, in Triton's interpreter where there is no GPU."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.fleet import Training
from sagpool.fleet.adam import AdamState, adam_step
from sagpool.fleet.evaluate import loss_sums
from sagpool.fleet.memory import step_bytes
from sagpool.graphs import load, pack
from sagpool.models import Shape, build, methods
from sagpool.nn import Streams
from sagpool.ops import (
    LabelSums,
    Layout,
    choose_rows,
    dense_relu,
    gather_gated,
    keep_rows,
    matmul_with_passthrough,
    pool_rows,
    propagate,
    segment_mean_max,
)
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
WIDTHS = pytest.mark.parametrize("width", [1, 3, 32, 130])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)


@pytest.fixture(autouse=True)
def by_torch(use_kernels):
    """Operators take torch's way, on a GPU too."""
    use_kernels(False)


@pytest.fixture
def by_kernels(use_kernels):
    """From its call on operators take the kernels' way."""
    return lambda: use_kernels(True)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype).to(DEVICE)


def values_and_gradients(compute, inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    results = compute(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    total = 0.0
    for out in results:
        direction = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out)
        total = total + (out * direction).sum()
    return *(out.detach() for out in results), *torch.autograd.grad(total, leaves)


def compare(compute, inputs, switch, **tolerance):
    """Values and gradients, first by torch's operators, then by the kernels."""
    expected = values_and_gradients(compute, inputs)
    switch()
    tolerance = tolerance or {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(values_and_gradients(compute, inputs), expected, **tolerance)


@WIDTHS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_propagate(width, dtype, by_kernels, sparse):
    matrix = sparse(41, 90)
    row_ptr, col = matrix.row_ptr.to(DEVICE), matrix.col.to(DEVICE)
    weight = matrix.weight.to(DEVICE, dtype)
    x = randn(41, width, dtype=dtype)
    compare(lambda x: propagate(x, row_ptr, col, weight, symmetric=False), [x], by_kernels)


@pytest.fixture(scope="module")
def mutag():
    """With features by which no two atoms are alike: ties would be decided by rounding."""
    graphs = load("MUTAG")
    return replace(graphs, node_attr=randn(graphs.num_nodes, 3).cpu()).to(DEVICE)


IDS = np.array([[0, 5, 9, -1], [3, 7, 11, 20]])  # -1: a member that has fewer graphs


@WIDTHS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalised_propagate(width, dtype, by_kernels, mutag):
    adjacency = pack(mutag, IDS).adjacency
    x = randn(adjacency.members * adjacency.rows, width, dtype=dtype)
    compare(adjacency.gcn, [x], by_kernels)


def test_a_batch_is_laid_out(by_kernels, mutag):
    expected = pack(mutag, IDS)
    by_kernels()
    batch = pack(mutag, IDS)
    assert torch.equal(batch.adjacency.row_ptr, expected.adjacency.row_ptr)
    assert torch.equal(batch.adjacency.col, expected.adjacency.col)
    assert torch.equal(batch.adjacency.graph, expected.adjacency.graph)
    assert torch.equal(batch.node, expected.node)
    assert torch.equal(batch.y, expected.y)


@WIDTHS
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pooling(width, gated, dtype, by_kernels, mutag):
    """Rows with equal ranks, several graphs, fillers."""
    adjacency = pack(mutag, IDS).adjacency
    counts = -(-adjacency.sizes // 2)
    counts[:, -1] = counts[:, :-1].sum(1).max() + 2 - counts[:, :-1].sum(1)
    new = Layout(counts, filler=True, place=DEVICE)
    rows = adjacency.members * adjacency.rows
    filler = adjacency.graph % adjacency.graphs == adjacency.graphs - 1
    rank = torch.where(filler, 0, (randn(rows) * 3).round())
    x = torch.where(filler[:, None], 0, randn(rows, width, dtype=dtype))
    gate = randn(rows, dtype=dtype)
    seen = []

    def pooled(x, gate):
        mask = choose_rows(rank, adjacency, new)
        left = pool_rows(
            x, gate if gated else None, mask, adjacency.row_ptr, adjacency.col, adjacency, new
        )
        entries = int(left.row_ptr[-1])
        seen.append((mask, left.row_ptr, left.col[:entries], left.perm.long()))
        assert (left.col[entries:] == len(left.perm) - 1).all()
        real = torch.arange(len(new.node_ptr) - 1) % new.graphs < new.graphs - 1
        readout = left.readout
        if readout is None:
            readout = segment_mean_max(left.x, new.node_ptr, new.graph)
        return left.x, readout[real.to(DEVICE)], gate.sum()

    compare(pooled, [x, gate], by_kernels)
    for one, other in zip(*seen, strict=True):
        assert torch.equal(one, other)


def test_the_top_of_long_graphs(by_kernels):
    """Longer than what a program looks at in one go."""
    old = Layout(np.array([[700, 1, 300]]), filler=False, place=DEVICE)
    new = Layout(np.array([[431, 1, 300]]), filler=False, place=DEVICE)
    rank = (randn(1001) * 20).round()
    rank[[3, 500]] = torch.tensor([torch.nan, -torch.inf], device=DEVICE)
    expected = choose_rows(rank, old, new)
    by_kernels()
    assert torch.equal(choose_rows(rank, old, new), expected)


@pytest.mark.parametrize("fan_in", [1, 3, 40, 130])
@pytest.mark.parametrize("fan_out", [2, 16, 65, 128])
@pytest.mark.parametrize("scored", [True, False])
def test_dense(fan_in, fan_out, scored, by_kernels):
    x, weight = randn(3 * 70, fan_in), randn(3, fan_in, fan_out)
    bias, beside = randn(3, 1, fan_out), randn(3, fan_out, 1)

    def both(x, weight, bias, beside):
        h, y = dense_relu(x, weight, bias, beside if scored else None)
        return (h * 1.0, y if scored else h[:, :1] + 0 * beside.sum())

    compare(both, [x, weight, bias, beside], by_kernels, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("fan_in", [1, 3, 8, 9])
def test_dense_of_what_needs_no_gradient(fan_in, by_kernels):
    """As at the first level: with few features no gradient of the product is made."""
    x, inputs = randn(3 * 70, fan_in), [randn(3, fan_in, 20), randn(3, 1, 20), randn(3, 20, 1)]
    compare(lambda *weights: dense_relu(x, *weights), inputs, by_kernels, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(("fan_in", "fan_out"), [(32, 32), (128, 48), (37, 128)])
@pytest.mark.parametrize("turned", [True, False])
def test_products_on_tensor_cores_are_as_exact_as_in_float32(fan_in, fan_out, turned):
    x, weight = randn(2, 300, fan_in), randn(2, fan_in, fan_out)
    if turned:
        weight = weight.transpose(1, 2).contiguous().transpose(1, 2)
    expected = x.double() @ weight.double()
    found, _ = triton_kernels().linear(x, weight)
    assert (found - expected).abs().max() < 3e-6 * expected.abs().max()
    added, _ = triton_kernels().linear(x, weight, into=found.clone())
    assert (added - 2 * expected).abs().max() < 6e-6 * expected.abs().max()


@pytest.mark.parametrize(("fan_in", "fan_out"), [(16, 16), (40, 3), (130, 48), (128, 160)])
def test_product_beside(fan_in, fan_out, by_kernels):
    """Both gradients of x are added up, whichever way the product is made."""

    def both(x, weight):
        y, same = matmul_with_passthrough(x, weight)
        return y, same * 2

    inputs = [randn(3 * 70, fan_in), randn(3, fan_in, fan_out)]
    compare(both, inputs, by_kernels, rtol=1e-4, atol=2e-4)


@WIDTHS
def test_gather_gated(width, by_kernels):
    mask = torch.arange(50, device=DEVICE) % 3 > 0
    count = int(mask.sum())
    repeats = torch.ones(count, dtype=torch.int64, device=DEVICE)
    kept = keep_rows(mask, count, repeats, count)
    x, gate = randn(50, width), randn(count)
    compare(lambda x, gate: gather_gated(x, kept, gate), [x, gate], by_kernels)


@WIDTHS
def test_readout(width, by_kernels):
    sizes = torch.tensor([1, 40, 7, 2, 19], device=DEVICE)
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    graph = torch.repeat_interleave(torch.arange(5, device=DEVICE), sizes)
    x = randn(len(graph), width)
    compare(lambda x: segment_mean_max(x, ptr, graph), [x], by_kernels)
    # Rows that do not lie side by side in memory.
    wide = randn(len(graph), width + 2)[:, 1:-1]
    expected = torch.stack([part.amax(0) for part in wide.split(sizes.tolist())])
    torch.testing.assert_close(segment_mean_max(wide, ptr, graph)[:, width:], expected)


@WIDTHS
def test_nan_is_not_lost(width, by_kernels):
    x = randn(9, width)
    x[4, 0] = torch.nan
    by_kernels()
    ptr = torch.tensor([0, 3, 9], device=DEVICE)
    out = segment_mean_max(x, ptr, torch.tensor([0] * 3 + [1] * 6, device=DEVICE))
    assert out[0].isfinite().all()
    assert out[1, 0].isnan()
    assert out[1, width].isnan()


def test_a_member_that_diverged_stays_alone(by_kernels, mutag):
    by_kernels()
    batch = pack(mutag, IDS)
    model = build("sagpool-h", Shape(mutag.num_features, 2, hidden=8, members=2)).to(DEVICE)
    streams = Streams(torch.tensor([1, 2], device=DEVICE))
    with torch.no_grad():
        model.convs[0].linear.weight[1] = torch.nan
    loss = loss_sums(model(batch, streams), batch)
    assert loss[0].isfinite()
    assert loss[1].isnan()
    loss.sum().backward()
    for parameter in model.parameters():
        assert parameter.grad[0].isfinite().all()


def test_random_numbers(by_kernels):
    def draw():
        streams = Streams(torch.tensor([5, -7, 2**62], device=DEVICE))
        return streams.uniform(1500), streams.uniform(3, start=2**33)

    expected = draw()
    by_kernels()
    assert all(torch.equal(one, other) for one, other in zip(draw(), expected, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam(dtype, by_kernels):
    def step():
        state = AdamState(
            randn(3, 40, dtype=dtype),
            randn(3, 40, dtype=dtype) / 9,
            randn(3, 40, dtype=dtype).square(),
            torch.tensor([0, 7, 5], device=DEVICE),
        )
        rates = torch.tensor([0.1, 0.01, 0.1], dtype=torch.float64, device=DEVICE)
        active = torch.tensor([True, True, False], device=DEVICE)
        for _ in range(3):
            adam_step(state, randn(3, 40, dtype=dtype), rates, rates / 5, active)
        return state

    expected = step()
    by_kernels()
    torch.testing.assert_close(step(), expected, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def labelled():
    """Many labels, by which no two atoms of a molecule are alike; some have none."""
    graphs = load("MUTAG")
    label = torch.arange(graphs.num_nodes, dtype=torch.int32) % 40
    label[:: 7 * 40] = -1
    names = tuple(map(str, range(40)))
    return replace(graphs, node_label=label, node_label_names=names).to(DEVICE)


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("columns", [3, 16, 130])
def test_one_hot_rows_are_not_made_on_the_way_there(columns, scored, by_kernels, labelled):
    shapes = [(2, 40, columns), (2, 1, columns), *([(2, columns, 1)] if scored else [])]
    kinds = []

    def layer(*weights):
        propagated = pack(labelled, IDS).propagated(torch.float32)
        kinds.append(type(propagated))
        h, y = dense_relu(propagated, *weights)
        return (h, y) if scored else h

    inputs = [randn(*shape) for shape in shapes]
    compare(layer, inputs, by_kernels, rtol=1e-4, atol=2e-4)
    assert kinds == [torch.Tensor, LabelSums]


def test_room_for_one_hot_rows_on_the_way_back(by_kernels, labelled):
    training = Training("nopool-g", hidden=4, batch_size=64)
    expected = step_bytes(labelled, training, torch.float32)
    by_kernels()
    assert step_bytes(labelled, training, torch.float32) > 0.7 * expected


@pytest.mark.parametrize("method", ["sagpool-h", "sortpool-g", "diffpool-h"])
def test_a_training_step_with_many_labels(method, by_kernels, labelled):
    test_a_training_step(method, by_kernels, labelled)


@pytest.mark.parametrize("method", methods())
def test_a_training_step(method, by_kernels, mutag):
    """Loss and gradients of two members."""
    batch = pack(mutag, IDS)
    shape = Shape(mutag.num_features, 2, hidden=16, members=2, k=10, max_nodes=28)
    torch.manual_seed(0)
    model = build(method, shape).to(DEVICE).train()

    def step():
        streams = Streams(torch.tensor([1, 2], device=DEVICE))
        loss = loss_sums(model(pack(mutag, IDS), streams), batch)
        return loss, *torch.autograd.grad(loss.sum(), list(model.parameters()))

    expected = step()
    by_kernels()
    torch.testing.assert_close(step(), expected, rtol=1e-3, atol=1e-4)
