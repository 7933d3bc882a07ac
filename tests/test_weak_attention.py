"""The targets of scripts/weak_attention.py for a model whose output is known."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from sagpool.graphs import colors
from sagpool.graphs.counting import GREEN
from sagpool.models import Shape, build

SCRIPT = Path(__file__).parents[1] / "scripts" / "weak_attention.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


def test_a_node_is_removed_with_its_edges(script):
    (graph,) = colors(1, 1, 1)[:1]
    copies = script["without_each_node"](graph)
    assert copies.node_counts.tolist() == [graph.num_nodes - 1] * graph.num_nodes
    for node, copy in enumerate(copies):
        left = [other for other in range(graph.num_nodes) if other != node]
        assert torch.equal(copy.x, graph.x[left])
        inside = ~(graph.edge_index == node).any(0)
        assert copy.num_edges == inside.sum()


def test_a_model_that_counts_green_nodes_names_them(script):
    """The output of class 0 is the number of green nodes, plus one."""
    graphs = colors(20, 1, 1)[:20]
    settings = {"readout": "sum"}
    model = build("mlp-g", Shape(4, 11, hidden=2, settings=settings)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.convs[0].linear.weight[0, GREEN, 0] = 1
        model.classifier.first.weight[0, 0, 0] = 1
        model.classifier.second.weight[0, 0, 0] = 1
        model.classifier.last.weight[0, 0, 0] = 1
        model.classifier.last.bias[0, 0] = 1
    for number, graph in enumerate(graphs):
        green = graph.ground_truth.numpy()
        expected = green / max(green.sum(), 1)
        np.testing.assert_allclose(script["effects"](model, graphs, number), expected)
