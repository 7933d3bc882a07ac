import pytest
import torch
from torch_geometric import nn as pyg

from sagpool.graphs import Adjacency
from sagpool.nn import SAGEConv

pytestmark = pytest.mark.usefixtures("path")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("out_channels", [1, 4])
def test_equation(fleet, dense, agree, out_channels, bias):
    conv = SAGEConv(3, out_channels, bias=bias, members=3).double()
    x = fleet.features(3)
    expected = torch.cat([dense.convolve(conv, *graph) for graph in fleet.each(x)])
    actual = torch.cat(fleet.split(conv(x, fleet.adjacency)))
    agree(actual, expected, [x, *conv.parameters()])


def test_it_is_pygs_but_for_loops(directed, agree):
    edge_index, x = directed
    theirs, ours = pyg.SAGEConv(3, 4).double(), SAGEConv(3, 4).double()
    ours.neighbours.weight = torch.nn.Parameter(theirs.lin_l.weight.detach().T[None].contiguous())
    ours.neighbours.bias = torch.nn.Parameter(theirs.lin_l.bias.detach()[None, None].clone())
    ours.root.weight = torch.nn.Parameter(theirs.lin_r.weight.detach().T[None].contiguous())
    batch = torch.zeros(len(x), dtype=torch.int64)
    without_loops = edge_index[:, edge_index[0] != edge_index[1]]
    adjacency = Adjacency.from_edge_index(edge_index, batch)
    agree(ours(x, adjacency), theirs(x, without_loops), [x])
