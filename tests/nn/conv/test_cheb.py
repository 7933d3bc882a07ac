import pytest
import torch
from torch_geometric import nn as pyg

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn import ChebConv

pytestmark = pytest.mark.usefixtures("path")


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("out_channels", [1, 4])
def test_equation(fleet, dense, agree, K, out_channels):
    conv = ChebConv(3, out_channels, K=K, members=3).double()
    torch.nn.init.normal_(conv.linears[0].bias)
    x = fleet.features(3)
    expected = torch.cat([dense.convolve(conv, *graph) for graph in fleet.each(x)])
    actual = torch.cat(fleet.split(conv(x, fleet.adjacency)))
    agree(actual, expected, [x, *conv.parameters()])


@pytest.mark.parametrize("K", [1, 2, 3, 4])
def test_it_is_pygs_on_undirected_graphs(directed, agree, K):
    edge_index, x = directed
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    theirs, ours = pyg.ChebConv(3, 4, K=K).double(), ChebConv(3, 4, K=K).double()
    for mine, other in zip(ours.linears, theirs.lins, strict=True):
        mine.weight = torch.nn.Parameter(other.weight.detach().T[None].contiguous())
    batch = torch.zeros(len(x), dtype=torch.int64)
    agree(ours(x, Adjacency.from_edge_index(edge_index, batch)), theirs(x, edge_index), [x])


def test_wrong_arguments():
    with pytest.raises(SagpoolError, match="K of at least 1, not 0"):
        ChebConv(3, 4, K=0)
