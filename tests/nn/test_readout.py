import pytest
import torch

from sagpool.nn import SAGPool, readout
from sagpool.nn.pool import READOUTS, readout_width

pytestmark = pytest.mark.usefixtures("path")


KINDS = {
    "mean-max": lambda X: torch.cat([X.sum(0) / len(X), X.max(0).values]),
    "sum": lambda X: X.sum(0),
    "mean": lambda X: X.sum(0) / len(X),
    "max": lambda X: X.max(0).values,
}


@pytest.mark.parametrize("kind", READOUTS)
def test_equation(fleet, agree, kind):
    x = fleet.features(3)
    expected = [KINDS[kind](X) for _, _, X in fleet.each(x)]
    out = readout(x, fleet.adjacency.layout, kind)
    assert out.shape == (fleet.adjacency.layout.sizes.size, 3 * readout_width(kind))
    agree(out[fleet.places], torch.stack(expected), [x])


@pytest.mark.parametrize("kind", READOUTS)
def test_equation_after_pooling(fleet, agree, kind):
    x = fleet.features(3)
    pooled = SAGPool(3, 0.4, members=3).double()(x, fleet.adjacency)
    parts = fleet.split(pooled.x, pooled.structure)
    expected = [KINDS[kind](X) for X in parts]
    agree(pooled.readout(kind)[fleet.places], torch.stack(expected), [x])
