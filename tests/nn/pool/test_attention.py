from dataclasses import replace

import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.nn import AttentionScore, Selection, TwoHop, keep_top
from sagpool.nn.conv.two_hop import two_hop_pairs

pytestmark = pytest.mark.usefixtures("path")

VARIANTS = {
    "single": {},
    "augmentation": {"augmentation": True},
    "two-hop": {"augmentation": "two-hop"},
    "serial 2": {"serial": 2},
    "serial 4": {"serial": 4},
    "parallel 2": {"parallel": 2},
    "parallel 5": {"parallel": 5},
    "all of them": {"augmentation": True, "serial": 2, "parallel": 3},
}


@pytest.mark.parametrize("conv", ["gcn", "cheb", "sage", "gat"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_equation(fleet, dense, agree, conv, variant):
    attention = AttentionScore(3, conv, **VARIANTS[variant], members=3).double()
    x = fleet.features(3)
    scores = attention(x, fleet.adjacency)
    expected = [dense.score(attention, *graph) for graph in fleet.each(x)]
    inputs = [x, *attention.parameters()]
    agree(torch.cat(fleet.split(scores.rank)), torch.cat([rank for rank, _ in expected]), inputs)
    agree(torch.cat(fleet.split(scores.gate)), torch.cat([gate for _, gate in expected]), inputs)


def test_a_single_score_is_ranked_before_tanh_makes_it_one(packed):
    ladder = packed(["ladder"])
    attention = AttentionScore(3).double()
    scores = attention(1e4 * ladder.features(3), ladder.adjacency)
    assert scores.gate.unique().numel() < scores.rank.unique().numel()


def test_two_hop_pairs_are_those_of_the_squared_matrix(fleet, dense):
    pairs = two_hop_pairs(fleet.adjacency)
    for A, wider in zip(fleet.matrices, dense.matrices(fleet, pairs), strict=True):
        assert torch.equal(wider, dense.two_hop(A))


@pytest.mark.parametrize("of_collection", [True, False])
def test_the_two_hop_graph_of_the_input_is_pooled_along_with_it(fleet, dense, of_collection):
    """Computed for the whole collection, or for the batch."""
    level, expected = fleet.adjacency, [dense.two_hop(A) for A in fleet.matrices]
    if not of_collection:
        level = replace(level, make_two_hop=lambda: None)
    for seed in range(3):
        found = dense.matrices(fleet, level.csr().two_hop)
        assert all(torch.equal(A, B) for A, B in zip(found, expected, strict=True))
        random = torch.Generator().manual_seed(seed)
        rank = torch.randn(len(level.layout.graph), generator=random)
        pooled = keep_top(rank[:, None], level, rank, Selection(0.7))
        first = level.layout.node_ptr[fleet.places].tolist()
        perms = fleet.split(pooled.perm, pooled.structure)
        kept = [perm - start for perm, start in zip(perms, first, strict=True)]
        expected = [A[idx][:, idx] for A, idx in zip(expected, kept, strict=True)]
        level = pooled.structure


def test_two_nodes_stay_joined_if_the_one_between_them_is_dropped(packed, dense):
    star = packed(["star"])
    rank = torch.ones(len(star.adjacency.layout.graph))
    rank[2] = 0  # the centre
    pooled = keep_top(rank[:, None], star.adjacency, rank, Selection(k=5))
    assert not dense.matrices(star, pooled.structure)[0].any()
    assert torch.equal(
        dense.matrices(star, pooled.structure.csr().two_hop)[0], 1 - torch.eye(5).double()
    )


def test_two_hop_sums_and_degrees_are_those_of_the_squared_matrix(fleet, agree):
    x = fleet.features(3)
    two_hop = TwoHop(fleet.adjacency)
    expected = torch.cat([(A + A @ A) @ X for _, A, X in fleet.each(x)])
    agree(torch.cat(fleet.split(two_hop.neighbour_sum(x))), expected, [x])
    degree = torch.cat([(A + A @ A).sum(1) for A in fleet.matrices])
    assert torch.equal(torch.cat(fleet.split(two_hop.degree)), degree)


def test_wrong_arguments():
    with pytest.raises(SagpoolError, match="Unknown convolution 'gcm'; choose from gcn, cheb"):
        AttentionScore(3, "gcm")
    with pytest.raises(SagpoolError, match="at least 1, not 0, 1 and 1"):
        AttentionScore(3, serial=0)
    with pytest.raises(SagpoolError, match="at least 1, not 1, 0 and 1"):
        AttentionScore(3, parallel=0)
    with pytest.raises(SagpoolError, match="augmentation must be True, False or 'two-hop', not 2"):
        AttentionScore(3, augmentation=2)
