import copy

import numpy as np
import pytest
import torch
from torch_geometric import nn as pyg

from sagpool.errors import SagpoolError
from sagpool.nn import (
    GPool,
    RandomPool,
    SAGPool,
    SAGPooling,
    TopKPooling,
    from_pyg,
    to_pyg,
)

RANDOM = torch.Generator().manual_seed(1)
BATCH = torch.tensor([0] * 25 + [1] * 6)
X = torch.randn(len(BATCH), 3, generator=RANDOM)
# Undirected and without loops, where all of our convolutions are those of PyG.
PAIRS = torch.randint(0, len(BATCH), (2, 90), generator=RANDOM)
PAIRS = PAIRS[:, (BATCH[PAIRS[0]] == BATCH[PAIRS[1]]) & (PAIRS[0] != PAIRS[1])]
EDGES = torch.cat([PAIRS, PAIRS.flip(0)], 1)


def assert_same(ours, theirs):
    """The same nodes with the same numbers, in any order."""
    actual, expected = (
        layer(X.to(dtype_of(layer)), EDGES, None, BATCH) for layer in (ours, theirs)
    )
    first, second = actual[4].argsort(), expected[4].argsort()
    assert torch.equal(actual[4][first], expected[4][second])
    for place in (0, 3, 5):
        torch.testing.assert_close(
            actual[place][first], expected[place][second], atol=1e-6, rtol=1e-5
        )
    assert torch.equal(actual[4][actual[1]], expected[4][expected[1]])


def dtype_of(layer):
    return next(layer.parameters()).dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "theirs",
    [
        pyg.TopKPooling(3, 0.6),
        pyg.TopKPooling(3, min_score=0.1, multiplier=2.0),
        pyg.TopKPooling(3, 4, nonlinearity="prelu"),
        pyg.SAGPooling(3, 0.6),
        pyg.SAGPooling(3, 0.6, pyg.GATConv, heads=2),
        pyg.SAGPooling(3, GNN=pyg.GCNConv, min_score=0.02),
    ],
    ids=repr,
)
def test_there_and_back(theirs, dtype):
    theirs = copy.deepcopy(theirs).to(dtype).eval()
    ours = from_pyg(theirs)
    back = to_pyg(ours)
    assert not ours.training
    assert not back.training
    assert str(back) == str(ours) == str(theirs)
    assert_same(ours, theirs)
    assert_same(back, theirs)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert_same(back, theirs)  # copies


def test_a_copy_counts_in_its_own_type():
    x = torch.arange(75.0).view(25, 3)
    single = TopKPooling(3, 0.6)
    double = copy.deepcopy(single).double()
    no_edge = EDGES[:, :0]
    assert len(single(x, no_edge).perm) == 16
    assert len(double(x.double(), no_edge).perm) == 15


@pytest.mark.parametrize(
    "ours",
    [
        SAGPool(3),
        SAGPool(3, 0.6),
        SAGPool(3, 1.0),
        SAGPool(3, k=4, conv="cheb"),
        SAGPool(3, conv="sage", nonlinearity="sigmoid"),
        SAGPool(3, conv="gat", multiplier=3.0),
        SAGPool(3, 1.0, conv="gin"),  # its ReLU makes ties
        SAGPool(3, min_score=0.02),
        SAGPool(3, 0.3, pyg.ChebConv, K=3),
        GPool(3, 0.7),
        GPool(3, 2, nonlinearity=torch.abs),
        GPool(3, min_score=0.1),
    ],
    ids=lambda layer: f"{layer!r} {next(iter(layer.state_dict()))}",
)
def test_the_papers_layers(ours):
    ours = copy.deepcopy(ours)
    random = torch.Generator().manual_seed(2)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, generator=random)
    assert_same(ours, to_pyg(ours))
    assert_same(ours.double(), to_pyg(ours))


@pytest.mark.parametrize(
    ("ours", "sentence"),
    [
        (SAGPool(3, augmentation=True), "no layer with augmentation"),
        (SAGPool(3, serial=2), "serial or parallel"),
        (SAGPool(3, parallel=2), "serial or parallel"),
        (SAGPool(3, lowest=True), "lowest scores"),
        (SAGPool(3, conv="mlp"), r"no convolution like sagpool\..*MLPConv"),
        (SAGPool(3, members=2), "A layer of 2 models"),
        (GPool(3, members=2), "A layer of 2 models"),
        (GPool(3, k=np.array([1, 2])), "a k for each graph"),
        (RandomPool(), r"no layer like sagpool\..*RandomPool"),
    ],
)
def test_what_pyg_cannot_express(ours, sentence):
    with pytest.raises(SagpoolError, match=sentence):
        to_pyg(ours)


def test_only_pygs_own_layers_are_converted():
    class Own(pyg.TopKPooling):
        pass

    changed = pyg.TopKPooling(3)
    changed.connect = torch.nn.Identity()
    for layer, sentence in (
        (pyg.EdgePooling(3), "takes a SAGPooling or a TopKPooling of PyG, not .*EdgePooling"),
        (Own(3), "not .*Own"),
        (SAGPooling(3), r"not sagpool\..*SAGPooling"),
        (changed, "parts of your own"),
    ):
        with pytest.raises(SagpoolError, match=sentence):
            from_pyg(layer)
