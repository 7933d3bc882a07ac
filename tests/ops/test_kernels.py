"""The kernels of the operators, in Triton's interpreter if there is no GPU."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, grad

from sagpool.graphs import pack
from sagpool.graphs.batch import pack_on_device
from sagpool.ops import (
    Chosen,
    HostLayout,
    choose_rows,
    dense_relu,
    gather_gated,
    keep_rows,
    linear,
    matmul_with_passthrough,
    pool_rows,
    propagate,
    segment_mean_max,
)
from sagpool.ops.device import kernels_forced, triton_kernels
from sagpool.ops.linear import LEAST_ROWS, add_product, product

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
WIDTHS = pytest.mark.parametrize("width", [1, 3, 32, 130])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype).to(DEVICE)


@WIDTHS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_propagate(width, dtype, same_by_kernels, sparse):
    matrix = sparse(41, 90)
    row_ptr, col = matrix.row_ptr.to(DEVICE), matrix.col.to(DEVICE)
    weight = matrix.weight.to(DEVICE, dtype)
    x = randn(41, width, dtype=dtype)
    same_by_kernels(lambda x: propagate(x, row_ptr, col, weight, symmetric=False), [x])


IDS = np.array([[0, 5, 9, -1], [3, 7, 11, 20]])  # -1: no graph


@WIDTHS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalised_propagate(width, dtype, same_by_kernels, mutag):
    adjacency = pack(mutag, IDS).structure
    x = randn(adjacency.layout.members * adjacency.layout.rows, width, dtype=dtype)
    same_by_kernels(adjacency.gcn, [x])


@pytest.mark.parametrize(
    ("shape", "block", "labelled"),
    [((2, 4), 256, True), ((2, 4), 256, False), ((2, 20), 16, True), ((20, 2), 16, True)],
)
def test_packing_a_batch(shape, block, labelled, by_kernels, mutag, monkeypatch):
    """In one block, and in several blocks of graphs or members."""
    monkeypatch.setattr("sagpool.ops.kernels.pack._BLOCK", block)
    graphs = mutag if labelled else replace(mutag, y=None, class_names=())
    ids = np.arange(shape[0] * shape[1]).reshape(shape) * 7 % len(graphs)
    ids[0, 2:] = -1
    expected = pack(graphs, ids)
    rows, entries = expected.structure.layout.rows, len(expected.structure.col)
    by_kernels()
    # As they are, and with spare entries.
    for more in (0, 1000):
        numbers = torch.tensor(ids, dtype=torch.int32, device=DEVICE)
        batch = pack_on_device(graphs.batch_source, numbers, rows, entries + more)
        assert torch.equal(batch.structure.row_ptr, expected.structure.row_ptr)
        assert torch.equal(batch.structure.col[:entries], expected.structure.col)
        assert (batch.structure.col[entries:] == rows * len(ids) - 1).all()
        assert torch.equal(batch.structure.layout.node_ptr, expected.structure.layout.node_ptr)
        assert torch.equal(batch.structure.layout.graph, expected.structure.layout.graph)
        assert torch.equal(batch.node, expected.node)
        assert torch.equal(batch.real, expected.real)
        assert torch.equal(batch.y, expected.y) if labelled else batch.y is None


def test_packing_the_same_graphs_for_all_members(by_kernels, mutag):
    """Given as an array whose rows are the same memory; a copy of it may lie column by column."""
    same = np.broadcast_to([2, 0, 5], (3, 3))
    expected = pack(mutag, same)
    by_kernels()
    batch = pack(mutag, same)
    assert torch.equal(batch.node, expected.node)
    assert torch.equal(batch.structure.col, expected.structure.col)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("used", ["score", "gate", "both"])
def test_score_and_gate(used, dtype, same_by_kernels, mutag):
    adjacency = pack(mutag, IDS).structure
    x, bias = randn(adjacency.layout.total_rows, 1, dtype=dtype), randn(2, 1, 1, dtype=dtype)

    def scores(x, bias):
        score, gate = adjacency.gcn_score_and_gate(x, bias)
        return {"score": score, "gate": gate, "both": (score, gate)}[used]

    same_by_kernels(scores, [x, bias])


@WIDTHS
@pytest.mark.parametrize(("gated", "masked"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pooling(width, gated, masked, dtype, same_by_kernels, mutag):
    """With equal ranks, several graphs and fillers."""
    adjacency = pack(mutag, IDS).structure
    counts = -(-adjacency.layout.sizes // 2)
    counts[:, -1] = counts[:, :-1].sum(1).max() + 2 - counts[:, :-1].sum(1)
    new = HostLayout(counts, filler=True, device=DEVICE)
    rows = adjacency.layout.members * adjacency.layout.rows
    filler = adjacency.layout.graph % adjacency.layout.graphs == adjacency.layout.graphs - 1
    rank = torch.where(filler, 0, (randn(rows) * 3).round())
    x = torch.where(filler[:, None], 0, randn(rows, width, dtype=dtype))
    gate = randn(rows, dtype=dtype)
    seen = []

    def pooled(x, gate):
        chosen = choose_rows(rank, adjacency.layout, new)
        if masked:
            chosen = Chosen(chosen.marks())
        left = pool_rows(x, gate if gated else None, chosen, adjacency.layout, new)
        row_ptr, col = left.induce(adjacency.row_ptr, adjacency.col)
        entries = int(row_ptr[-1])
        seen.append((chosen.marks(), row_ptr, col[:entries], left.perm.long()))
        assert (col[entries:] == len(left.perm) - 1).all()
        real = torch.arange(len(new.node_ptr) - 1) % new.graphs < new.graphs - 1
        readout = left.readout
        if readout is None:
            readout = segment_mean_max(left.x, new.node_ptr, new.graph)
        return left.x, readout[real.to(DEVICE)], gate.sum()

    same_by_kernels(pooled, [x, gate])
    for one, other in zip(*seen, strict=True):
        assert torch.equal(one, other)


def test_top_rows_of_long_graphs(by_kernels):
    """Longer than the block of a program."""
    old = HostLayout(np.array([[700, 1, 300]]), filler=False, device=DEVICE)
    new = HostLayout(np.array([[431, 1, 300]]), filler=False, device=DEVICE)
    rank = (randn(1001) * 20).round()
    rank[[3, 500]] = torch.tensor([torch.nan, -torch.inf], device=DEVICE)
    expected = choose_rows(rank, old, new).marks()
    by_kernels()
    assert torch.equal(choose_rows(rank, old, new).marks(), expected)


@pytest.mark.parametrize("fan_in", [1, 3, 16, 20, 32, 40, 130])
@pytest.mark.parametrize("fan_out", [2, 16, 32, 65, 128])
@pytest.mark.parametrize("scores", [0, 1, 2, 3])
def test_dense(fan_in, fan_out, scores, same_by_kernels):
    x, weight = randn(3 * 70, fan_in), randn(3, fan_in, fan_out)
    bias, beside = randn(3, 1, fan_out), randn(3, fan_out, scores)

    def both(x, weight, bias, beside):
        h, y = dense_relu(x, weight, bias, beside if scores else None)
        return (h * 1.0, y if scores else h[:, :1] + 0 * beside.sum())

    same_by_kernels(both, [x, weight, bias, beside], rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("fan_in", [1, 3, 8, 9, 33])
def test_dense_without_a_gradient_of_the_input(fan_in, same_by_kernels):
    """As at the first level: with few features, the gradient of the product is not stored."""
    x, inputs = randn(3 * 70, fan_in), [randn(3, fan_in, 20), randn(3, 1, 20), randn(3, 20, 1)]
    same_by_kernels(lambda *weights: dense_relu(x, *weights), inputs, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(("fan_in", "fan_out"), [(32, 32), (128, 48), (37, 128), (48, 288)])
@pytest.mark.parametrize("transposed", [True, False])
def test_products_on_tensor_cores_are_as_exact_as_float32(fan_in, fan_out, transposed):
    x, weight = randn(2, 300, fan_in), randn(2, fan_in, fan_out)
    if transposed:
        weight = weight.transpose(1, 2).contiguous().transpose(1, 2)
    expected = x.double() @ weight.double()
    found, _ = triton_kernels().linear(x, weight)
    assert (found - expected).abs().max() < 3e-6 * expected.abs().max()
    added, _ = triton_kernels().linear(x, weight, out=found.clone(), add=True)
    assert (added - 2 * expected).abs().max() < 6e-6 * expected.abs().max()


@pytest.mark.parametrize("by_kernels", [True, False])
@pytest.mark.parametrize("fan_out", [3, 48])
def test_a_product_is_added_in_place(by_kernels, fan_out):
    x, weight, out = randn(2, 70, 40), randn(2, 40, fan_out), randn(2, 70, fan_out)
    before = out.clone()
    with kernels_forced(by_kernels):
        assert add_product(out, x, weight) is out
        torch.testing.assert_close(out, before + product(x, weight), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fan_out", [32, 288])
@pytest.mark.parametrize("relu", [True, False])
def test_products_of_parts_of_larger_buffers(fan_out, relu):
    """As in Set2Set: one step of several, without the filler graphs."""
    x, weight, bias = randn(2, 3, 70, 48), randn(2, 48, fan_out), randn(2, 1, fan_out)
    out = torch.full((2, 3, 70, fan_out), torch.nan, device=DEVICE)
    triton_kernels().linear(x[:, 1, :65], weight, bias, relu=relu, out=out[:, 2, :65])
    expected = x[:, 1, :65].double() @ weight.double() + bias
    expected = expected.relu() if relu else expected
    assert (out[:, 2, :65] - expected).abs().max() < 3e-6 * expected.abs().max()
    assert out[:, 2, 65:].isnan().all()
    assert out[:, :2].isnan().all()


@pytest.mark.parametrize(
    ("members", "rows"),
    [(1, 0), (1, 31), (2, 3000), (700, 40)],
    ids=["no rows", "few rows", "many rows", "many members"],
)
@pytest.mark.parametrize(("fan_in", "fan_out"), [(16, 16), (40, 130), (64, 33)])
def test_gradients_of_weights_are_as_exact_as_float32(members, rows, fan_in, fan_out):
    """Members are few, so that the rows are divided among programs, or many."""
    x, back = randn(members, rows, fan_in), randn(members, rows, fan_out)
    expected = x.double().transpose(1, 2) @ back.double()
    found = triton_kernels().weight_gradient(x, back)
    assert (found - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("fan_in", "fan_out"), [(16, 16), (40, 3), (130, 48)])
def test_linear(fan_in, fan_out, bias, same_by_kernels):
    rows = 3 * LEAST_ROWS
    inputs = [randn(rows, fan_in), randn(3, fan_in, fan_out), *[randn(3, 1, fan_out)] * bias]
    same_by_kernels(linear, inputs, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(
    "by", [linear, lambda x, weight, bias: matmul_with_passthrough(x, weight)[0]]
)
def test_gradients_of_products_have_gradients(by):
    inputs = randn(2 * LEAST_ROWS, 16), randn(2, 16, 20), randn(2, 1, 20)
    found = []
    for by_kernels in (True, False):
        with kernels_forced(by_kernels):
            x, weight, bias = (t.clone().requires_grad_() for t in inputs)
            first = grad(by(x, weight, bias).square().sum(), (x, weight), create_graph=True)
            found.append(grad(sum(t.square().sum() for t in first), (x, weight)))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * float(b.abs().max()))


def test_linear_in_other_ways_of_differentiating():
    """Under autocast, several gradients at once, and derivatives forwards."""
    x, weight, bias = randn(2 * LEAST_ROWS, 16), randn(2, 16, 20), randn(2, 1, 20)
    found = []
    for by_kernels in (True, False):
        with kernels_forced(by_kernels):
            leaf = weight.clone().requires_grad_()
            with torch.autocast(DEVICE.type, torch.bfloat16):
                mixed = linear(x, leaf, bias)
            (of_mixed,) = grad(mixed.float().sum(), leaf)
            y = linear(x, leaf, bias)
            back = torch.stack([torch.ones_like(y), y.detach()])
            (several,) = grad(y, leaf, back, is_grads_batched=True)
            with forward_ad.dual_level():
                duals = (forward_ad.make_dual(t, torch.ones_like(t)) for t in (x, weight, bias))
                forwards = forward_ad.unpack_dual(linear(*duals)).tangent
            found.append((mixed.detach().float(), of_mixed, several, forwards))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * float(b.abs().max()))


@pytest.mark.parametrize(("fan_in", "fan_out"), [(16, 16), (40, 3), (130, 48), (128, 160)])
def test_matmul_with_passthrough(fan_in, fan_out, same_by_kernels):
    """Both gradients of x are added up, for every kind of product."""

    def both(x, weight):
        y, same = matmul_with_passthrough(x, weight)
        return y, same * 2

    inputs = [randn(3 * LEAST_ROWS, fan_in), randn(3, fan_in, fan_out)]
    same_by_kernels(both, inputs, rtol=1e-4, atol=2e-4)


@WIDTHS
def test_gather_gated(width, same_by_kernels):
    mask = torch.arange(50, device=DEVICE) % 3 > 0
    count = int(mask.sum())
    repeats = torch.ones(count, dtype=torch.int64, device=DEVICE)
    kept = keep_rows(mask, count, repeats, count)
    x, gate = randn(50, width), randn(count)
    same_by_kernels(lambda x, gate: gather_gated(x, kept, gate), [x, gate])


@WIDTHS
def test_readout(width, same_by_kernels):
    sizes = torch.tensor([1, 40, 7, 2, 19], device=DEVICE)
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    graph = torch.repeat_interleave(torch.arange(5, device=DEVICE), sizes)
    x = randn(len(graph), width)
    same_by_kernels(lambda x: segment_mean_max(x, ptr, graph), [x])
    # Rows that are not contiguous.
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
