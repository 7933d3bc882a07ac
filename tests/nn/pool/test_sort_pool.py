import numpy as np
import pytest
import torch
from torch.nn.functional import conv1d, max_pool1d, pad

from sagpool.errors import SagpoolError
from sagpool.nn import Context, SortConv, SortPool

pytestmark = pytest.mark.usefixtures("path")


def ranked_by(rank):
    return Context() if rank is None else Context(rank=lambda: rank)


@pytest.mark.parametrize("k", [1, 3, 50, "per graph"])
@pytest.mark.parametrize("by_rank", [True, False])
def test_the_highest_in_the_last_channel_or_in_rank_are_kept(fleet, dense, agree, k, by_rank):
    sizes = fleet.adjacency.layout.sizes
    ks = np.broadcast_to(k, sizes.shape)
    if k == "per graph":
        ks = np.arange(sizes.size).reshape(sizes.shape) % 3 + 1
        k = ks[:, : -1 if fleet.adjacency.layout.filler else None]  # none for a filler
    x = fleet.features(3, ties=True)
    rank = fleet.features(1, seed=1, ties=True).view(-1) if by_rank else None
    pooled = SortPool(k)(x, fleet.adjacency, ranked_by(rank))
    assert pooled.score is None
    expected = []
    ranks = fleet.split(x[:, -1] if rank is None else rank)
    for place, (_, A, X), order in zip(fleet.places, fleet.each(x), ranks, strict=True):
        idx = dense.top(order, min(int(ks.ravel()[place]), len(X)))
        expected.append((X[idx], A[idx][:, idx]))
    agree(
        torch.cat(fleet.split(pooled.x, pooled.structure)),
        torch.cat([X for X, _ in expected]),
        [x],
    )
    for A, (_, A_out) in zip(dense.matrices(fleet, pooled.structure), expected, strict=True):
        assert torch.equal(A, A_out)


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("by_rank", [True, False])
def test_channels_that_are_sorted_first(fleet, dense, agree, k, by_rank):
    """As in PyG up to 1.4: by the largest channel, whatever the last one was."""
    x = fleet.features(3, ties=True)
    # Equal numbers in different nodes, but not within one, where their order would be open.
    x = (x.detach() + torch.tensor([0.5, 0.25, 0.0])).requires_grad_()
    rank = fleet.features(1, seed=1).view(-1) if by_rank else None
    pooled = SortPool(k, sort_channels=True)(x, fleet.adjacency, ranked_by(rank))
    expected = []
    for _, A, X in fleet.each(x):
        in_order = X.sort(dim=-1).values
        idx = dense.top(in_order[:, -1], min(k, len(X)))
        expected.append((in_order[idx], A[idx][:, idx]))
    rows = torch.cat([X for X, _ in expected])
    agree(torch.cat(fleet.split(pooled.x, pooled.structure)), rows, [x])
    read = torch.stack([torch.cat([X.mean(0), X.max(0).values]) for X, _ in expected])
    torch.testing.assert_close(pooled.readout()[fleet.places], read)
    for A, (_, A_out) in zip(dense.matrices(fleet, pooled.structure), expected, strict=True):
        assert torch.equal(A, A_out)


def convolved(conv, m, X, rank):
    """DGCNN's two convolutions along the sorted nodes of one graph."""
    values = rank.tolist()
    order = sorted(range(len(X)), key=lambda i: (-values[i], i))[: conv.k]
    nodes = pad(X[order], (0, 0, 0, conv.k - len(order))).T[None]  # [1, channels, k]
    first = conv1d(nodes, conv.first.weight[m].T[..., None], conv.first.bias[m, 0]).relu()
    kernel = conv.second.weight[m].T.view(32, 16, 5)
    return conv1d(max_pool1d(first, 2), kernel, conv.second.bias[m, 0]).relu()[0].T.flatten()


@pytest.mark.parametrize("k", [10, 11, 14])
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("by_rank", [True, False])
def test_the_convolutions_along_sorted_nodes(fleet, agree, k, ties, by_rank):
    conv = SortConv(3, k, members=3).double()
    x = fleet.features(3)
    rank = fleet.features(1, seed=1, ties=ties).view(-1) if by_rank else None
    ranks = fleet.split(x[:, -1] if rank is None else rank)
    parts = zip(fleet.each(x), ranks, strict=True)
    expected = [convolved(conv, m, X, r) for (m, _, X), r in parts]
    out = conv(x, fleet.adjacency, ranked_by(rank)).x
    assert out.shape == (fleet.adjacency.layout.sizes.size, conv.graph_channels())
    agree(out[fleet.places], torch.stack(expected), [x, *conv.parameters()])


def test_wrong_arguments():
    with pytest.raises(SagpoolError, match="k of at least 10, not 9"):
        SortConv(3, 9)
    with pytest.raises(SagpoolError, match="at least 1, not 0"):
        SortPool(0)
