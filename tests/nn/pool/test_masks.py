"""Several masks: each score keeps nodes of its own."""

import numpy as np
import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.explain import Trace, explain
from sagpool.graphs import Adjacency, Structure, load, pack
from sagpool.models import Shape, build
from sagpool.nn import SAGPool
from sagpool.nn.pool.masks import side_by_side
from sagpool.ops import DeviceLayout, HostLayout, repeated_csr, repeated_layout
from sagpool.testing import random_graphs

MASKS, CHANNELS = 3, 5


def dense(structure: Structure) -> torch.Tensor:
    """A + I of the whole batch."""
    structure = structure.csr()
    rows = structure.layout.total_rows
    matrix = torch.zeros(rows, rows, dtype=torch.float64)
    matrix[structure.entry_row, structure.col.long()] = 1
    return matrix


@pytest.fixture
def batch():
    graphs = random_graphs(1, [7, 4, 1])
    return pack(graphs, [[0, 1, 2], [1, 2, -1]])


def layer(members=2, **options) -> SAGPool:
    torch.manual_seed(0)
    return SAGPool(CHANNELS, masks=MASKS, members=members, **options).double()


def reference(x, adjacency, weight, bias, kept):
    """One mask on one graph, dense, from the equation."""
    degree = adjacency.sum(1).clamp(min=1)
    normal = adjacency / (degree[:, None] * degree[None]).sqrt()
    score = normal @ x @ weight + bias
    best = torch.sort(torch.sort(-score, stable=True).indices[:kept]).values
    return x[best] * score[best].tanh()[:, None], adjacency[best][:, best]


def test_every_mask_pools_as_its_equation_says(batch):
    """Two levels: the second goes on with the graphs that each mask has left."""
    pools = [layer(), layer()]
    x = torch.randn(batch.structure.layout.total_rows, CHANNELS, dtype=torch.float64)
    first = pools[0](x, batch.structure)
    second = pools[1](first.x, first.structure)
    layout = batch.structure.layout
    assert first.structure.layout.members == second.structure.layout.members == 2 * MASKS
    whole = dense(batch.structure)
    starts = np.cumsum(layout.sizes).reshape(layout.sizes.shape) - layout.sizes
    for member in range(2):
        for graph in range(layout.graphs - 1):
            begin, size = starts[member, graph], layout.sizes[member, graph]
            rows = slice(begin, begin + size)
            for mask in range(MASKS):
                given, adjacency = x[rows], whole[rows, rows]
                for pool, pooled in zip(pools, (first, second), strict=True):
                    linear = pool.attention.gnns[0][0].linear
                    weight, bias = linear.weight[member, :, mask], linear.bias[member, 0, mask]
                    kept = -(-len(given) // 2)
                    given, adjacency = reference(given, adjacency, weight, bias, kept)
                    sizes, copy = pooled.structure.layout.sizes, member * MASKS + mask
                    ends = np.cumsum(sizes).reshape(sizes.shape)
                    own = slice(ends[copy, graph] - kept, ends[copy, graph])
                    torch.testing.assert_close(pooled.x[own], given)
                    assert torch.equal(dense(pooled.structure)[own, own], adjacency)


def test_repeated_graphs_are_copies(batch):
    base = batch.structure
    layout = repeated_layout(base.layout, MASKS)
    matrix = base.row_ptr, base.col
    repeated = Adjacency(layout, *repeated_csr(*matrix, base.layout.rows, MASKS))
    assert repeated.layout.sizes.tolist() == base.layout.sizes.repeat(MASKS, 0).tolist()
    rows, whole, copies = base.layout.rows, dense(base), dense(repeated)
    for copy in range(2 * MASKS):
        own = slice(copy // MASKS * rows, (copy // MASKS + 1) * rows)
        there = slice(copy * rows, (copy + 1) * rows)
        assert torch.equal(copies[there, there], whole[own, own])
    assert copies.sum() == MASKS * whole.sum()


def test_copies_of_graphs_that_the_device_counts(batch):
    """The layout of a recorded step: the host knows no sizes."""
    layout = batch.structure.layout
    on_device = DeviceLayout(layout.node_ptr, layout.members, layout.rows, layout.largest)
    assert repeated_layout(on_device, 2).node_ptr.tolist() == (
        HostLayout(layout.sizes.repeat(2, 0), filler=True, device=layout.device).node_ptr.tolist()
    )


def test_readouts_of_a_graph_stand_side_by_side():
    read = torch.arange(2 * 2 * 3).view(-1, 1)  # two members, two masks, three graphs
    assert side_by_side(read, 2, 2).tolist() == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8, 11]]


def test_the_call_of_pyg_gives_the_graphs_of_all_masks(batch):
    pool = layer(members=1)
    x = torch.randn(5, CHANNELS, dtype=torch.float64)
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    of_graph = torch.tensor([0, 0, 0, 1, 1])
    out = pool(x, edges, edge_attr=torch.arange(6), batch=of_graph)
    packed = pool(x, Adjacency.from_edge_index(edges, of_graph))
    torch.testing.assert_close(out.x, packed.x, rtol=1e-12, atol=0)
    assert torch.equal(out.perm, packed.perm % 5)
    assert out.batch.tolist() == [0, 0, 1, 2, 2, 3, 4, 4, 5]
    assert torch.equal(out.batch % 2, of_graph[out.perm])
    joined = out.edge_index
    assert torch.equal(out.batch[joined[0]], out.batch[joined[1]])
    assert torch.equal(edges[:, out.edge_attr], out.perm[joined])


@pytest.mark.parametrize("options", [{"min_score": 0.1}, {"parallel": 2}, {"k": np.array([3])}])
def test_what_masks_cannot_have_is_refused(options):
    with pytest.raises(SagpoolError, match="Several masks keep the same number of nodes"):
        layer(**options)


def test_explain_has_a_panel_for_each_mask():
    graphs = load("MUTAG")[:2]
    torch.manual_seed(0)
    model = build("sagpool-h-masks2", Shape(graphs.num_features, 2, hidden=4))
    trace = explain(model, graphs, 1)
    nodes = graphs[1].num_nodes
    assert [title for title, _ in trace.panels][:2] == ["level 1, mask 1", "level 1, mask 2"]
    assert len(trace.plot().axes) >= 7  # the input, and two masks of three levels
    for level in trace.levels:
        assert len(level.masks) == 2
        assert set(level.kept) == set(level.masks[0].kept) | set(level.masks[1].kept)
    assert len(trace.levels[0].masks[1].kept) == -(-nodes // 2)
    for mask in range(2):
        former, later = (trace.levels[i].masks[mask].kept for i in range(2))
        assert set(later) <= set(former)
    again = Trace.from_json(trace.to_json())
    assert again.to_json() == trace.to_json()
