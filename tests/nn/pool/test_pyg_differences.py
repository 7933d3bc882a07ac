"""The table of differences in ``docs/pyg.md``: each row, shown on both libraries."""

import re
from pathlib import Path

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.explain.algorithm.utils import set_masks

from sagpool.errors import SagpoolError
from sagpool.nn import GPool, SAGPool, SAGPooling, TopKPooling, from_pyg

PAGE = Path(__file__).parents[3] / "docs" / "pyg.md"
NO_EDGE = torch.zeros(2, 0, dtype=torch.int64)
RING = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])


def table():
    """The first cell of each row."""
    text = PAGE.read_text("utf-8").split("## Differences")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \|", text, re.M)
    assert rows[0] == "what"
    return rows[1:]


def kept(layer, x, edge_index=NO_EDGE):
    return layer(x, edge_index)[4].tolist()


def projecting(layer, *p):
    """The layer with this projection, ours or PyG's."""
    weight = layer.projection if isinstance(layer, GPool) else layer.select.weight
    with torch.no_grad():
        weight.copy_(torch.tensor(p).view_as(weight))
    return layer


def three(*args, **options):
    """PyG's layer, ours of that name, and the paper's, for rows of one channel."""
    kinds = (pyg.TopKPooling, TopKPooling, GPool)
    return [projecting(kind(1, *args, **options), 1.0) for kind in kinds]


def column(*values):
    return torch.tensor(values)[:, None]


def row_order():
    x = column(0.1, 0.9, 0.5, 0.7)
    assert [kept(layer, x) for layer in three(3)] == [[1, 3, 2], [1, 2, 3], [1, 2, 3]]
    batch = torch.tensor([1, 0, 1, 0])
    orders = [layer(x, NO_EDGE, None, batch)[4].tolist() for layer in three(1)]
    assert orders == [[1, 2], [1, 2], [1, 2]]
    batch = torch.tensor([1, 1, 0, 0])
    orders = [layer(x, NO_EDGE, None, batch)[4].tolist() for layer in three(1)]
    assert orders == [[3, 1], [1, 3], [1, 3]]


def ties():
    x = torch.ones(40, 1)
    theirs, ours, papers = (kept(layer, x) for layer in three(5))
    assert len(theirs) == 5  # which ones, torch.sort decides
    assert ours == papers == [0, 1, 2, 3, 4]


def saturated_tanh():
    x = torch.linspace(20, 40, 40)[:, None]
    theirs, ours, papers = three(5)
    assert theirs(x, NO_EDGE)[5].tolist() == [1.0] * 5
    assert kept(ours, x) == kept(papers, x) == [35, 36, 37, 38, 39]


def inexact_ratio():
    x = torch.arange(25.0)[:, None] / 25
    assert [len(kept(layer, x)) for layer in three(0.6)] == [16, 16, 15]
    x = x.double()
    assert [len(kept(layer.double(), x)) for layer in three(0.6)] == [15, 15, 15]


def ratio_of_one():
    assert [len(kept(layer, torch.rand(6, 1))) for layer in three(1.0)] == [1, 1, 6]
    assert [len(kept(layer, torch.rand(6, 1))) for layer in three(1)] == [1, 1, 1]


def default_score():
    assert "GraphConv" in str(pyg.SAGPooling(3)) == str(SAGPooling(3))
    assert next(iter(SAGPool(3).state_dict())) == "attention.gnns.0.0.linear.weight"


def second_weight():
    x = torch.linspace(0, 1, 6)[:, None]
    theirs = pyg.SAGPooling(1, 2, GNN=pyg.GraphConv)
    papers = SAGPool(1, 2, GNN=pyg.GraphConv)
    with torch.no_grad():
        for gnn in (theirs.gnn, papers.gnn):
            gnn.lin_root.weight.fill_(1)
        theirs.select.weight.fill_(-1e-3)
    assert sorted(kept(theirs, x)) == kept(from_pyg(theirs), x) == [0, 1]
    assert kept(papers, x) == [4, 5]


def weights():
    assert [*pyg.SAGPooling(3, GNN=pyg.GCNConv).state_dict()] == [
        "gnn.bias",
        "gnn.lin.weight",
        "select.weight",
    ]
    assert [*SAGPool(3, GNN=pyg.GCNConv).state_dict()] == ["gnn.bias", "gnn.lin.weight"]
    assert [*TopKPooling(3).state_dict()] == ["select.weight"]
    assert [*GPool(3).state_dict()] == ["projection"]


def zero_projection():
    x = torch.rand(4, 1)
    theirs, ours, papers = (projecting(layer, 0.0)(x, NO_EDGE)[5] for layer in three(2))
    assert theirs.isnan().all()
    assert not ours.any()
    assert not papers.any()


def nan_with_min_score():
    x = column(0.5, float("nan"), 0.1)
    assert [len(kept(layer, x)) for layer in three(min_score=0.1)] == [0, 1, 1]


def half_with_min_score():
    x = column(0.5, 0.7, 0.1).bfloat16()
    layers = [layer.bfloat16() for layer in three(min_score=0.9)]
    assert [kept(layer, x) for layer in layers] == [[], [1], [1]]


def convolved(own, theirs, edge_index):
    """The score of PyG's convolution, and ours with the same weights."""
    papers = SAGPool(2, 1.0, conv=own)
    conv = papers.attention.gnns[0][0]
    for parameter in (*conv.parameters(), *theirs.parameters()):
        torch.nn.init.ones_(parameter)
    x = torch.arange(12.0).view(6, 2) / 100
    through = SAGPool(2, 1.0, GNN=lambda *_: theirs)
    expected = theirs(x, edge_index).view(-1).tanh()
    torch.testing.assert_close(through(x, edge_index).score, expected)
    return papers(x, edge_index).score, expected


def loops_in_sage():
    own, theirs = convolved("sage", pyg.SAGEConv(2, 1), RING)
    torch.testing.assert_close(own, theirs)
    own, theirs = convolved("sage", pyg.SAGEConv(2, 1), torch.cat([RING, RING[:1].tile(2, 1)], 1))
    assert not torch.allclose(own, theirs)


def directed_cheb():
    own, theirs = convolved("cheb", pyg.ChebConv(2, 1, K=2), torch.cat([RING, RING.flip(0)], 1))
    torch.testing.assert_close(own, theirs)
    own, theirs = convolved("cheb", pyg.ChebConv(2, 1, K=2), torch.tensor([[0, 0, 1], [1, 2, 2]]))
    assert not torch.allclose(own, theirs)


def refused_inputs():
    x = torch.rand(4, 1)
    assert pyg.TopKPooling(1)(x[:, 0], NO_EDGE)[0].shape == (2, 2)  # nobody meant that
    for _, *ours in (three(), three(min_score=0.5)):
        for layer in ours:
            for wrong in (x[:, 0], x.long(), x.double()):
                with pytest.raises(SagpoolError):
                    layer(wrong, NO_EDGE)
    for kind in (SAGPooling, SAGPool, TopKPooling, GPool):
        for options in ({"ratio": 0}, {"min_score": 2.0}, {"in_channels": -1}):
            with pytest.raises(SagpoolError):
                kind(**{"in_channels": 3, **options})
    with pytest.raises(SagpoolError, match="at most 1"):
        GPool(3, 2.5)


def edge_masks():
    x = torch.arange(6.0)[:, None]
    layers = {kind: kind(1, GNN=pyg.GCNConv) for kind in (pyg.SAGPooling, SAGPooling, SAGPool)}
    layers["own score"] = SAGPool(1)
    for kind, layer in layers.items():
        before = layer(x, RING)[5]
        set_masks(layer, torch.full((6,), -9.0), RING)
        assert torch.equal(layer(x, RING)[5], before) == (kind == "own score")


def scripting():
    for kind in (SAGPooling, SAGPool, TopKPooling, GPool):
        with pytest.raises(SagpoolError, match=r"does not work with torch\.jit"):
            torch.jit.script(kind(3))


DIFFERENCES = {
    "row order": row_order,
    "ties": ties,
    "saturated tanh": saturated_tanh,
    "inexact ratio": inexact_ratio,
    "ratio of 1.0": ratio_of_one,
    "default score": default_score,
    "second weight": second_weight,
    "weights": weights,
    "zero projection": zero_projection,
    "NaN with min_score": nan_with_min_score,
    "half with min_score": half_with_min_score,
    "loops in sage": loops_in_sage,
    "directed cheb": directed_cheb,
    "refused inputs": refused_inputs,
    "edge masks": edge_masks,
    "scripting": scripting,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("what", table())
def test_a_row_of_the_table(what):
    DIFFERENCES[what]()


def test_the_table_has_all_differences():
    assert table() == [*DIFFERENCES]
