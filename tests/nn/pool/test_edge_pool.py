"""EdgePool against dense matrices in float64."""

import os
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call

from sagpool.graphs import Adjacency, pack
from sagpool.nn import EdgePool
from sagpool.ops.device import kernels_forced
from sagpool.ops.matching import _order_of_ties
from sagpool.testing import random_graphs

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
CHANNELS, SIZES = 4, [8, 1, 11, 5]
REAL = [0, 1, 2, 3, 5, 6]  # graphs of the batch that are no padding


def dense_edge_pool(
    w: Tensor, x: Tensor, a: Tensor, number: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The new rows, the old nodes whose rows they are in, and A' of one graph.

    An end of a path has one neighbour, with the score 1.5, so there are ties.
    """
    nodes = len(a)
    score = {}
    for i in range(nodes):  # s_ij of the edges from j to i
        sources = a[i].nonzero().view(-1)
        if len(sources):
            shares = (x[sources] @ w).view(-1).softmax(0) + 0.5
            score.update({(i, int(j)): s for j, s in zip(sources, shares, strict=True)})
    free, merged = set(range(nodes)), []

    def order(edge: tuple[int, int]) -> tuple[float, int]:
        low, high = number[list(edge)].sort().values
        return -score[edge].item(), int(_order_of_ties(low, high))

    for i, j in sorted(score, key=order):
        if i in free and j in free:
            free -= {i, j}
            merged.append((min(i, j), [i, j], score[i, j]))
    merged += [(i, [i], torch.ones((), dtype=x.dtype)) for i in free]
    merged.sort(key=lambda item: item[0])
    rows = torch.stack([s * x[parts].sum(0) for _, parts, s in merged])
    s = torch.zeros(nodes, len(merged), dtype=x.dtype)
    for number, (_, parts, _) in enumerate(merged):
        s[parts, number] = 1
    coarse = ((s.T @ a @ s) > 0).double().fill_diagonal_(0)
    return rows, torch.tensor([first for first, *_ in merged]), coarse


def test_two_levels_and_their_gradients():
    torch.manual_seed(0)
    layer = EdgePool(CHANNELS, members=2).double()
    structure = pack(random_graphs(6, SIZES), [[0, 1, 2, 3], [2, 0, -1, -1]]).structure
    layout = structure.layout
    x = torch.rand(layout.total_rows, CHANNELS, dtype=torch.float64, requires_grad=True)
    first = layer(x, structure)
    second = layer(first.x, first.structure)
    weights, expected = torch.randn_like(x), x.new_zeros(())
    unit = torch.eye(len(x), dtype=torch.float64)
    edges = [graphs.structure.neighbour_sum(unit) for graphs in (first, second)]
    before = structure.neighbour_sum(unit)
    gone = torch.isin(layout.graph, torch.tensor(REAL))
    real = gone.clone()
    for graph in REAL:
        start, end = layout.node_ptr[graph], layout.node_ptr[graph + 1]
        at, rows, a = torch.arange(start, end), x[start:end], before[start:end, start:end]
        for pooled, found in zip((first, second), edges, strict=True):
            rows, left, a = dense_edge_pool(layer.score.weight[graph // 5], rows, a, at - start)
            at = at[left]
            torch.testing.assert_close(pooled.x[at], rows)
            torch.testing.assert_close(found[at][:, at], a)
            assert pooled.presence[start:end].sum() == len(at)
            assert (pooled.presence[at] == 1).all()
        gone[at] = False
        expected = expected + (rows * weights[at]).sum()
    assert (second.x[gone] == 0).all()
    loss = (second.x * weights)[real & ~gone].sum()
    inputs = [x, layer.score.weight]
    for grad, other in zip(
        torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(grad, other)


@pytest.mark.parametrize("by_kernels", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_gradients_with_edges_in_one_or_both_directions(directed, by_kernels):
    torch.manual_seed(1)
    edges = torch.tensor([[0, 1, 1, 3, 4, 0, 5], [1, 2, 3, 4, 5, 4, 2]])
    back = edges.flip(0)[:, 2:] if directed else edges.flip(0)
    edges = torch.cat([edges, back], 1)
    graph = torch.zeros(6, dtype=torch.int64, device=DEVICE)
    structure = Adjacency.from_edge_index(edges.to(DEVICE), graph)
    if not directed:
        structure = replace(structure, symmetric=True)
    layer = EdgePool(2).double().to(DEVICE)
    x = torch.rand(6, 2, dtype=torch.float64, device=DEVICE, requires_grad=True)
    with kernels_forced(by_kernels):
        assert len(set(layer(x, structure).x.sum(1).tolist())) < 6, "some nodes should be merged"
        assert gradcheck(
            lambda x, weight: functional_call(layer, {"score.weight": weight}, (x, structure)).x,
            (x, layer.score.weight.detach().requires_grad_()),
        )
