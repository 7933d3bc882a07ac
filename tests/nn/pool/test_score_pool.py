"""What SAGPool and gPool share: everything but the score."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch_geometric import nn as pyg

from sagpool.errors import SagpoolError
from sagpool.nn import GPool, SAGPool, SAGPooling, ScorePool, TopKPooling

pytestmark = pytest.mark.usefixtures("path")

POOLS = {
    "sag": lambda **options: SAGPool(3, **options),
    "sag gat augmentation": lambda **options: SAGPool(3, conv="gat", augmentation=True, **options),
    "sag lowest": lambda **options: SAGPool(3, lowest=True, **options),
    "sag parallel": lambda **options: SAGPool(3, conv="cheb", parallel=2, **options),
    "topk": lambda **options: GPool(3, **options),
}


@pytest.fixture(params=POOLS)
def pool_of(request):
    def make(**options):
        torch.manual_seed(0)
        pool = POOLS[request.param](**options, members=3).double()
        for parameter in pool.parameters():
            torch.nn.init.normal_(parameter)
        return pool

    return make


@pytest.fixture
def reference(dense):
    def pooled(pool, count_of, m, A, X):
        """idx, X_out, A_out and Z_mask of one graph."""
        if isinstance(pool, SAGPool):
            rank, Z = dense.score(pool.attention, m, A, X)
            rank = -rank if pool.lowest else rank
        else:
            p = pool.projection[m, :, 0]
            rank = X @ p
            if pool.min_score is None:
                rank = rank / p.square().sum().sqrt()
            Z = rank.tanh()
        if pool.min_score is None:
            idx = dense.top(rank, count_of(len(X)))
        else:
            Z = rank.softmax(0)
            # Of nodes that no limit tells apart all are kept, as in PyG.
            idx = Z.gt(min(pool.min_score, Z.max().item() - 1e-7)).nonzero()[:, 0].tolist()
        return idx, X[idx] * Z[idx, None], A[idx][:, idx], Z[idx]

    return pooled


def check(fleet, dense, agree, pool, x, expected):
    pooled = pool(x, fleet.adjacency)
    smaller = pooled.structure
    ptr = fleet.adjacency.layout.node_ptr
    perm = [ptr[p] + i for p, (idx, *_) in zip(fleet.places, expected, strict=True) for i in idx]
    assert torch.cat(fleet.split(pooled.perm, smaller)).tolist() == perm
    inputs = [x, *pool.parameters()]
    agree(
        torch.cat(fleet.split(pooled.x, smaller)), torch.cat([X for _, X, _, _ in expected]), inputs
    )
    agree(
        torch.cat(fleet.split(pooled.score, smaller)),
        torch.cat([Z for _, _, _, Z in expected]),
        inputs,
    )
    for A, (_, _, A_out, _) in zip(dense.matrices(fleet, smaller), expected, strict=True):
        assert torch.equal(A, A_out)
    # Every member has as many rows as any other, at least one of them its filler's.
    assert (smaller.layout.sizes.sum(1) == smaller.layout.rows).all()
    assert smaller.layout.sizes.min() >= 1
    return pooled


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 0.6, Fraction(1, 3), 1e-12])
def test_ratio(fleet, dense, agree, pool_of, reference, ratio, ties):
    pool = pool_of(ratio=ratio)
    exact = Fraction(str(ratio))
    x = fleet.features(3, ties=ties)
    expected = [reference(pool, lambda n: math.ceil(n * exact), *graph) for graph in fleet.each(x)]
    check(fleet, dense, agree, pool, x, expected)


@pytest.mark.parametrize("k", [1, 3, 100])
def test_k_nodes_or_all_of_fewer(fleet, dense, agree, pool_of, reference, k):
    pool = pool_of(k=k)
    x = fleet.features(3)
    expected = [reference(pool, lambda n: min(k, n), *graph) for graph in fleet.each(x)]
    check(fleet, dense, agree, pool, x, expected)


def test_a_k_for_each_graph(fleet, dense, agree, pool_of, reference):
    sizes = fleet.adjacency.layout.sizes
    k = np.arange(1, sizes.size + 1).reshape(sizes.shape) % 4 + 1
    pool = pool_of(k=k[:, : -1 if fleet.adjacency.layout.filler else None])  # none for a filler
    x = fleet.features(3)
    counts = iter([int(k.ravel()[place]) for place in fleet.places])
    expected = [reference(pool, lambda n: min(next(counts), n), *graph) for graph in fleet.each(x)]
    check(fleet, dense, agree, pool, x, expected)


@pytest.mark.parametrize("min_score", [0.0, 0.1, 0.3, 0.9])
def test_min_score(request, fleet, dense, agree, pool_of, reference, min_score):
    if "lowest" in request.node.callspec.id:
        with pytest.raises(SagpoolError, match="lowest cannot be combined with min_score"):
            pool_of(min_score=min_score)
        return
    pool = pool_of(min_score=min_score)
    x = fleet.features(3)
    expected = [reference(pool, None, *graph) for graph in fleet.each(x)]
    check(fleet, dense, agree, pool, x, expected)


def test_three_levels(fleet, agree, pool_of, reference):
    """On a device, later levels have entries to spare."""
    pools = [pool_of(ratio=0.8) for _ in range(3)]
    x = fleet.features(3)
    level, adjacency, perm = x, fleet.adjacency, torch.arange(len(x))
    for pool in pools:
        pooled = pool(level, adjacency)
        level, adjacency, perm = pooled.x, pooled.structure, perm[pooled.perm]
    parts, nodes = [], []
    ptr = fleet.adjacency.layout.node_ptr
    for place, (m, A, X) in zip(fleet.places, fleet.each(x), strict=True):
        own = torch.arange(len(X))
        for pool in pools:
            idx, X, A, _ = reference(pool, lambda n: math.ceil(n * Fraction(4, 5)), m, A, X)
            own = own[idx]
        parts.append(X)
        nodes.append(own + ptr[place])
    assert torch.equal(torch.cat(fleet.split(perm, adjacency)), torch.cat(nodes))
    inputs = [x, *(p for pool in pools for p in pool.parameters())]
    agree(torch.cat(fleet.split(level, adjacency)), torch.cat(parts), inputs)


def test_repr():
    assert repr(SAGPool(3)) == "SAGPool(3, ratio=0.5)"
    assert repr(GPool(3, k=2)) == "GPool(3, k=2)"
    assert repr(SAGPool(3, min_score=0.1)) == "SAGPool(3, min_score=0.1)"
    assert repr(SAGPool(3, 2, pyg.GCNConv)) == "SAGPool(GCNConv, 3, k=2)"
    assert repr(GPool(3, multiplier=2.0)) == "GPool(3, ratio=0.5, multiplier=2.0)"
    variant = SAGPool(3, conv="gat", parallel=4)
    assert repr(variant) == "SAGPool(3, ratio=0.5, conv='gat', parallel=4)"
    assert repr(SAGPool(3, lowest=True)) == "SAGPool(3, ratio=0.5, lowest=True)"
    assert repr(SAGPool(3, "learned")) == "SAGPool(3, ratio='learned', max_ratio=1.0)"


@pytest.mark.parametrize("pool_type", [SAGPool, GPool])
def test_multiplier_and_nonlinearity_of_a_packed_batch(fleet, pool_type):
    plain = pool_type(3, 0.6, members=3).double()
    other = pool_type(3, 0.6, members=3, multiplier=2.0, nonlinearity=torch.sigmoid).double()
    other.load_state_dict(plain.state_dict())
    x = fleet.features(3)
    expected, actual = plain(x, fleet.adjacency), other(x, fleet.adjacency)
    assert torch.equal(actual.perm, expected.perm)
    gate = expected.score.atanh().sigmoid()
    torch.testing.assert_close(actual.score, gate)
    torch.testing.assert_close(actual.x, 2 * x[actual.perm] * gate[:, None])
    mean = actual.readout("mean")
    torch.testing.assert_close(actual.readout()[:, :3], mean)


def scores_mirrored_rows(base):
    class Mirrored(base):
        def scores(self, x, structure, context):
            return super().scores(x.flip(1), structure, context)

    return Mirrored


@pytest.mark.parametrize("base", [SAGPool, GPool])
def test_a_subclass_may_score_other_rows(fleet, base):
    torch.manual_seed(0)
    plain, other = (kind(3, members=3).double() for kind in (base, scores_mirrored_rows(base)))
    other.load_state_dict(plain.state_dict())
    x = fleet.features(3)
    expected, actual = plain(x.flip(1), fleet.adjacency), other(x, fleet.adjacency)
    assert torch.equal(actual.perm, expected.perm)
    torch.testing.assert_close(actual.score, expected.score)


@pytest.mark.parametrize("base", [SAGPool, SAGPooling, GPool, TopKPooling])
def test_a_subclass_may_score_other_rows_in_pygs_call(base):
    torch.manual_seed(0)
    own = {"GNN": pyg.GCNConv} if "SAG" in base.__name__ else {}
    plain, other = (kind(3, **own) for kind in (base, scores_mirrored_rows(base)))
    other.load_state_dict(plain.state_dict())
    x, edge_index = torch.randn(6, 3), torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    expected, actual = plain(x.flip(1), edge_index), other(x, edge_index)
    assert torch.equal(actual.perm, expected.perm)
    torch.testing.assert_close(actual.score, expected.score)


def test_a_packed_batch_has_no_edges_for_pygs_convolutions(packed):
    graphs = packed(["star", "pair"])
    x = graphs.features(3)
    pool = SAGPool(3, GNN=pyg.GCNConv).double()  # our own operator
    assert len(pool(x, graphs.adjacency).perm)
    with pytest.raises(SagpoolError, match="GATConv is called with an edge_index"):
        SAGPool(3, GNN=pyg.GATConv).double()(x, graphs.adjacency)
    with pytest.raises(SagpoolError, match="the only other argument is a context"):
        SAGPool(3).double()(x, graphs.adjacency, attn=x)


@pytest.mark.parametrize("layer", [SAGPool, GPool])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ratio": 0}, "ratio must be above 0 and at most 1, not 0"),
        ({"ratio": 1.5}, "ratio must be above 0 and at most 1, not 1.5"),
        ({"ratio": math.nan}, "ratio must be above 0"),
        ({"k": 0}, "at least 1, not 0"),
        ({"k": np.array([2, 0])}, "at least 1"),
        ({"k": np.array([], int)}, "at least 1"),
        ({"k": 1.5}, "integers"),
        ({"ratio": None}, "needs a ratio, a k or a min_score"),
        ({"min_score": 1.1}, "min_score must be from 0 to 1, not 1.1"),
        ({"min_score": -0.1}, "min_score must be from 0"),
        ({"nonlinearity": "tahn"}, "PyG knows no nonlinearity 'tahn'"),
        ({"nonlinearity": None}, "nonlinearity must be a name or a function, not None"),
        ({"in_channels": 0}, "in_channels must be at least 1, not 0"),
    ],
)
def test_wrong_arguments(layer, options, sentence):
    with pytest.raises(SagpoolError, match=sentence):
        layer(**{"in_channels": 3, **options})


def test_wrong_inputs(fleet):
    pool = SAGPool(3, members=3).double()
    with pytest.raises(SagpoolError, match="x has 4 channels, but the layer was made for 3"):
        pool(fleet.features(4), fleet.adjacency)
    with pytest.raises(SagpoolError, match=r"x has \d+ rows, but the graphs have \d+"):
        pool(fleet.features(3)[3:], fleet.adjacency)
    with pytest.raises(SagpoolError, match="k has shape"):
        SAGPool(3, k=np.ones(7, int), members=3).double()(fleet.features(3), fleet.adjacency)


def test_a_subclass_without_scores_is_told_so(fleet):
    with pytest.raises(TypeError, match=r"abstract method .?scores"):
        ScorePool(3)(fleet.features(3), fleet.adjacency)


@pytest.mark.parametrize("length", [1e-3, 1e-30, 0.0])
def test_a_projection_that_has_decayed_is_no_end_of_training(length):
    """Where all rows are zero, weight decay takes gPool's vector down until its square is 0."""
    pool = GPool(3)
    with torch.no_grad():
        pool.projection.fill_(length)
    x = torch.rand(5, 3, requires_grad=True)
    edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    kept = pool(x, edge_index)[0]
    kept.sum().backward()
    assert kept.isfinite().all()
    assert x.grad.isfinite().all()
    assert pool.projection.grad.isfinite().all()
    if length == 1e-3:
        assert (kept > 0).all(), "only the direction counts"
