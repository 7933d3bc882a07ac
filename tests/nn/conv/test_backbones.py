"""What an architecture needs of every convolution, whatever its equation."""

import pytest
import torch
from torch_geometric import nn as pyg

from sagpool.graphs import Adjacency
from sagpool.nn import GINConv
from sagpool.nn.conv import CONVS, HiddenLevel

pytestmark = pytest.mark.usefixtures("path")


@pytest.mark.parametrize("name", ["gin", "mlp"])
def test_equation(fleet, dense, agree, name):
    conv = CONVS[name](3, 4, members=3).double()
    x = fleet.features(3)
    expected = torch.cat([dense.convolve(conv, *graph) for graph in fleet.each(x)])
    actual = torch.cat(fleet.split(conv(x, fleet.adjacency)))
    agree(actual, expected, [x, *conv.parameters()])


@pytest.mark.parametrize("name", CONVS)
def test_the_fast_paths_give_the_same(fleet, agree, name):
    conv = CONVS[name](3, 4, members=3).double()
    x, weight = fleet.features(3), torch.randn(3, 4, 1, dtype=torch.float64)
    plain = conv(x, fleet.adjacency)
    level = HiddenLevel(x, fleet.adjacency)
    activated, projected = conv.activate(level, weight)
    agree(activated, plain.relu(), [x, *conv.parameters()])
    if projected is not None:
        scores = torch.bmm(plain.relu().view(3, -1, 4), weight).view(-1, 1)
        agree(projected, scores, [x, *conv.parameters()])
    torch.testing.assert_close(conv.last_channel(level), plain[:, -1])


def test_gin_is_pygs(directed, agree):
    edge_index, x = directed
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    mlp = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    theirs, ours = pyg.GINConv(mlp).double(), GINConv(3, 4).double()
    with torch.no_grad():
        for mine, yours in ((ours.first, mlp[0]), (ours.second, mlp[2])):
            mine.weight.copy_(yours.weight.T[None])
            mine.bias.copy_(yours.bias[None, None])
    adjacency = Adjacency.from_edge_index(edge_index, torch.zeros(len(x), dtype=torch.int64))
    agree(ours(x, adjacency), theirs(x, edge_index), [x])
