"""`sagnet` and `gin-g` against dense float64 references, one graph at a time."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from sagpool import SagpoolError, testing
from sagpool.graphs import pack

RATIO, HIDDEN = 0.6, 8
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def linear(layer, X: Tensor) -> Tensor:
    return X @ layer.weight[0] + layer.bias[0]


def standardised(layer, X: Tensor) -> Tensor:
    return linear(layer, (X - layer.mean[0]) * layer.scale[0])


def standard(layer, x: Tensor) -> Tensor:
    return ((x - layer.mean[0]) * layer.scale[0]).asinh()


def normed(layer, X: Tensor, kind: str) -> Tensor:
    if kind == "none":
        return X
    if kind == "row":
        return layer_norm(X, X.shape[-1:], layer.scale[0, 0], layer.shift[0, 0])
    centred = X - layer.mean_scale[0] * X.mean(0)
    return layer.scale[0] * centred / (centred.square().mean(0) + 1e-5).sqrt() + layer.shift[0]


def block(layer, X: Tensor, A: Tensor, norm: str) -> Tensor:
    h = linear(layer.first, A @ X + X)
    h = linear(layer.second, normed(layer.norms[0], h, norm).relu())
    return X + normed(layer.norms[1], h, norm).relu()


def sagpool(layer, X: Tensor, A: Tensor):
    """Equations 3 to 5, with the score of GraphSAGE."""
    conv = layer.attention.gnns[0][0]
    mean = A @ X / A.sum(1, keepdim=True).clamp(min=1)
    raw = (X @ conv.root.weight[0] + mean @ conv.neighbours.weight[0] + conv.neighbours.bias[0])[
        :, 0
    ]
    count = math.ceil(RATIO * len(A))
    best_first = sorted(range(len(A)), key=lambda node: (-raw[node].float(), node))
    idx = sorted(best_first[:count])
    return X[idx] * raw[idx].tanh()[:, None], A[idx][:, idx]


def readout(scale: Tensor, X: Tensor) -> Tensor:
    return torch.cat([scale.view(()) * X.sum(0), X.mean(0), X.amax(0)])


def mlp(classifier, r: Tensor) -> Tensor:
    hidden = linear(classifier.first, r).relu()
    return linear(classifier.last, linear(classifier.second, hidden).relu())


def dense_sagnet(model, X: Tensor, A: Tensor, norm: str) -> Tensor:
    sums, read = X.sum(0, keepdim=True), []
    X = standardised(model.encoder, X)
    for level, layer in enumerate(model.blocks):
        X = block(layer, X, A, norm)
        read.append(readout(model.readout.scale, X))
        if len(model.pools):
            X, A = sagpool(model.pools[level], X, A)
            read.append(readout(model.readout.scale, X))
    r = standard(model.of_levels, torch.cat(read)[None])
    return (mlp(model.classifier, r) + linear(model.linear, standard(model.of_inputs, sums)))[0]


def dense_gin(model, X: Tensor, A: Tensor, kind: str) -> Tensor:
    """Xu et al., Equations 4.1 and 4.2; with sums in the latter, or another readout."""
    read = []
    for conv in model.convs:
        X = linear(conv.second, linear(conv.first, A @ X + X).relu()).relu()
        parts = {"sum": X.sum(0), "mean": X.mean(0), "max": X.amax(0)}
        read += [parts[part] for part in kind.split("-")]
    return mlp(model.classifier, torch.cat(read)[None])[0]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("sagnet", {}),
        ("sagnet", {"norm": "graph", "depth": 2}),
        ("sagnet", {"norm": "row"}),
        ("sagnet", {"pooling": False}),
        ("gin-g", {"layers": 3}),
        ("gin-g", {"readout": "mean"}),
        ("gin-g", {"readout": "max"}),
        ("gin-g", {"readout": "mean-max"}),
    ],
)
def test_the_net_is_its_equation(name, own, kit):
    sizes = [7, 1, 12, 2, 9]
    dense = kit.dense(3, sizes)
    model = kit.model(name, 4, ratio=RATIO, hidden=HIDDEN, settings=own)
    logits = model(pack(kit.graphs(dense), [range(len(sizes))])).logits[0, :-1]
    expected = []
    for graph in dense:
        X, A = torch.from_numpy(graph.X).double(), torch.from_numpy(graph.A).double()
        expected.append(
            dense_gin(model, X, A, own.get("readout", "sum"))
            if name == "gin-g"
            else dense_sagnet(model, X, A, own.get("norm", "none"))
        )
    torch.testing.assert_close(logits, torch.stack(expected), **CLOSE)
    weights = torch.linspace(-1, 2, logits.numel(), dtype=torch.float64).view_as(logits)
    grads = [
        torch.autograd.grad((weights * one).sum(), [*model.parameters()], materialize_grads=True)
        for one in (logits, torch.stack(expected))
    ]
    torch.testing.assert_close(*grads, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("own", [{"norm": "graph"}, {"pooling": False}])
def test_every_setting_keeps_the_promises_of_a_method(own):
    testing.check_method("sagnet", own, seeds=[0])


@pytest.mark.parametrize("own", [{"norm": "batch"}, {"depth": 0}])
def test_wrong_settings(own, kit):
    with pytest.raises(SagpoolError, match=next(iter(own))):
        kit.model("sagnet", settings=own)
