"""Both architectures against dense float64 references, written from the paper's equations.

One graph at a time, with matrices; gradients are those of plain autograd.
"""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from sagpool.graphs import pack

few = settings(max_examples=10, derandomize=True, phases=[Phase.generate, Phase.shrink])
RATIO, K, HIDDEN = Fraction(3, 5), 4, 8
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def linear(layer, X: Tensor) -> Tensor:
    return X @ layer.weight[0] + layer.bias[0]


def gcn(conv, X: Tensor, A: Tensor) -> Tensor:
    """Equation 10."""
    loops = A + torch.eye(len(A))
    D = loops.sum(1).pow(-0.5).diag()
    return linear(conv.linear, D @ loops @ D @ X)


def edgeless(conv, X: Tensor, _: Tensor) -> Tensor:
    return linear(conv.linear, X)


def readout(X: Tensor) -> Tensor:
    """Equation 11."""
    return torch.cat([X.sum(0) / len(X), X.max(0).values])


def mlp(classifier, s: Tensor) -> Tensor:
    """2h → h, ReLU, h → h / 2, ReLU, → classes; dropout sleeps."""
    hidden = linear(classifier.first, s[None]).relu()
    return linear(classifier.last, linear(classifier.second, hidden).relu())[0]


def top_rank(score: Tensor, count: int) -> list[int]:
    best_first = sorted(range(len(score)), key=lambda node: (-score[node].float(), node))
    return sorted(best_first[:count])


def sagpool(layer, X: Tensor, A: Tensor, count: int):
    """Equations 3 to 5."""
    raw = gcn(layer.attention.gnns[0][0], X, A)[:, 0]
    idx = top_rank(raw, count)
    return X[idx] * raw[idx].tanh()[:, None], A[idx][:, idx], 0, idx


def augmented(layer, X: Tensor, A: Tensor, input_A: Tensor, nodes: list[int], count: int):
    """Equation 7: with A + A², or with the two-hop graph of the input among the nodes left."""
    joined = A + A @ A
    if layer.attention.augmentation == "two-hop":
        joined = (input_A + input_A @ input_A > 0).to(A) * (1 - torch.eye(len(input_A)))
        joined = joined[nodes][:, nodes]
    raw = gcn(layer.attention.gnns[0][0], X, joined)[:, 0]
    idx = top_rank(raw, count)
    return X[idx] * raw[idx].tanh()[:, None], A[idx][:, idx], 0, idx


def complement(layer, X: Tensor, A: Tensor, count: int):
    """Equations 3 to 5, with the lowest scores in place of the highest."""
    raw = gcn(layer.attention.gnns[0][0], X, A)[:, 0]
    idx = top_rank(-raw, count)
    return X[idx] * raw[idx].tanh()[:, None], A[idx][:, idx], 0, idx


def nopool(_, X: Tensor, A: Tensor, __: int):
    return X, A, 0, None


def gpool(layer, X: Tensor, A: Tensor, count: int):
    """Equation 2."""
    p = layer.projection[0, :, 0]
    y = X @ p / p.square().sum().sqrt()
    idx = top_rank(y, count)
    return X[idx] * y[idx].tanh()[:, None], A[idx][:, idx], 0, idx


def diffpool(layer, X: Tensor, A: Tensor, _: int):
    """Equation 1, with the losses of Ying et al. for this graph alone."""
    S = gcn(layer.assign, X, A).softmax(1)
    link = (A - S @ S.T).square().sum().sqrt() / len(A) ** 2
    entropy = -(S * S.log()).sum() / len(A)
    loss = {"both": link + entropy, "link": link, "none": 0}[layer.losses]
    return S.T @ X, S.T @ A @ S, loss, None


def hierarchical(model, X: Tensor, A: Tensor, pool):
    """Figure 2, right."""
    s, auxiliary, nodes, kept, input_A = 0, 0, list(range(len(A))), [], A
    for conv, layer in zip(model.convs, model.pools, strict=True):
        count = math.ceil(RATIO * len(A))
        given = (A, input_A, nodes) if pool is augmented else (A,)
        X, A, loss, idx = pool(layer, gcn(conv, X, A).relu(), *given, count)
        s, auxiliary = s + readout(X), auxiliary + loss
        if idx is not None:
            nodes = [nodes[i] for i in idx]
            kept.append(nodes)
    return mlp(model.classifier, s), auxiliary, kept


def global_(model, X: Tensor, A: Tensor, summarise, convolve=gcn):
    """Figure 2, left."""
    layers = []
    for conv in model.convs:
        before = convolve(conv, X, A)
        X = before.relu()
        layers.append(X)
    s, kept = summarise(model.pool, torch.cat(layers, 1), A, before)
    return mlp(model.classifier, s), 0, kept


def sagpool_g(layer, X: Tensor, A: Tensor, _):
    X, _, _, idx = sagpool(layer, X, A, min(K, len(A)))
    return readout(X), [idx]


def sortpool_g(_, X: Tensor, A: Tensor, before: Tensor):
    """By the last channel, taken before ReLU makes ties of it."""
    idx = top_rank(before[:, -1], min(K, len(A)))
    return readout(X[idx]), [idx]


def sortpool_g_channels(_, X: Tensor, A: Tensor, __):
    """As PyG's ``global_sort_pool`` was up to version 1.4."""
    X = X.sort(dim=-1).values
    idx = top_rank(X[:, -1], min(K, len(A)))
    return readout(X[idx]), [idx]


def set2set_g(layer, X: Tensor, A: Tensor, _):
    """Vinyals et al., with torch's own LSTM cell and 10 steps."""
    width = X.shape[1]
    state = (torch.zeros(1, width), torch.zeros(1, width))
    q_star = torch.zeros(1, 2 * width)
    cell = torch.nn.LSTMCell(2 * width, width)
    weights = {
        "weight_ih": layer.from_input.weight[0].T,
        "weight_hh": layer.from_state.weight[0].T,
        "bias_ih": layer.from_input.bias[0, 0],
        "bias_hh": layer.from_state.bias[0, 0],
    }
    for _ in range(10):
        state = torch.func.functional_call(cell, weights, (q_star, state))
        q = state[0]
        attention = (X @ q[0]).softmax(0)
        q_star = torch.cat([q, attention[None] @ X], 1)
    return q_star[0], []


def nopool_g(_, X: Tensor, A: Tensor, __):
    return readout(X), []


def mlp_g(model, X: Tensor, A: Tensor, summarise):
    return global_(model, X, A, summarise, convolve=edgeless)


REFERENCES = {
    "sagpool-h": (hierarchical, sagpool),
    "gpool-h": (hierarchical, gpool),
    "diffpool-h": (hierarchical, diffpool),
    "complement-h": (hierarchical, complement),
    "nopool-h": (hierarchical, nopool),
    "sagpool-g": (global_, sagpool_g),
    "sortpool-g": (global_, sortpool_g),
    "set2set-g": (global_, set2set_g),
    "nopool-g": (global_, nopool_g),
    "mlp-g": (mlp_g, nopool_g),
    "diffpool-h losses=link": (hierarchical, diffpool),
    "diffpool-h losses=none": (hierarchical, diffpool),
    "sagpool-h-augmentation": (hierarchical, augmented),
    "sagpool-h-augmentation augmentation=two-hop": (hierarchical, augmented),
    "sortpool-g channels=sorted": (global_, sortpool_g_channels),
}


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@few
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 13), min_size=1, max_size=4),
    plain=st.booleans(),
)
@pytest.mark.parametrize("name", REFERENCES)
def test_the_architecture_of_the_paper(name, kit, seed, sizes, plain):
    architecture, pool = REFERENCES[name]
    dense = kit.dense(seed, sizes, plain=plain)
    method, *options = name.split()
    own = dict(option.split("=") for option in options)
    model = kit.model(method, seed, hidden=HIDDEN, ratio=RATIO, k=K, settings=own)
    expected = [
        architecture(model, torch.tensor(graph.X), torch.tensor(graph.A).double(), pool)
        for graph in dense
    ]
    logits = torch.stack([graph[0] for graph in expected])
    auxiliary = torch.stack([torch.as_tensor(graph[1]).double() for graph in expected])
    batch = pack(kit.graphs(dense), [range(len(sizes))])

    output = model(batch)

    torch.testing.assert_close(output.logits[0, :-1], logits, **CLOSE)
    found = torch.zeros(1, len(sizes) + 1) if output.auxiliary is None else output.auxiliary
    torch.testing.assert_close(found[0, :-1], auxiliary, **CLOSE)
    kept = [[nodes.tolist() for nodes in graph] for graph in kit.kept_nodes(output, batch)]
    assert kept == [graph[2] for graph in expected]

    weights = torch.linspace(-1, 2, logits.shape[1])
    losses = (
        (output.logits[0, :-1] * weights).sum() + found[0, :-1].sum(),
        (logits * weights).sum() + auxiliary.sum(),
    )
    ours, theirs = (
        torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)
        for loss in losses
    )
    for (parameter, _), mine, reference in zip(model.named_parameters(), ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, **CLOSE, msg=lambda m, p=parameter: f"{p}: {m}")


@pytest.mark.parametrize(
    ("name", "width"),
    [
        *(("sagpool-h", 24), ("diffpool-h", 24), ("nopool-h", 24)),
        *(("sagpool-g", 72), ("set2set-g", 72), ("nopool-g", 72), ("mlp-g", 72)),
    ],
)
def test_the_widths_of_the_classifier(name, width, kit):
    classifier = kit.model(name, hidden=12).classifier
    layers = classifier.first, classifier.second, classifier.last
    shapes = [tuple(layer.weight.shape[1:]) for layer in layers]
    assert shapes == [(width, 12), (12, 6), (6, 3)]
