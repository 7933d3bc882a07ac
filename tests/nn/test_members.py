"""A member is alone in the world: what holds for every layer, whoever else is in the fleet."""

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from sagpool.nn import (
    AttentionScore,
    ChebConv,
    Context,
    DiffPool,
    Dropout,
    GATConv,
    GCNConv,
    GINConv,
    GPool,
    Linear,
    MLPConv,
    Norm,
    Pool,
    RandomPool,
    SAGEConv,
    SAGPool,
    Set2Set,
    SortConv,
    SortPool,
    Streams,
    TriangleConv,
)

pytestmark = pytest.mark.usefixtures("path")

KEYS = torch.tensor([3, 1, 4])


class Deep(nn.Module):
    """Layer upon layer; after the first pooling, devices have entries to spare."""

    def __init__(self, members):
        super().__init__()
        self.convs = nn.ModuleList(
            [
                GCNConv(3, 4, members=members),
                GATConv(4, 4, heads=2, members=members),
                ChebConv(4, 4, members=members),
                GCNConv(4, 4, members=members),
            ]
        )
        self.pools = nn.ModuleList(
            [
                SAGPool(4, 0.8, members=members),
                SAGPool(4, 0.7, conv="gat", augmentation=True, members=members),
                GPool(4, 0.6, members=members),
                SAGPool(4, 0.8, augmentation="two-hop", members=members),
            ]
        )

    def forward(self, x, adjacency):
        out = 0
        for conv, pool in zip(self.convs, self.pools, strict=True):
            pooled = pool(conv(x, adjacency).tanh(), adjacency)
            x, adjacency = pooled.x, pooled.structure
            out = out + pooled.readout()
        return out


class DeepDiffPool(nn.Module):
    def __init__(self, members):
        super().__init__()
        self.pools = nn.ModuleList(DiffPool(3, clusters, members=members) for clusters in (4, 2))

    def forward(self, x, adjacency):
        first = self.pools[0](x, adjacency)
        second = self.pools[1](first.x, first.structure)
        return torch.cat([second.readout(), first.auxiliary[:, None]], dim=1)


LAYERS = {
    "linear": lambda m: Linear(3, 4, members=m),
    "gcn": lambda m: GCNConv(3, 2, members=m),
    "gcn, wider": lambda m: GCNConv(3, 4, members=m),
    "cheb": lambda m: ChebConv(3, 4, K=3, members=m),
    "sage": lambda m: SAGEConv(3, 4, members=m),
    "gat": lambda m: GATConv(3, 2, members=m),
    "gin": lambda m: GINConv(3, 4, members=m),
    "mlp": lambda m: MLPConv(3, 4, members=m),
    "triangle": lambda m: TriangleConv(3, 4, members=m),
    "norm": lambda m: Norm(3, members=m),
    "score, augmentation": lambda m: AttentionScore(3, augmentation=True, serial=2, members=m),
    "score, two-hop": lambda m: AttentionScore(3, augmentation="two-hop", members=m),
    "score, parallel": lambda m: AttentionScore(3, "sage", parallel=2, members=m),
    "score, gat augmentation": lambda m: AttentionScore(3, "gat", augmentation=True, members=m),
    "sag": lambda m: SAGPool(3, members=m),
    "sag, lowest": lambda m: SAGPool(3, lowest=True, members=m),
    "sag, min_score": lambda m: SAGPool(3, min_score=0.2, members=m),
    "topk": lambda m: GPool(3, k=2, members=m),
    "sort": lambda m: SortPool(2),
    "sort, channels": lambda m: SortPool(2, sort_channels=True),
    "sort conv": lambda m: SortConv(3, 10, members=m),
    "set2set": lambda m: Set2Set(3, steps=3, members=m),
    "random": lambda m: RandomPool(0.4),
    "dropout": lambda m: Dropout(),
    "diff": lambda m: DiffPool(3, 4, members=m),
    "diff, link loss": lambda m: DiffPool(3, 4, losses="link", members=m),
    "deep": Deep,
    "deep diff": DeepDiffPool,
}


@pytest.fixture(params=LAYERS)
def layer_for(request):
    def make(members):
        torch.manual_seed(1)
        return LAYERS[request.param](members).double()

    return make


def results(layer, packed, x, keys, parameters=None):
    """All that a layer says about each real graph, as one row of numbers for each."""
    inputs = [x] if isinstance(layer, (Linear, Dropout)) else [x, packed.adjacency]
    if isinstance(layer, Dropout):
        inputs.append(Streams(keys))
    if isinstance(layer, Pool):
        inputs.append(Context(Streams(keys)))
    if isinstance(layer, Norm):
        inputs[1] = packed.adjacency.layout
    out = torch.func.functional_call(layer, parameters or {}, tuple(inputs))
    if isinstance(layer, Pool) and layer.leaves == "graphs":
        return [out.x[place] for place in packed.places]
    if isinstance(out, torch.Tensor):
        if len(out) == packed.adjacency.layout.sizes.size:  # one row for each graph
            return [out[place] for place in packed.places]
        return [part.flatten() for part in packed.split(out)]
    fields, level = [], getattr(out, "structure", None)
    fields_of = out._asdict() if isinstance(out, tuple) else {**vars(out), "score": out.score}
    fields_of = {name: value for name, value in fields_of.items() if value is not None}
    for name, value in fields_of.items():
        if name in ("rank", "gate", "assignment"):
            fields.append([part.flatten() for part in packed.split(value)])
        elif name in ("x", "score"):
            fields.append([part.flatten() for part in packed.split(value, level)])
        elif name == "auxiliary":
            fields.append([value[place].view(1) for place in packed.places])
    return [torch.cat(parts) for parts in zip(*fields, strict=True)]


def member_of(packed, graph):
    return packed.places[graph] // packed.adjacency.layout.graphs


def gradients(results, layer, x):
    inputs = [x, *layer.parameters()]
    loss = sum(result.square().sum() for result in results)
    return torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)


def test_a_fleet_of_three_equals_three_single_ones(layer_for, fleet, alone):
    layer = layer_for(3)
    x = fleet.features(3)
    together = results(layer, fleet, x, KEYS)
    grads = gradients(together, layer, x)
    stacked = x.view(3, -1, 3)
    for m, member in enumerate(alone):
        single = layer_for(1)
        single.load_state_dict({n: p[m : m + 1] for n, p in layer.state_dict().items()})
        own = torch.zeros(len(member.adjacency.layout.graph), 3, dtype=torch.float64)
        nodes = sum(len(A) for A in member.matrices)
        own[:nodes] = stacked[m, :nodes].detach()
        own.requires_grad_()
        by_itself = results(single, member, own, KEYS[m : m + 1])
        in_fleet = [r for g, r in enumerate(together) if member_of(fleet, g) == m]
        torch.testing.assert_close(by_itself, in_fleet)
        own_grads = gradients(by_itself, single, own)
        torch.testing.assert_close(own_grads[0][:nodes], grads[0].view(3, -1, 3)[m, :nodes])
        for alone_grad, fleet_grad in zip(own_grads[1:], grads[1:], strict=True):
            torch.testing.assert_close(alone_grad[0], fleet_grad[m])


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_nan_touches_nobody_else(layer_for, fleet, broken):
    layer = layer_for(3)
    x = fleet.features(3)
    healthy = results(layer, fleet, x, KEYS)
    healthy_grads = gradients(healthy, layer, x)
    sick = x.detach().clone()
    sick.view(3, -1, 3)[broken] = torch.nan
    sick.requires_grad_()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter[broken] = torch.nan
    after = results(layer, fleet, sick, KEYS)
    grads = gradients(after, layer, sick)
    others = [m for m in range(3) if m != broken]
    for graph, (before, now) in enumerate(zip(healthy, after, strict=True)):
        if member_of(fleet, graph) == broken:
            assert now.isnan().any()
        else:
            torch.testing.assert_close(now, before)
    for before, now in zip(healthy_grads, grads, strict=True):
        per_member = before.view(3, -1)[others], now.view(3, -1)[others]
        torch.testing.assert_close(per_member[1], per_member[0])


def test_gradients(layer_for, packed):
    batch = packed(["one node", "components"], ["triangle with a tail", "pair"])
    layer = layer_for(2)
    names = [name for name, _ in layer.named_parameters()]

    def numbers(x, *parameters):
        values = dict(zip(names, parameters, strict=True))
        return torch.cat(results(layer, batch, x, KEYS[:2], values))

    inputs = (batch.features(3), *(p.detach().requires_grad_() for p in layer.parameters()))
    assert gradcheck(numbers, inputs, fast_mode=True)
