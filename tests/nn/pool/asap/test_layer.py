"""ASAPool against dense matrices in float64."""

import copy
import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from sagpool.graphs import pack
from sagpool.nn import ASAPool
from sagpool.nn.pool.asap.block_max import block_max
from sagpool.nn.pool.asap.ego import RowClusters
from sagpool.nn.pool.asap.weighted_graphs import BlockAdjacency, RowAdjacency, WeightedGraphs
from sagpool.ops import DeviceLayout
from sagpool.ops.device import triton_kernels
from sagpool.testing import random_graphs

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
CHANNELS, SIZES = 4, [7, 1, 12, 3, 11]
SEED = 6  # of graphs of these sizes in which hardly any nodes look the same
LARGE_SEED = 0  # of large graphs that have edges


def dense_asap(layer: ASAPool, member: int, x: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """X' and A' of one graph, by the paper's equations."""
    of = {name: value[member] for name, value in layer.named_parameters()}
    nodes = len(a)
    looped = a + torch.eye(nodes, dtype=a.dtype)
    scale = looped.sum(1).rsqrt()
    refined = scale[:, None] * looped * scale @ x @ of["refine.linear.weight"]
    alpha = torch.zeros(nodes, nodes, dtype=a.dtype)
    for i in range(nodes):
        cluster = looped[i].nonzero().view(-1)
        query = refined[cluster].amax(0) @ of["query.weight"]
        key = refined[cluster] @ of["key.weight"] + of["key.bias"]
        alpha[i, cluster] = leaky_relu(query + key, 0.2).view(-1).softmax(0)
    clusters = alpha @ x
    one, two, three = of["fitness.weight"].T
    raw = torch.stack(
        [
            clusters[i] @ one
            + sum(a[i, j] * (clusters[i] @ two - clusters[j] @ three) for j in range(nodes))
            for i in range(nodes)
        ]
    )
    first = raw.float().sort(descending=True, stable=True).indices  # ties go to the lower node
    kept = first[: math.ceil(layer.selection.ratio * nodes)].sort().values
    s = alpha.T[:, kept]
    coarse = s.T @ looped @ s
    return (clusters * raw.sigmoid()[:, None])[kept], coarse - coarse.diag().diag()


def matrices(structure, graphs: int, dtype=torch.float64) -> list[Tensor]:
    """A of each graph, by what it does to unit vectors."""
    layout = structure.layout
    unit = torch.eye(layout.total_rows, dtype=dtype, device=layout.device)
    whole, ptr = structure.neighbour_sum(unit), layout.node_ptr
    return [whole[ptr[g] : ptr[g + 1], ptr[g] : ptr[g + 1]] for g in range(graphs)]


@pytest.fixture
def with_kernels(use_kernels):
    if triton_kernels() is None:
        pytest.skip("there is no Triton here")
    use_kernels(True)


@pytest.fixture(params=["blocks", "kernels"])
def form(request):
    """The dtype, the form of pooled graphs, and the device."""
    if request.param == "blocks":
        return torch.float64, BlockAdjacency, torch.device("cpu")
    request.getfixturevalue("with_kernels")
    return torch.float32, RowAdjacency, DEVICE


@pytest.mark.parametrize("ratio", [0.5, 1.0])
@pytest.mark.parametrize("sizes", [SIZES, [70, 1, 33, 6, 17]], ids=["small", "several tiles"])
def test_two_levels_of_two_members_and_their_gradients(form, sizes, ratio):
    dtype, kind, device = form
    torch.manual_seed(0)
    layer = ASAPool(CHANNELS, ratio, members=2)
    dense_layer = copy.deepcopy(layer).double()
    layer = layer.to(device, dtype)
    graphs = random_graphs(SEED if sizes == SIZES else LARGE_SEED, sizes).to(device)
    assert graphs.edge_counts.max() == graphs.edge_counts[np.argmax(sizes)] > 0
    batch = pack(graphs, [[0, 1, 2, 3, 4], [4, 2, -1, -1, -1]])
    structure, number = batch.structure, len(sizes) + 1
    dense_x = torch.randn(structure.layout.total_rows, CHANNELS).double().requires_grad_()
    x = dense_x.detach().to(device, dtype).requires_grad_()
    first = layer(x, structure)
    second = layer(first.x, first.structure)
    assert isinstance(first.structure, kind)
    assert isinstance(second.structure, kind)
    ptr = structure.layout.node_ptr
    a = [one.cpu().double() for one in matrices(structure, 2 * number, dtype)]
    expected, loss = dense_x.new_zeros(()), x.new_zeros(())
    for graph in [*range(5), 6, 7]:
        rows, coarse = dense_x[ptr[graph] : ptr[graph + 1]], a[graph]
        for level in (first, second):
            rows, coarse = dense_asap(dense_layer, graph // number, rows, coarse)
            left = level.structure.layout.node_ptr
            found = level.x[left[graph] : left[graph + 1]]
            torch.testing.assert_close(found, rows.to(found))
            matrix = matrices(level.structure, graph + 1, dtype)[graph]
            torch.testing.assert_close(matrix, coarse.to(found))
        weights = torch.randn_like(rows)
        expected = expected + (rows * weights).sum() + coarse.square().sum()
        loss = loss + (found * weights.to(found)).sum() + matrix.square().sum()
    inputs = [x, *layer.parameters()]
    dense = torch.autograd.grad(expected, [dense_x, *dense_layer.parameters()])
    bounds = {}
    if dtype == torch.float32 and ratio == 1:
        # Some gradients are small or vanishing sums of numbers as large as the other gradients.
        largest = max(float(grad.abs().max()) for grad in dense)
        bounds = {"rtol": 2e-5, "atol": 2e-5 * largest}
    for grad, other in zip(torch.autograd.grad(loss, inputs), dense, strict=True):
        torch.testing.assert_close(grad, other.to(grad), **bounds)


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_columns_in_several_parts_and_spare_entries(with_kernels, monkeypatch, ratio):
    for module in ("rows", "sparse_coarsen"):
        monkeypatch.setattr(f"sagpool.nn.pool.asap.kernels.{module}.WIDTH", 16)
    several = random_graphs(LARGE_SEED, [40, 1, 19])
    assert several.edge_counts[0] > 0
    graphs = pack(several.to(DEVICE), [[0, 1, 2], [2, -1, -1]]).structure.csr()
    spare = torch.cat([graphs.col, graphs.col.new_full((5,), 3)])
    torch.manual_seed(0)
    layer = ASAPool(CHANNELS, ratio, members=2)
    x = torch.randn(graphs.layout.total_rows, CHANNELS)
    found = []
    for dtype, structure in ((torch.float64, graphs), (torch.float32, replace(graphs, col=spare))):
        # Only float32 has kernels.
        start = x.to(DEVICE, dtype).requires_grad_()
        one = layer.to(DEVICE, dtype)
        first = one(start, structure)
        second = one(first.x, first.structure)
        y = second.structure.gcn(second.x)[second.structure.layout.graph % 4 != 3]
        found.append([y, torch.autograd.grad(y.square().sum(), start)[0]])
    for expected, other in zip(*found, strict=True):
        torch.testing.assert_close(other, expected.to(other), rtol=1e-4, atol=1e-5)


def test_kernels_read_no_garbage_and_ask_for_no_size(with_kernels, monkeypatch):
    """What lies beyond the columns of a graph is undefined."""
    graphs = random_graphs(SEED, SIZES).to(DEVICE)
    batch = pack(graphs, [[0, 1, 2, 3, 4], [4, 2, -1, -1, -1]])
    monkeypatch.setattr(DeviceLayout, "sizes", property(lambda layout: pytest.fail("asked for")))
    torch.manual_seed(0)
    layer = ASAPool(CHANNELS, members=2).to(DEVICE)
    rows = batch.structure.layout.total_rows
    x = torch.randn(rows, CHANNELS, device=DEVICE, requires_grad=True)

    def run() -> list[Tensor]:
        first = layer(x, batch.structure)
        second = layer(first.x, first.structure)
        y = second.structure.gcn(second.x)
        real = second.structure.layout.graph % (len(SIZES) + 1) != len(SIZES)
        loss = torch.where(real[:, None], y, 0).square().sum()
        return [y[real], *torch.autograd.grad(loss, [x, *layer.parameters()])]

    clean = run()
    empty, empty_like = torch.Tensor.new_empty, torch.empty_like

    def with_nan(tensor: Tensor) -> Tensor:
        return tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(
        torch.Tensor, "new_empty", lambda self, *size, **more: with_nan(empty(self, *size, **more))
    )
    monkeypatch.setattr(
        torch, "empty_like", lambda *args, **more: with_nan(empty_like(*args, **more))
    )
    for found, expected in zip(run(), clean, strict=True):
        torch.testing.assert_close(found, expected)


def test_a_maximum_by_kernels_passes_nan_on(with_kernels):
    batch = pack(random_graphs(SEED, [5]).to(DEVICE), [[0]])
    x = torch.randn(batch.structure.layout.total_rows, CHANNELS, device=DEVICE)
    left = ASAPool(CHANNELS, ratio=1.0).to(DEVICE)(x, batch.structure)
    x = torch.zeros(left.structure.layout.total_rows, 3, device=DEVICE)
    x[2, 1] = torch.nan
    found = RowClusters(left.structure).maximum(x)
    joined = left.structure.weight[:5, 2] > 0
    joined[2] = True
    assert torch.equal(found[:5, 1].isnan(), joined)
    assert not found[:, [0, 2]].isnan().any()


def test_weighted_edges_are_normalised_by_their_weighted_degrees():
    batch = pack(random_graphs(1, SIZES), [[*range(5)]])
    torch.manual_seed(1)
    single = ASAPool(CHANNELS).double()
    x = torch.randn(batch.structure.layout.total_rows, CHANNELS, dtype=torch.float64)
    left = single(x, batch.structure)
    ptr = left.structure.layout.node_ptr
    for graph, a in enumerate(matrices(left.structure, len(SIZES))):
        looped = a + torch.eye(len(a), dtype=a.dtype)
        scale = looped.sum(1).rsqrt()
        rows = slice(ptr[graph], ptr[graph + 1])
        expected = scale[:, None] * looped * scale @ left.x[rows]
        torch.testing.assert_close(left.structure.gcn(left.x)[rows], expected)
        torch.testing.assert_close(left.structure.degree[rows], a.sum(1))
        mean = a @ left.x[rows] / a.sum(1, keepdim=True).clamp(min=1e-9)
        torch.testing.assert_close(left.structure.neighbour_mean(left.x)[rows], mean)


def test_the_normalised_sum_by_one_kernel(with_kernels):
    several = random_graphs(LARGE_SEED, [90, 1, 19])  # several tiles, even of pooled graphs
    assert several.edge_counts[0] > 0
    batch = pack(several.to(DEVICE), [[0, 1, 2], [2, -1, -1]])
    torch.manual_seed(2)
    layer = ASAPool(CHANNELS, ratio=0.8, members=2).to(DEVICE)
    start = torch.randn(
        batch.structure.layout.total_rows, CHANNELS, device=DEVICE, requires_grad=True
    )
    found = []
    for kind in (WeightedGraphs, RowAdjacency):
        graphs = layer(start, batch.structure).structure
        torch.manual_seed(3)
        x = torch.randn(graphs.layout.total_rows, 70, device=DEVICE, requires_grad=True)
        y = kind.gcn(graphs, x)
        real = (graphs.layout.graph % 4 != 3)[:, None]
        loss = (torch.where(real, y, 0) * torch.randn_like(y)).sum()
        found.append([torch.where(real, y, 0), *torch.autograd.grad(loss, [x, start])])
    for expected, other in zip(*found, strict=True):
        torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-5)


def test_a_maximum_over_pairs_or_in_several_steps_is_the_same(monkeypatch):
    torch.manual_seed(0)
    x = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    joined = (torch.rand(2, 9, 9) < 0.3) | torch.eye(9, dtype=torch.bool)
    whole = block_max(x, joined)
    expected = torch.where(joined[..., None], x[:, None], -torch.inf).amax(2)
    torch.testing.assert_close(whole, expected)
    monkeypatch.setattr("sagpool.nn.pool.asap.block_max.on_cpu", lambda tensor: False)
    assert torch.equal(block_max(x, joined), whole)
    monkeypatch.setattr("sagpool.nn.pool.asap.block_max.MOST_NUMBERS", 100)
    assert torch.equal(block_max(x, joined), whole)
    assert torch.autograd.gradcheck(lambda rows: block_max(rows, joined), x)
