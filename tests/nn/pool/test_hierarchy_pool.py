"""Pooling to clusters that are known beforehand, against dense matrices in float64."""

import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs import coarser, pack
from sagpool.nn import KMIS, NDP, Graclus, HierarchyPool, SAGPool
from sagpool.testing import random_graphs

CHANNELS = 3


@pytest.fixture
def structure():
    return pack(random_graphs(4, [8, 1, 11, 6]), [[0, 1, 2, 3], [2, 0, -1, -1]]).structure


@pytest.mark.parametrize("reduce", ["max", "mean", "sum"])
@pytest.mark.parametrize("coarsening", [Graclus(), KMIS(), NDP()], ids=str)
def test_rows_of_clusters_and_their_gradients(structure, coarsening, reduce):
    torch.manual_seed(0)
    rows = structure.layout.total_rows
    x = torch.randn(rows, CHANNELS, dtype=torch.float64, requires_grad=True)
    pooled = HierarchyPool(coarsening, reduce)(x, structure)
    left, clusters = coarser(structure, coarsening)
    assert left.layout.total_rows == len(pooled.x) < rows
    s = (clusters.parent[:, None] == torch.arange(len(pooled.x))).double()
    some = s.sum(0) > 0
    if reduce == "max":
        expected = torch.where(s.T[..., None] > 0, x, -torch.inf).amax(1)
    else:
        expected = s.T @ x / (s.sum(0)[:, None].clamp(min=1) if reduce == "mean" else 1)
    torch.testing.assert_close(pooled.x[some], expected[some])
    assert (pooled.x[~some] == 0).all()  # of fillers
    weights = torch.randn_like(pooled.x)
    grads = [
        torch.autograd.grad((rows * weights)[some].sum(), x)[0] for rows in (pooled.x, expected)
    ]
    torch.testing.assert_close(*grads)


def test_what_cannot_be_done_is_refused(structure):
    with pytest.raises(SagpoolError, match="reduce must be one of max, mean, sum, not 'median'"):
        HierarchyPool(Graclus(), "median")  # type: ignore[arg-type]
    with pytest.raises(SagpoolError, match="k-MIS needs a k of at least 1, not 0"):
        KMIS(0)
    with pytest.raises(SagpoolError, match="NDP needs a threshold of at least 0, not -1"):
        NDP(-1.0)
    x = torch.randn(structure.layout.total_rows, CHANNELS)
    selected = SAGPool(CHANNELS, members=2)(x, structure)
    with pytest.raises(SagpoolError, match="cannot follow another kind of pooling"):
        HierarchyPool(Graclus())(selected.x, selected.structure)
    clustered = HierarchyPool(Graclus())(x, structure)
    with pytest.raises(SagpoolError, match="needs single edges, such as that of conv=gat"):
        SAGPool(CHANNELS, members=2)(clustered.x, clustered.structure)
