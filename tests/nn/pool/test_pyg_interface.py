"""SAGPool and GPool as a PyG user calls them."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric import nn as pyg

from sagpool.errors import SagpoolError
from sagpool.nn import GPool, SAGPool

pytestmark = pytest.mark.usefixtures("path")

BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 3])
# In no order, some twice, loops among them, most of them one-way.
EDGES = torch.tensor(
    [
        *((3, 1), (0, 1), (1, 0), (2, 1), (0, 1), (2, 2), (5, 4), (4, 5), (5, 4), (6, 6)),
        *((11, 7), (7, 8), (9, 8), (8, 9), (10, 9), (9, 7), (9, 7), (9, 7), (0, 3)),
    ]
).T
UNDIRECTED = torch.cat([EDGES, EDGES.flip(0)], dim=1)


def features(channels=3, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(len(BATCH), channels, generator=random, dtype=torch.float64).requires_grad_()


def whole_matrix(edge_index, nodes):
    """A of the whole batch: how many edges there are to i from j, loops left out."""
    A = torch.zeros(nodes, nodes, dtype=torch.float64)
    for source, target in edge_index.T:
        if source != target:
            A[target, source] += 1
    return A


def expected_of(dense, pool, x, edge_index, batch, count_of):
    A = whole_matrix(edge_index, len(x))
    if isinstance(pool, SAGPool):
        rank, Z = dense.score(pool.attention, 0, A, x)
    else:
        p = pool.projection[0, :, 0]
        rank = x @ p if pool.min_score is not None else x @ p / p.norm()
        Z = rank.tanh()
    perm = []
    for graph in range(int(batch[-1]) + 1):
        nodes = (batch == graph).nonzero()[:, 0]
        if pool.min_score is not None:
            Z = Z.index_put((nodes,), rank[nodes].softmax(0))
            chosen = Z[nodes] > pool.min_score
            chosen[Z[nodes].argmax()] = True
            perm += nodes[chosen].tolist()
        else:
            perm += nodes[dense.top(rank[nodes], count_of(graph, len(nodes)))].tolist()
    return perm, Z[perm], x[perm] * Z[perm, None]


SELECTIONS = {
    "half": ({"ratio": 0.5}, lambda g, n: math.ceil(n / 2)),
    "fraction": ({"ratio": Fraction(2, 5)}, lambda g, n: math.ceil(Fraction(2, 5) * n)),
    "six tenths": ({"ratio": 0.6}, lambda g, n: math.ceil(Fraction(3, 5) * n)),
    "two": ({"k": 2}, lambda g, n: min(2, n)),
    "k per graph": ({"k": np.array([3, 1, 1, 4])}, lambda g, n: [3, 1, 1, 4][g]),
    "min_score": ({"min_score": 0.25}, None),
}
LAYERS = {
    "gcn": lambda **options: SAGPool(3, **options),
    "cheb": lambda **options: SAGPool(3, conv="cheb", **options),
    "sage": lambda **options: SAGPool(3, conv="sage", serial=2, **options),
    "gat": lambda **options: SAGPool(3, conv="gat", **options),
    "gcn augmentation": lambda **options: SAGPool(3, augmentation=True, **options),
    "gat augmentation": lambda **options: SAGPool(3, conv="gat", augmentation=True, **options),
    "topk": lambda **options: GPool(3, **options),
}


@pytest.mark.parametrize("edge_index", [EDGES, UNDIRECTED], ids=["directed", "undirected"])
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("layer", LAYERS)
def test_equation(dense, agree, layer, selection, edge_index):
    options, count_of = SELECTIONS[selection]
    pool = LAYERS[layer](**options).double()
    for parameter in pool.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(5))
    x = features()
    edge_attr = torch.arange(2 * edge_index.shape[1]).view(-1, 2)
    out = pool(x, edge_index, edge_attr, BATCH)
    assert out._fields == ("x", "edge_index", "edge_attr", "batch", "perm", "score")

    perm, Z, X = expected_of(dense, pool, x, edge_index, BATCH, count_of)
    assert out.perm.tolist() == perm
    assert out.batch.tolist() == BATCH[perm].tolist()
    agree(out.x, X, [x, *pool.parameters()])
    agree(out.score, Z, [x, *pool.parameters()])
    left = [(e, s, t) for e, (s, t) in enumerate(edge_index.T.tolist()) if {s, t} <= set(perm)]
    assert out.edge_index.T.tolist() == [[perm.index(s), perm.index(t)] for _, s, t in left]
    assert out.edge_attr.tolist() == [edge_attr[e].tolist() for e, _, _ in left]


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    seed=st.integers(0, 2**31),
    ratio=st.sampled_from([0.1, 0.5, 0.6, 0.75, 1.0]),
)
def test_random_graphs(dense, agree, sizes, seed, ratio):
    random = torch.Generator().manual_seed(seed)
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    x = torch.randint(-1, 2, (len(batch), 3), generator=random).double().requires_grad_()
    ends = torch.randint(0, len(batch), (2, 3 * len(batch)), generator=random)
    edge_index = ends[:, batch[ends[0]] == batch[ends[1]]]
    pool = SAGPool(3, ratio).double()
    out = pool(x, edge_index, batch=batch)
    exact = Fraction(str(ratio))
    perm, Z, X = expected_of(dense, pool, x, edge_index, batch, lambda g, n: math.ceil(exact * n))
    assert out.perm.tolist() == perm
    assert out.edge_attr is None
    agree(out.x, X, [x, *pool.parameters()])
    agree(out.score, Z, [x, *pool.parameters()])


def test_it_takes_the_place_of_pygs_layer():
    """Where PyG's own scale is positive, both keep the same nodes, edges and features."""
    theirs = pyg.SAGPooling(3, ratio=0.5, GNN=pyg.GCNConv).double()
    torch.nn.init.ones_(theirs.select.weight)
    ours = SAGPool(3, 0.5).double()
    linear = ours.attention.gnns[0][0].linear
    linear.weight = torch.nn.Parameter(theirs.gnn.lin.weight.detach().T[None].contiguous())
    edge_attr = torch.rand(UNDIRECTED.shape[1], 2, dtype=torch.float64)
    x = features()
    expected = theirs(x, UNDIRECTED, edge_attr, BATCH)
    actual = ours(x, UNDIRECTED, edge_attr, BATCH)
    order = expected[4].argsort()
    assert torch.equal(actual.perm, expected[4][order])
    torch.testing.assert_close(actual.x, expected[0][order])
    torch.testing.assert_close(actual.score, expected[5][order])
    assert torch.equal(actual.edge_index, order.argsort()[expected[1]])
    assert torch.equal(actual.edge_attr, expected[2])
    assert torch.equal(actual.batch, expected[3][order])


@pytest.mark.parametrize("options", [{"ratio": 0.6}, {"k": 2}, {"min_score": 0.25}], ids=str)
def test_batches_in_any_order_with_gaps(dense, agree, options):
    """Nodes are spread over the graphs 1, 3 and 30; there is no other graph."""
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    batch = torch.tensor([1, 3, 30, 30])[BATCH][order]
    edge_index = order.argsort()[EDGES]
    pool, x = SAGPool(3, **options).double(), features()
    out = pool(x[order], edge_index, batch=batch)
    sorted_out = pool(x, EDGES, batch=BATCH.clamp(max=2))
    rows = order[out.perm].argsort()
    assert torch.equal(order[out.perm][rows], sorted_out.perm)
    assert torch.equal(out.batch, batch[out.perm])
    agree(out.x[rows], sorted_out.x, [x, *pool.parameters()])


@pytest.mark.parametrize("layer", [SAGPool, GPool])
def test_one_graph_needs_no_batch_and_no_edges(layer):
    out = layer(3, 0.5).double()(features(), torch.zeros(2, 0, dtype=torch.int64))
    assert len(out.perm) == 6
    assert out.edge_index.shape == (2, 0)
    assert not out.batch.any()


@pytest.mark.parametrize("layer", [SAGPool, GPool])
def test_strided_features(layer):
    pool = layer(3).double()
    wide = features(6)
    for x in (wide[:, ::2], wide[:, 3:], wide[:, :3].T.contiguous().T):
        actual, expected = pool(x, EDGES), pool(x.contiguous(), EDGES)
        torch.testing.assert_close(actual.x, expected.x)
        assert torch.equal(actual.perm, expected.perm)


@pytest.mark.parametrize("layer", [SAGPool, GPool])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": torch.ones(12, 3, dtype=torch.int64)}, "x must be a matrix of floating-point"),
        ({"x": torch.ones(3)}, "x must be a matrix"),
        ({"x": torch.ones(())}, "x must be a matrix"),
        ({"x": torch.ones(0, 3), "batch": None}, "has edges, but there are no nodes"),
        ({"x": torch.ones(12, 4)}, "4 channels, but the layer was made for 3"),
        ({"edge_index": EDGES.T}, r"shape \(2, edges\)"),
        ({"edge_index": EDGES[0], "edge_attr": torch.ones(19)}, r"shape \(2, edges\)"),
        ({"edge_index": EDGES.float()}, "must be an int64 tensor"),
        ({"edge_index": EDGES + 1}, "names node 12, but there are 12 nodes"),
        ({"edge_index": EDGES - 1}, "names node -1, but there are 12 nodes"),
        ({"edge_attr": torch.ones(5, 2)}, "edge_attr has 5 rows for 19 edges"),
        ({"batch": BATCH[:-1]}, "batch must have one int64 entry for each of 12 nodes"),
        ({"batch": BATCH.float()}, "batch must have one int64 entry"),
        ({"batch": BATCH - 1}, "batch names graph -1; graphs are counted from 0"),
        ({"batch": -BATCH}, "batch names graph -3"),
        ({"attn": torch.ones(11, 3)}, r"attn has shape \(11, 3\), but x has 12 rows"),
        ({"attn": torch.ones(12, 4)}, "4 channels, but the layer was made for 3"),
    ],
)
def test_wrong_inputs(path, layer, change, sentence):
    if "names" in sentence and path == "device path":
        pytest.skip("Values are not read on a device, whose own kernels refuse them.")
    inputs = {"x": torch.ones(12, 3), "edge_index": EDGES, "batch": BATCH, **change}
    with pytest.raises(SagpoolError, match=sentence):
        layer(3)(**inputs)


@pytest.mark.parametrize("layer", [SAGPool, GPool])
def test_a_k_for_each_of_other_graphs(layer):
    with pytest.raises(SagpoolError, match=r"k has shape \(3,\), which does not fit 4 graphs"):
        layer(3, k=np.array([1, 2, 3])).double()(features(), EDGES, batch=BATCH)


def test_edge_weights_count_in_scores_of_pyg():
    x, weight = features(), torch.rand(EDGES.shape[1], dtype=torch.float64)
    for conv in (pyg.GCNConv, pyg.GraphConv, pyg.ChebConv):
        options = {"K": 2} if conv is pyg.ChebConv else {}
        pool = SAGPool(3, 1.0, GNN=conv, **options).double()
        expected = pool.gnn(x, EDGES, weight).view(-1).tanh()
        out = pool(x, EDGES, weight, edge_weight=weight)
        torch.testing.assert_close(out.score, expected)
        assert torch.equal(out.edge_attr, weight)
        with pytest.raises(SagpoolError, match="edge_weight has 3 numbers for 19 edges"):
            pool(x, EDGES, edge_weight=weight[:3])
    with pytest.raises(SagpoolError, match="SAGEConv takes no edge_weight"):
        SAGPool(3, GNN=pyg.SAGEConv).double()(x, EDGES, edge_weight=weight)
    for pool in (SAGPool(3), GPool(3)):
        with pytest.raises(SagpoolError, match="edge_weight is for a layer that scores with a GNN"):
            pool.double()(x, EDGES, edge_weight=weight)
