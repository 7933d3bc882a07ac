import pytest
import torch
from torch_geometric import nn as pyg

from sagpool.graphs import Adjacency
from sagpool.nn import GCNConv

pytestmark = pytest.mark.usefixtures("path")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("out_channels", [1, 2, 3, 5])
def test_equation(fleet, dense, agree, out_channels, bias):
    """Also where the product with Θ comes second, since it widens the rows."""
    conv = GCNConv(3, out_channels, bias=bias, members=3).double()
    torch.nn.init.normal_(conv.linear.weight)
    x = fleet.features(3)
    expected = torch.cat([dense.convolve(conv, *graph) for graph in fleet.each(x)])
    actual = torch.cat(fleet.split(conv(x, fleet.adjacency)))
    agree(actual, expected, [x, *conv.parameters()])


def test_it_is_pygs(directed, agree):
    edge_index, x = directed
    theirs = pyg.GCNConv(3, 4).double()
    ours = GCNConv(3, 4).double()
    ours.linear.weight = torch.nn.Parameter(theirs.lin.weight.detach().T[None].contiguous())
    torch.nn.init.normal_(theirs.bias)
    ours.linear.bias = torch.nn.Parameter(theirs.bias.detach()[None, None].clone())
    batch = torch.zeros(len(x), dtype=torch.int64)
    agree(ours(x, Adjacency.from_edge_index(edge_index, batch)), theirs(x, edge_index), [x])
