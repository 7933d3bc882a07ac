"""The calls that PyG's documentation, tests and examples show, on both libraries.

Each gives the same, up to the order of rows, or is a row of the table in ``docs/pyg.md``.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg
from torch_geometric.utils import scatter

from sagpool import nn as own

CHANNELS = 4


def some_graphs():
    """Rows, edges and batch: 25 nodes, one, none, seven; loops, double and one-way edges."""
    random = torch.Generator().manual_seed(3)
    batch = torch.tensor([0] * 25 + [1] + [3] * 7)
    x = torch.randn(len(batch), CHANNELS, generator=random)
    ends = torch.randint(0, len(batch), (2, 300), generator=random)
    return x, ends[:, batch[ends[0]] == batch[ends[1]]], batch


X, EDGES, BATCH = some_graphs()
ATTR = torch.arange(2.0 * EDGES.shape[1]).view(-1, 2)
SHUFFLED = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))


def by_node(out):
    """The results with rows in the order of the nodes, and edges between input nodes."""
    x, edge_index, edge_attr, batch, perm, score = out
    order = perm.argsort()
    return x[order], perm[edge_index], edge_attr, batch[order], perm[order], score[order]


def assert_same(ours, theirs):
    for mine, other in zip(by_node(ours), by_node(theirs), strict=True):
        if other is None:
            assert mine is None
        else:
            torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-5)


def gradients(layer, out):
    x, *_, score = by_node(out)
    loss = (x * x.detach().cos()).sum() + score.sum()
    return torch.autograd.grad(loss, [*layer.parameters()], allow_unused=True)


MADE = {
    "TopKPooling": {
        "in_channels alone": ((), {}),
        "ratio": ((), {"ratio": 0.5}),
        "ratio by position": ((0.8,), {}),
        "inexact ratio": ((0.6,), {}),
        "integer": ((), {"ratio": 2}),
        "one": ((1,), {}),
        "one as a float": ((1.0,), {}),
        "more than there are": ((100,), {}),
        "no ratio": ((), {"ratio": None, "min_score": 0.1}),
        "min_score": ((), {"min_score": 0.05}),
        "high min_score": ((), {"min_score": 1.0}),
        "all by position": ((0.5, None, 2.0, "sigmoid"), {}),
        "min_score by position": ((None, 0.2, 0.5), {}),
        "function": ((), {"nonlinearity": torch.sigmoid}),
        "not monotone": ((), {"nonlinearity": torch.abs}),
        "module": ((), {"nonlinearity": nn.Tanh()}),
        "with a parameter": ((), {"nonlinearity": "prelu"}),
        "nonlinearity is not for min_score": ((), {"min_score": 0.1, "nonlinearity": "relu"}),
    },
    "SAGPooling": {
        "in_channels alone": ((), {}),
        "ratio by position": ((0.8,), {}),
        "GNN by position": ((0.5, pyg.GCNConv), {}),
        "all by position": ((0.5, pyg.SAGEConv, None, 2.0, "sigmoid"), {}),
        **{
            f"{conv.__name__}, {name}": ((), {"GNN": conv, **options})
            for conv in (pyg.GraphConv, pyg.GCNConv, pyg.GATConv, pyg.SAGEConv)
            for name, options in {
                "half": {"ratio": 0.5},
                "six tenths": {"ratio": 0.6},
                "min_score": {"ratio": None, "min_score": 0.1},
                "two": {"ratio": 2},
            }.items()
        },
        "one": ((1, pyg.GCNConv), {}),
        "heads": ((), {"GNN": pyg.GATConv, "heads": 3}),
        "aggr": ((), {"GNN": pyg.GraphConv, "aggr": "max"}),
        "mean": ((), {"GNN": pyg.GraphConv, "aggr": "mean", "bias": False}),
        "improved": ((), {"GNN": pyg.GCNConv, "improved": True}),
        "no loops": ((), {"GNN": pyg.GCNConv, "add_self_loops": False}),
        "no bias": ((), {"GNN": pyg.GCNConv, "bias": False}),
        "no root": ((), {"GNN": pyg.SAGEConv, "root_weight": False}),
        "projected": ((), {"GNN": pyg.SAGEConv, "project": True}),
        "K": ((), {"GNN": pyg.ChebConv, "K": 3}),
        "another convolution": ((), {"GNN": pyg.TransformerConv}),
        "multiplier": ((), {"GNN": pyg.GCNConv, "multiplier": 2.0, "nonlinearity": "softplus"}),
    },
}
CASES = [(kind, name) for kind, named in MADE.items() for name in named]


def both(kind, name, seed=0):
    """PyG's layer and ours, made by the same call, with the same random numbers."""
    args, options = MADE[kind][name]
    layers = []
    for module in (pyg, own):
        torch.manual_seed(seed)
        layers.append(getattr(module, kind)(CHANNELS, *args, **options))
    return layers


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_same_call_makes_the_same_layer(kind, name):
    theirs, ours = both(kind, name)
    assert str(ours) == str(theirs)
    for attribute in ("in_channels", "ratio", "min_score", "multiplier"):
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert str(ours.select) == str(theirs.select)
    assert str(ours.connect) == str(theirs.connect)
    weights = theirs.state_dict()
    assert [*ours.state_dict()] == [*weights]
    assert all(torch.equal(ours.state_dict()[key], weights[key]) for key in weights)
    with torch.no_grad():
        theirs.select.weight.neg_()
    ours.load_state_dict(theirs.state_dict())
    assert_same(ours(X, EDGES, ATTR, BATCH), theirs(X, EDGES, ATTR, BATCH))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_same_gradients(kind, name):
    theirs, ours = (layer.double() for layer in both(kind, name))
    actual, expected = (layer(X.double(), EDGES, ATTR, BATCH) for layer in (ours, theirs))
    assert_same(actual, expected)
    for mine, other in zip(gradients(ours, actual), gradients(theirs, expected), strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            torch.testing.assert_close(mine, other)


def own_layer(theirs, kind, name):
    """`SAGPool` or `GPool` by the same call, with PyG's weights and no second one."""
    args, options = MADE[kind][name]
    ours = (own.SAGPool if kind == "SAGPooling" else own.GPool)(CHANNELS, *args, **options)
    with torch.no_grad():
        if kind == "SAGPooling":
            theirs.select.weight.fill_(1)
            ours.gnn.load_state_dict(theirs.gnn.state_dict())
        else:
            ours.projection.copy_(theirs.select.weight.view_as(ours.projection))
    return ours


# What the table says about them: another default, exact products, and 1.0 as all nodes.
TABLED = {
    ("SAGPooling", "in_channels alone"),
    ("SAGPooling", "ratio by position"),
    ("TopKPooling", "inexact ratio"),
    ("TopKPooling", "one as a float"),
    *(case for case in CASES if "six tenths" in case[1]),
}


@pytest.mark.parametrize(("kind", "name"), [case for case in CASES if case not in TABLED])
def test_the_papers_layers_take_pygs_arguments(kind, name):
    theirs = both(kind, name)[0]
    ours = own_layer(theirs, kind, name)
    assert_same(ours(X, EDGES, ATTR, BATCH), theirs(X, EDGES, ATTR, BATCH))


NO_EDGE = EDGES[:, :0]
NARROW = X[:, :1].contiguous()
CALLS = {
    "one graph": lambda pool: pool(X, EDGES),
    "with features of edges": lambda pool: pool(X, EDGES, ATTR),
    "with weights of edges": lambda pool: pool(X, EDGES, ATTR[:, 0]),
    "batch by position": lambda pool: pool(X, EDGES, None, BATCH),
    "batch by name": lambda pool: pool(X, EDGES, batch=BATCH),
    "all by name": lambda pool: pool(x=X, edge_index=EDGES, edge_attr=ATTR, batch=BATCH),
    "a graph without nodes in front": lambda pool: pool(X, EDGES, ATTR, BATCH + 2),
    "not sorted": lambda pool: pool(X, EDGES, ATTR, BATCH[SHUFFLED]),
    "falling": lambda pool: pool(X, EDGES, ATTR, 7 - BATCH),
    "attn": lambda pool: pool(X @ torch.ones(CHANNELS, 9), EDGES, None, BATCH, attn=X),
    "attn by position": lambda pool: pool(X, EDGES, ATTR, BATCH, X.flip(1)),
    "attn, not sorted": lambda pool: pool(X, EDGES, ATTR, BATCH[SHUFFLED], X.flip(1)),
    "no edge": lambda pool: pool(X, NO_EDGE, ATTR[:0], BATCH),
    "no node": lambda pool: pool(X[:0], NO_EDGE, None, BATCH[:0]),
    "no node, no batch": lambda pool: pool(X[:0], NO_EDGE),
    "every graph a node": lambda pool: pool(X, NO_EDGE, None, torch.arange(len(X))),
    "int32 edges": lambda pool: pool(X, EDGES.int(), None, BATCH),
}


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("TopKPooling", "ratio"),
        ("TopKPooling", "min_score"),
        ("SAGPooling", "in_channels alone"),
        ("SAGPooling", "GCNConv, half"),
        ("SAGPooling", "GCNConv, min_score"),
        ("SAGPooling", "GATConv, two"),
    ],
)
def test_the_same_call_gives_the_same(kind, name, call):
    theirs, ours = both(kind, name)
    theirs.load_state_dict(ours.state_dict())
    assert_same(CALLS[call](ours), CALLS[call](theirs))
    if (kind, name) not in TABLED:
        paper = own_layer(theirs, kind, name)
        assert_same(CALLS[call](paper), CALLS[call](theirs))


@pytest.mark.parametrize("kind", ["TopKPooling", "SAGPooling"])
def test_attn_with_one_number_per_node(kind):
    theirs = getattr(pyg, kind)(1)
    ours = own.from_pyg(theirs)
    assert_same(ours(X, EDGES, attn=X[:, 0]), theirs(X, EDGES, attn=X[:, 0]))


def test_explainers_of_pyg_see_the_messages():
    """An edge mask changes the scores, by PyG's own operator."""
    theirs = pyg.SAGPooling(CHANNELS, GNN=pyg.GCNConv)
    ours = own.from_pyg(theirs)
    before = ours(X, EDGES).score
    for layer in (theirs, ours):
        layer.gnn.explain = True
        layer.gnn._edge_mask = torch.zeros(EDGES.shape[1])
        layer.gnn._loop_mask = EDGES[0] != EDGES[1]
        layer.gnn._apply_sigmoid = True
    assert_same(ours(X, EDGES), theirs(X, EDGES))
    assert not torch.equal(ours(X, EDGES).score, before)


class Nets:
    """The nets of PyG's examples, smaller."""

    class Colors(nn.Module):
        """examples/colors_topk_pool.py: the input decides, hidden rows are pooled."""

        def __init__(self, layers):
            super().__init__()
            self.conv1 = pyg.GINConv(nn.Sequential(nn.Linear(CHANNELS, 8), nn.ReLU()))
            self.pool1 = layers.TopKPooling(CHANNELS, min_score=0.05)
            self.conv2 = pyg.GINConv(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))

        def forward(self, x, edge_index, batch):
            out = self.conv1(x, edge_index).relu()
            out, edge_index, _, batch, perm, score = self.pool1(
                out, edge_index, None, batch, attn=x
            )
            out = pyg.global_add_pool(self.conv2(out, edge_index).relu(), batch)
            truth = x[:, 0].softmax(0)
            loss = F.kl_div((score + 1e-14).log(), truth[perm], reduction="none")
            return out.sum() + scatter(loss, batch, reduce="mean").sum()

    class Triangles(nn.Module):
        """examples/triangles_sag_pool.py: two levels with a min_score."""

        def __init__(self, layers):
            super().__init__()
            sizes = (CHANNELS, 8, 8)
            self.convs = nn.ModuleList(
                pyg.GINConv(nn.Sequential(nn.Linear(size, 8), nn.ReLU())) for size in sizes
            )
            self.pools = nn.ModuleList(
                layers.SAGPooling(8, min_score=0.03, GNN=pyg.GCNConv) for _ in range(2)
            )

        def forward(self, x, edge_index, batch):
            for conv, pool in zip(self.convs, self.pools, strict=False):
                x = conv(x, edge_index).relu()
                x, edge_index, _, batch, _perm, score = pool(x, edge_index, None, batch)
            x = pyg.global_max_pool(self.convs[2](x, edge_index), batch)
            return x.sum() + score.square().sum()

    class Proteins(nn.Module):
        """examples/proteins_topk_pool.py: three levels, their readouts added up."""

        def __init__(self, layers):
            super().__init__()
            sizes = (CHANNELS, 8, 8)
            self.convs = nn.ModuleList(pyg.GraphConv(size, 8) for size in sizes)
            self.pools = nn.ModuleList(layers.TopKPooling(8, ratio=0.8) for _ in sizes)

        def forward(self, x, edge_index, batch):
            total = 0
            for conv, pool in zip(self.convs, self.pools, strict=True):
                x = conv(x, edge_index).relu()
                x, edge_index, _, batch, _, _ = pool(x, edge_index, None, batch)
                total = total + pyg.global_max_pool(x, batch) + pyg.global_mean_pool(x, batch)
            return total.square().sum()

    class Kernel(nn.Module):
        """benchmark/kernel/sag_pool.py: layers of the default kind, concatenated readouts."""

        def __init__(self, layers):
            super().__init__()
            self.convs = nn.ModuleList(
                pyg.GraphConv(size, 8, aggr="mean") for size in (CHANNELS, 8)
            )
            self.pool = layers.SAGPooling(8, 0.8)
            self.jump = pyg.JumpingKnowledge(mode="cat")
            self.reset_parameters()

        def reset_parameters(self):
            for layer in (*self.convs, self.pool):
                layer.reset_parameters()

        def forward(self, x, edge_index, batch):
            x = self.convs[0](x, edge_index).relu()
            xs = [pyg.global_mean_pool(x, batch)]
            x, edge_index, _, batch, _, _ = self.pool(x, edge_index, batch=batch)
            xs += [pyg.global_mean_pool(self.convs[1](x, edge_index).relu(), batch)]
            return self.jump(xs).square().sum()


@pytest.mark.parametrize("net", [name for name in vars(Nets) if not name.startswith("_")])
def test_the_nets_of_pygs_examples(net):
    losses, slopes = [], []
    for layers in (pyg, own):
        torch.manual_seed(0)
        model = getattr(Nets, net)(layers)
        loss = model(X, EDGES, BATCH)
        losses.append(loss)
        slopes.append(torch.autograd.grad(loss, [*model.parameters()], materialize_grads=True))
    torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(*slopes, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_pygs_graph_u_net_with_our_layers():
    torch.manual_seed(0)
    net = pyg.GraphUNet(CHANNELS, 8, 3, depth=3)
    expected = net(X, EDGES, BATCH)
    net.pools = nn.ModuleList(own.from_pyg(pool) for pool in net.pools)
    torch.testing.assert_close(net(X, EDGES, BATCH), expected, rtol=1e-5, atol=1e-5)
