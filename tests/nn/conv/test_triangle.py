import pytest
import torch

from sagpool.graphs import pack, triangles
from sagpool.nn import TriangleConv
from sagpool.nn.pool.selection import Selection, keep_top

pytestmark = pytest.mark.usefixtures("path")


def dense(conv, member, A, X):
    root, near, around = (
        linear.weight[member] for linear in (conv.root, conv.neighbours, conv.triangles)
    )
    return X @ root + conv.root.bias[member] + A @ X @ near + (A @ A * A) @ X @ around


def test_equation(fleet, agree):
    conv = TriangleConv(3, 4, members=3).double()
    x = fleet.features(3)
    expected = torch.cat([dense(conv, *graph) for graph in fleet.each(x)])
    actual = torch.cat(fleet.split(conv(x, fleet.adjacency)))
    agree(actual, expected, [x, *conv.parameters()])


def test_after_a_pooling_only_triangles_that_are_left_count():
    """One layer counts the triangles of a graph; without one of their nodes they are gone."""
    graphs = triangles(20, 1, 1)
    batch = pack(graphs, [range(10)])
    conv = TriangleConv(1, 1).double()
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.zero_()
        conv.triangles.weight.fill_(1 / 6)
    layout = batch.structure.layout
    ones = torch.ones(layout.total_rows, 1, dtype=torch.float64)

    def counts(structure, x):
        sums = torch.zeros(layout.graphs, dtype=torch.float64)
        return sums.index_add(0, structure.layout.graph, conv(x, structure).view(-1))[:10]

    assert counts(batch.structure, ones).round().tolist() == (batch.y[0, :10] + 1).tolist()
    pooled = keep_top(ones, batch.structure, ones.view(-1), Selection(k=3))
    left = pooled.structure.csr()
    found = counts(pooled.structure, pooled.x)
    full = [int(left.degree[left.layout.graph == g].sum()) == 6 for g in range(10)]
    assert found.round().tolist() == [float(one) for one in full]
