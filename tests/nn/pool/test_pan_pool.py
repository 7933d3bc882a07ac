"""PANPool against dense matrices in float64."""

import math

import pytest
import torch

from sagpool.graphs import Adjacency, pack
from sagpool.nn import PANPool
from sagpool.testing import random_graphs

CHANNELS, SIZES = 4, [8, 1, 11, 5]


def test_scores_by_the_diagonal_of_the_transition_matrix():
    torch.manual_seed(0)
    layer = PANPool(CHANNELS, members=2).double()
    torch.nn.init.normal_(layer.energy)
    torch.nn.init.normal_(layer.beta)
    structure = pack(random_graphs(6, SIZES), [[0, 1, 2, 3], [2, 0, -1, -1]]).structure
    ptr = structure.layout.node_ptr
    x = torch.randn(structure.layout.total_rows, CHANNELS, dtype=torch.float64, requires_grad=True)
    pooled = layer(x, structure)
    whole = structure.neighbour_sum(torch.eye(len(x), dtype=torch.float64))
    left = pooled.structure.layout.node_ptr
    weights, expected = torch.randn_like(pooled.x), x.new_zeros(())
    loss = x.new_zeros(())
    for graph in [0, 1, 2, 3, 5, 6]:
        member, rows = graph // 5, slice(ptr[graph], ptr[graph + 1])
        a, h = whole[rows, rows], x[rows]
        summed = sum(
            (-layer.energy[member, 0, n]).exp() * torch.linalg.matrix_power(a, n) for n in range(3)
        )
        z = summed.sum(1)
        m = summed / (z[:, None] * z).sqrt()
        y = (h @ layer.projection.weight[member]).view(-1) + layer.beta[member] * m.diagonal()
        kept = y.topk(math.ceil(len(h) / 2)).indices.sort().values
        new = slice(left[graph], left[graph + 1])
        torch.testing.assert_close(pooled.x[new], h[kept] * y[kept].tanh()[:, None])
        assert (pooled.perm[new] - ptr[graph]).tolist() == kept.tolist()
        expected = expected + (h[kept] * y[kept].tanh()[:, None] * weights[new]).sum()
        loss = loss + (pooled.x[new] * weights[new]).sum()
    inputs = [x, *layer.parameters()]
    for grad, other in zip(
        torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(grad, other)


UNDIRECTED = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]


@pytest.mark.parametrize(
    "edges",
    [
        UNDIRECTED,
        [(0, 1), (1, 2), (2, 3), (3, 2)],
        [*UNDIRECTED, (0, 1), (1, 0), (1, 0)],
        [*UNDIRECTED, (0, 0), (4, 4)],
        [],
    ],
    ids=["undirected", "directed", "double", "loops", "none"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_edges_of_pyg_count_in_their_direction_and_as_often_as_they_occur(edges, packed):
    torch.manual_seed(0)
    layer = PANPool(CHANNELS, 1.0).double()
    torch.nn.init.normal_(layer.energy)
    x = torch.randn(5, CHANNELS, dtype=torch.float64)
    a = torch.zeros(5, 5, dtype=torch.float64)
    for source, target in edges:
        a[target, source] += source != target
    summed = sum((-layer.energy[0, 0, n]).exp() * torch.linalg.matrix_power(a, n) for n in range(3))
    diagonal = summed.diagonal() / summed.sum(1)
    expected = ((x @ layer.projection.weight[0]).view(-1) + layer.beta[0] * diagonal).tanh()
    edge_index = torch.tensor(edges, dtype=torch.int64).view(-1, 2).T
    given = Adjacency.from_edge_index(edge_index, torch.zeros(5).long()) if packed else edge_index
    torch.testing.assert_close(layer(x, given).x, x * expected[:, None])
