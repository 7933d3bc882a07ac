import math

import pytest
import torch

from sagpool.nn import Context, RandomPool, Streams

pytestmark = pytest.mark.usefixtures("path")

KEYS = torch.tensor([11, -22, 33])


def test_rows_are_kept_as_they_are_with_their_edges(fleet, dense, agree):
    x = fleet.features(3)
    pooled = RandomPool(0.5)(x, fleet.adjacency, Context(Streams(KEYS)))
    assert pooled.score is None
    real = fleet.split(pooled.x, pooled.structure)
    kept = fleet.split(pooled.perm, pooled.structure)
    agree(torch.cat(real), x[torch.cat(kept)], [x])
    graphs = zip(fleet.each(x), kept, strict=True)
    first = fleet.adjacency.layout.node_ptr[fleet.places].tolist()
    found = dense.matrices(fleet, pooled.structure)
    for ((_, A, X), perm), start, A_out in zip(graphs, first, found, strict=True):
        idx = perm - start
        assert len(idx) == math.ceil(len(X) / 2)
        assert (idx.diff() > 0).all()
        assert 0 <= idx[0] <= idx[-1] < len(X)
        assert torch.equal(A_out, A[idx][:, idx])


def test_a_member_draws_the_same_in_any_company(fleet, alone):
    pool = RandomPool(0.5)
    together = pool(fleet.features(3), fleet.adjacency, Context(Streams(KEYS)))
    nodes = iter(fleet.split(together.perm, together.structure))
    for m, member in enumerate(alone):
        by_itself = pool(member.features(3), member.adjacency, Context(Streams(KEYS[m : m + 1])))
        for perm in member.split(by_itself.perm, by_itself.structure):
            assert torch.equal(next(nodes) - m * fleet.adjacency.layout.rows, perm)


def test_every_node_is_kept_about_as_often(packed):
    ladders = packed(["ladder"] * 2000)
    pooled = RandomPool(k=3)(ladders.features(1), ladders.adjacency, Context(Streams(KEYS[:1])))
    kept = torch.bincount(pooled.perm[:6000] % 12)
    assert (kept - 500).abs().max() < 4 * math.sqrt(2000 * 0.25 * 0.75)


def test_without_streams_torchs_seed_decides(fleet):
    def perm(seed):
        torch.manual_seed(seed)
        return RandomPool(0.5)(fleet.features(3), fleet.adjacency).perm

    assert torch.equal(perm(0), perm(0))
    assert not torch.equal(perm(0), perm(1))
