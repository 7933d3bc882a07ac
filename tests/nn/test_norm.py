import pytest
import torch
from torch_geometric.nn import GraphNorm

from sagpool.nn import Norm

pytestmark = pytest.mark.usefixtures("path")


def test_every_graph_is_normalised_by_itself_with_the_weights_of_its_member(fleet, agree):
    norm = Norm(3, members=3).double()
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(torch.randn_like(parameter))
    x = fleet.features(3)
    expected = []
    for m, _, X in fleet.each(x):
        theirs = GraphNorm(3).double()
        theirs.weight = torch.nn.Parameter(norm.scale[m, 0])
        theirs.bias = torch.nn.Parameter(norm.shift[m, 0])
        theirs.mean_scale = torch.nn.Parameter(norm.mean_scale[m, 0])
        expected.append(theirs(X))
    actual = torch.cat(fleet.split(norm(x, fleet.adjacency.layout)))
    agree(actual, torch.cat(expected), [x])
