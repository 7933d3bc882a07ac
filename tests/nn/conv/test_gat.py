import pytest
import torch
from torch_geometric import nn as pyg

from sagpool.graphs import Adjacency
from sagpool.nn import GATConv

pytestmark = pytest.mark.usefixtures("path")


@pytest.mark.parametrize("heads", [1, 6])
@pytest.mark.parametrize("out_channels", [1, 4])
@pytest.mark.parametrize("bias", [True, False])
def test_equation(fleet, dense, agree, heads, out_channels, bias):
    conv = GATConv(3, out_channels, heads=heads, bias=bias, members=3).double()
    if bias:
        torch.nn.init.normal_(conv.bias)
    x = fleet.features(3)
    expected = torch.cat([dense.convolve(conv, *graph) for graph in fleet.each(x)])
    actual = torch.cat(fleet.split(conv(x, fleet.adjacency)))
    agree(actual, expected, [x, *conv.parameters()])


def test_it_is_pygs(directed, agree):
    edge_index, x = directed
    theirs = pyg.GATConv(3, 4, heads=6, concat=False).double()
    ours = GATConv(3, 4).double()
    ours.linear.weight = torch.nn.Parameter(theirs.lin.weight.detach().T[None].contiguous())
    ours.source = torch.nn.Parameter(theirs.att_src.detach()[None].clone())
    ours.target = torch.nn.Parameter(theirs.att_dst.detach()[None].clone())
    batch = torch.zeros(len(x), dtype=torch.int64)
    agree(ours(x, Adjacency.from_edge_index(edge_index, batch)), theirs(x, edge_index), [x])


def test_large_energies_do_not_overflow(fleet):
    conv = GATConv(3, 1, members=3).double()
    x = fleet.features(3)
    out = conv(1e4 * x, fleet.adjacency)
    out.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in conv.parameters())
