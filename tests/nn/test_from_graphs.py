"""Layers that know numbers of the training graphs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool import testing
from sagpool.graphs import pack
from sagpool.nn import Standardise, StandardisedLinear, SumMeanMax
from sagpool.nn.from_graphs import mean_and_scale
from sagpool.ops import segment_mean_max

SIZES = [3, 5, 1, 4]
TRAIN = np.array([0, 1, 3])


@pytest.fixture
def graphs():
    """Two columns of measurements, one of counts, and labels; the untrained graph is far off."""
    made = testing.random_graphs(0, SIZES)
    attr = made.node_attr * torch.tensor([1e4, 1e-3, 1.0]) + torch.tensor([5e4, 1.0, 0.0])
    attr[8] = 1e9
    return replace(made, node_attr=attr, continuous=2)


def test_measurements_are_standardised_by_the_training_nodes_alone(graphs):
    layer = StandardisedLinear(5, 4).double()
    started = layer.start_from(graphs, TRAIN)
    nodes = np.flatnonzero(np.repeat(np.arange(4), SIZES) != 2)
    x = graphs.x.double()
    measured = x[nodes, :2].numpy()
    np.testing.assert_allclose(started["mean"], [*measured.mean(0), 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(started["scale"], [*1 / measured.std(0), 1, 1, 1], rtol=1e-6)
    with torch.no_grad():
        for name, values in started.items():
            getattr(layer, name).copy_(values.view(1, 1, -1))
        layer.bias.normal_()
    standard = (x - started["mean"].double()) * started["scale"].double()
    expected = standard @ layer.weight[0] + layer.bias[0]
    torch.testing.assert_close(layer(x), expected, rtol=1e-7, atol=1e-7)


def test_rows_are_standardised_and_far_ones_drawn_near():
    layer = Standardise(3, members=2).double()
    x = 7 + 100 * torch.randn(2, 50, 3, dtype=torch.float64)
    for member in range(2):
        for name, values in layer.start_from_rows(x[member]).items():
            getattr(layer, name).data[member, 0] = values.double()
    far = torch.cat([x, torch.full((2, 1, 3), 1e9, dtype=torch.float64)], 1)
    found = layer(far.view(-1, 3)).view_as(far)
    standard = (far - x.mean(1, keepdim=True)) / x.std(1, correction=0, keepdim=True)
    torch.testing.assert_close(found, standard.asinh(), rtol=1e-5, atol=1e-5)
    assert found.max() < 20


def test_a_constant_column_keeps_its_scale_and_gaps_do_not_count():
    gap = torch.nan
    values = torch.tensor([[0.1, 1.0, gap], [0.1, gap, gap], [0.1, 3.0, gap]])
    mean, scale = mean_and_scale(values)
    torch.testing.assert_close(mean, torch.tensor([0.1, 2.0, 0.0]))
    torch.testing.assert_close(scale, torch.tensor([1.0, 1.0, 1.0]))


def test_sum_mean_and_max(graphs):
    readout = SumMeanMax(members=2).double()
    assert readout.start_from(graphs, TRAIN)["scale"].item() == pytest.approx(1 / 4)
    with torch.no_grad():
        readout.scale.copy_(torch.tensor([0.5, 3.0]).view(2, 1, 1))
    batch = pack(graphs, [[0, 1], [3, 2]])
    x = torch.randn(batch.structure.layout.total_rows, 3, dtype=torch.float64)
    layout = batch.structure.layout
    mean_max = segment_mean_max(x, layout.node_ptr, layout.graph)
    found = readout(mean_max, layout).view(2, 3, 9)
    for member, own in enumerate(([3, 5], [4, 1])):
        rows = x.view(2, -1, 3)[member].split([*own, len(x) // 2 - sum(own)])
        for graph in range(2):
            X = rows[graph]
            expected = torch.cat([readout.scale[member, 0] * X.sum(0), X.mean(0), X.amax(0)])
            torch.testing.assert_close(found[member, graph], expected)
