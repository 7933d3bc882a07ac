"""ASAPool against dense matrices in float64."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from sagpool.graphs import pack
from sagpool.nn import ASAPool
from sagpool.nn.pool.asap.block_adjacency import BlockAdjacency
from sagpool.nn.pool.asap.block_max import block_max
from sagpool.testing import random_graphs

CHANNELS, SIZES = 4, [7, 1, 12, 3, 11]
SEED = 6  # of graphs in which hardly any nodes look the same


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
    kept = first[: math.ceil(nodes / 2)].sort().values
    s = alpha.T[:, kept]
    coarse = s.T @ looped @ s
    return (clusters * raw.sigmoid()[:, None])[kept], coarse - coarse.diag().diag()


def matrices(structure, graphs: int) -> list[Tensor]:
    """A of each graph, by what it does to unit vectors."""
    layout = structure.layout
    unit = torch.eye(layout.total_rows, dtype=torch.float64)
    whole, ptr = structure.neighbour_sum(unit), layout.node_ptr
    return [whole[ptr[g] : ptr[g + 1], ptr[g] : ptr[g + 1]] for g in range(graphs)]


@pytest.fixture
def layer() -> ASAPool:
    torch.manual_seed(0)
    return ASAPool(CHANNELS, members=2).double()


def test_two_levels_of_two_members_and_their_gradients(layer):
    graphs = random_graphs(SEED, SIZES)
    batch = pack(graphs, [[0, 1, 2, 3, 4], [4, 2, -1, -1, -1]])
    structure, number = batch.structure, len(SIZES) + 1
    x = torch.randn(structure.layout.total_rows, CHANNELS, dtype=torch.float64, requires_grad=True)
    first = layer(x, structure)
    second = layer(first.x, first.structure)
    ptr = structure.layout.node_ptr
    a, expected = matrices(structure, 2 * number), x.new_zeros(())
    weights = torch.randn_like(second.x)
    for graph in [*range(5), 6, 7]:
        member = graph // number
        rows, coarse = dense_asap(layer, member, x[ptr[graph] : ptr[graph + 1]], a[graph])
        left = first.structure.layout.node_ptr
        found = first.x[left[graph] : left[graph + 1]]
        torch.testing.assert_close(found, rows)
        torch.testing.assert_close(matrices(first.structure, graph + 1)[graph], coarse)
        rows, coarse = dense_asap(layer, member, rows, coarse)
        left = second.structure.layout.node_ptr
        torch.testing.assert_close(second.x[left[graph] : left[graph + 1]], rows)
        torch.testing.assert_close(matrices(second.structure, graph + 1)[graph], coarse)
        expected = expected + (rows * weights[left[graph] : left[graph + 1]]).sum()
        expected = expected + coarse.square().sum()
    real = second.structure.layout.graph % number != number - 1
    real &= (second.structure.layout.graph < number) | (second.structure.layout.graph < 8)
    loss = (second.x * weights)[real].sum()
    assert isinstance(second.structure, BlockAdjacency)
    loss = loss + sum(block.square().sum() for block in second.structure.blocks)
    torch.testing.assert_close(loss, expected)
    inputs = [x, *layer.parameters()]
    grads, dense = (torch.autograd.grad(total, inputs) for total in (loss, expected))
    for grad, other in zip(grads, dense, strict=True):
        torch.testing.assert_close(grad, other)


def test_weighted_edges_are_normalised_by_their_weighted_degrees(layer):
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
