import pytest
import torch

from sagpool.nn import SAGPool, readout

pytestmark = pytest.mark.usefixtures("path")


def test_equation(fleet, agree):
    x = fleet.features(3)
    expected = [torch.cat([X.sum(0) / len(X), X.max(0).values]) for _, _, X in fleet.each(x)]
    out = readout(x, fleet.adjacency)
    assert out.shape == (fleet.adjacency.sizes.size, 6)
    agree(out[fleet.places], torch.stack(expected), [x])


def test_equation_after_pooling(fleet, agree):
    x = fleet.features(3)
    pooled = SAGPool(3, 0.4, members=3).double()(x, fleet.adjacency)
    parts = fleet.split(pooled.x, pooled.adjacency)
    expected = [torch.cat([X.mean(0), X.max(0).values]) for X in parts]
    agree(readout(pooled.x, pooled.adjacency)[fleet.places], torch.stack(expected), [x])
