"""What `bench` checks of methods from outside of the package before it trains them."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import EdgePooling, LayerNorm, PairNorm, TopKPooling
from torch_geometric.nn.aggr import PatchTransformerAggregation, SortAggregation

from sagpool.bench import own_methods, rows, run_experiment
from sagpool.errors import MethodError, SagpoolError
from sagpool.models import global_, hierarchical, plugins, register, register_pyg, registry
from sagpool.nn import Context, GPool, Linear, Norm


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", {})


@pytest.fixture
def bench(small, tmp_path, pretend):
    def run(**options):
        options = {"methods": "mine-*", "store": tmp_path / "runs.sqlite"} | options
        return run_experiment(small, engine=pretend, **options)

    return run


def register_h(pool, **options):
    register("mine-h", **options)(
        lambda shape: hierarchical(
            shape, lambda _: pool(shape.hidden, shape.ratio, members=shape.members)
        )
    )


def changing(change):
    """A layer that changes its rows first."""

    class Changing(GPool):
        def forward(self, x, structure, context=Context()):
            return super().forward(change(x, structure), structure, context)

    return Changing


def centred_in_float32(x, structure):
    """Refuses float64, in which methods are checked first."""
    return (x - x.mean(0)).float() @ torch.eye(x.shape[1], dtype=torch.float32)


def centred_by_member(x, structure):
    """Over filler graphs, too, whose size depends on the other members."""
    own = x.view(structure.layout.members, -1, x.shape[1])
    return (own - own.mean(1, keepdim=True)).view_as(x)


@pytest.mark.parametrize("search", ["none", "grid"])
@pytest.mark.parametrize(
    "change",
    [
        lambda x, _: x - x.mean(0),
        lambda x, _: PairNorm()(x),
        centred_in_float32,
        centred_by_member,
    ],
    ids=["mean", "PairNorm", "float32", "by member"],
)
def test_a_method_that_mixes_members_is_refused_before_anything_is_trained(
    bench, pretend, tmp_path, change, search
):
    register_h(changing(change))
    with pytest.raises(SagpoolError) as raised:
        bench(methods=["gpool-h", "mine-h"], search=search)
    sentence = str(raised.value)
    assert sentence.startswith("The method 'mine-h' mixes the models that train side by side (dif")
    assert "sagpool.nn.Norm, and sagpool.testing.check_method('mine-h') checks that." in sentence
    assert pretend.asked == []
    assert not (tmp_path / "runs.sqlite").exists()


class ChangingTopK(nn.Module):
    """A layer of PyG that changes its rows first."""

    def __init__(self, channels, change):
        super().__init__()
        self.pool, self.norm, self.change = TopKPooling(channels), LayerNorm(channels), change

    def forward(self, x, edge_index, batch):
        return self.pool(self.change(self, x, batch), edge_index, batch=batch)


def centred_by_member_without_fillers(x, structure):
    """No graph of MUTAG has a node without edges."""
    members = structure.layout.members
    own, real = x.view(members, -1, x.shape[1]), (structure.degree > 0).view(members, -1, 1)
    mean = (own * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
    return (own - mean).view_as(x)


@pytest.mark.parametrize(
    "define",
    [
        lambda: register_pyg(
            "mine-h", lambda s: ChangingTopK(s.hidden, lambda layer, x, _: layer.norm(x))
        ),
        lambda: register_pyg(
            "mine-h",
            lambda s: ChangingTopK(
                s.hidden, lambda _, x, __: nn.functional.batch_norm(x, None, None, training=True)
            ),
        ),
        lambda: register_h(changing(centred_by_member_without_fillers)),
    ],
    ids=["LayerNorm", "batch_norm", "native"],
)
def test_a_method_that_mixes_graphs_is_refused_before_anything_is_trained(bench, pretend, define):
    define()
    with pytest.raises(SagpoolError) as raised:
        bench()
    sentence = str(raised.value)
    assert sentence.startswith("The method 'mine-h' gives a graph another result in another batch")
    assert "statistics must be those of a single graph" in sentence
    assert pretend.asked == []


def equal_scores(layer, x, batch):
    """Of many nodes, which still have other neighbours, as of nodes with equal neighbourhoods."""
    return (x[:, :1] > 0).to(x.dtype).expand_as(x)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        (
            "mine-h",
            lambda s: ChangingTopK(s.hidden, lambda layer, x, batch: layer.norm(x, batch)),
        ),
        ("mine-h", lambda s: EdgePooling(s.hidden)),
        ("mine-g", lambda s: PatchTransformerAggregation(3 * s.hidden, 8, 4, 8)),
        ("mine-g", lambda s: SortAggregation(s.k)),
        ("mine-h", lambda s: ChangingTopK(s.hidden, equal_scores)),
    ],
    ids=["LayerNorm with its batch", "EdgePooling", "PatchTransformer", "ties", "equal scores"],
)
def test_layers_of_pyg_with_results_of_each_graph_or_known_limits(bench, pretend, name, make):
    register_pyg(name, make)
    bench(precision="float64")
    assert len(pretend.asked) == 4


def test_float64_leaves_no_room_for_small_differences(bench, pretend):
    register_h(changing(lambda x, _: x - 3e-6 * x.mean(0)))
    with pytest.raises(SagpoolError, match="The method 'mine-h' mixes the models"):
        bench(precision="float64")
    assert pretend.asked == []


def rough(x, structure):
    """Computes in float32 alone: sums differ by rounding."""
    weight = torch.full((x.shape[1], x.shape[1]), 0.1, dtype=torch.float32)
    return x + (x.float() @ weight).to(x.dtype)


class Normalised(GPool):
    def __init__(self, in_channels, ratio, *, members):
        super().__init__(in_channels, ratio, members=members)
        self.norm = Norm(in_channels, members=members)

    def forward(self, x, structure, context=Context()):
        return super().forward(self.norm(x, structure.layout), structure, context)


@pytest.mark.parametrize(
    "pool",
    [
        Normalised,
        changing(rough),
        changing(lambda x, _: x @ torch.eye(x.shape[1], dtype=torch.float32)),
        changing(lambda x, _: x / 0),
    ],
    ids=["Norm", "partly in float32", "only in float32", "not finite"],
)
def test_a_method_without_such_faults_is_trained(bench, pretend, pool):
    register_h(pool)
    bench()
    assert len(pretend.asked) == 4


def test_a_setting_that_mixes_members_is_found(bench):
    @register("mine-h", settings={"centred": False})
    def mine(shape):
        change = (lambda x, _: x - x.mean(0)) if shape.settings["centred"] else lambda x, _: x
        pool = changing(change)
        return hierarchical(shape, lambda _: pool(shape.hidden, shape.ratio, members=shape.members))

    bench()
    with pytest.raises(SagpoolError, match="The method 'mine-h' mixes the models"):
        bench(settings={"centred": [False, True]}, search="grid")


def test_each_method_is_checked_once_with_every_value_of_its_settings(bench, monkeypatch):
    checked = []
    monkeypatch.setattr(own_methods, "_check", lambda sample, seed, _: checked.append(sample))
    register_h(GPool)
    bench(methods=["mine-h", "gpool-h"], search="grid", settings={"conv": ["gcn", "gin", "sage"]})
    own = [sample.training for sample in checked[:: own_methods.SEEDS]]
    assert [dict(one.method_settings) for one in own] == [{}, {"conv": "gin"}, {"conv": "sage"}]
    assert {one.method for one in own} == {"mine-h"}


class WithLargestK(GPool):
    """Keeps the same number of nodes for all members: that of the largest k."""

    def __init__(self, in_channels, k, *, members):
        super().__init__(in_channels, k=int(np.max(k)), members=members)


class WithWeightOfK(GPool):
    """Members with another k have other weights, so they train in another fleet."""

    def __init__(self, in_channels, k, *, members):
        super().__init__(in_channels, k=int(np.max(k)), members=members)
        self.of_k = Linear(int(np.max(k)), 1, members=members)


@pytest.mark.parametrize(("pool", "mixes"), [(WithLargestK, True), (WithWeightOfK, False)])
def test_members_with_different_k(bench, pool, mixes):
    @register("mine-g")
    def mine(shape):
        return global_(shape, pool(3 * shape.hidden, shape.k, members=shape.members))

    if not mixes:
        bench()
        return
    with pytest.raises(SagpoolError, match="The method 'mine-g' mixes the models"):
        bench()


class WithoutBatch(nn.Module):
    def forward(self, x, edge_index):
        return x, edge_index


def asserting(x, structure):
    assert x.shape[1] == 3, "three channels"
    return x


@pytest.mark.parametrize(
    ("define", "sentence"),
    [
        (
            lambda: register_pyg("mine-h", lambda s: TopKPooling(s.hidden + 1, s.ratio)),
            r"^The method 'mine-h' failed \(RuntimeError: The size of tensor a \(4\) must match",
        ),
        (
            lambda: register_pyg("mine-h", lambda s: WithoutBatch()),
            r"^The method 'mine-h' failed \(TypeError: .* 'batch'\) in \w+\.py, line \d+\.$",
        ),
        (
            lambda: register_h(changing(lambda x, _: x @ torch.ones(3, 3))),
            r"'mine-h' failed \(RuntimeError: .*\) in test_own_methods\.py, line \d+\.$",
        ),
        (
            lambda: register("mine-h")(lambda shape: shape.widths),
            r"^The method 'mine-h' failed \(AttributeError: 'Shape' object has no attribute 'w",
        ),
        (
            lambda: register("mine-h")(lambda shape: None),
            r"^The function of the method 'mine-h' must return a torch\.nn\.Module, not None\.$",
        ),
        (
            lambda: register_h(changing(asserting)),
            r"failed \(AssertionError: three channels\) in test_own_methods\.py, line \d+\.$",
        ),
        (
            lambda: register_h(changing(lambda x, _: nn.functional.dropout(x))),
            r"^The method 'mine-h' draws random numbers from torch .* sagpool\.nn\.Dropout\.$",
        ),
    ],
    ids=["wrong width", "no batch", "wrong product", "builder", "no module", "assertion", "random"],
)
def test_a_mistake_in_a_method_is_its_own(bench, pretend, define, sentence):
    define()
    with pytest.raises(SagpoolError, match=sentence) as raised:
        bench()
    assert pretend.asked == []
    if isinstance(raised.value, MethodError):
        assert raised.value.__cause__ is not None


def test_a_method_that_was_refused_can_be_corrected(bench, tmp_path):
    register_h(changing(lambda x, _: x - x.mean(0)))
    with pytest.raises(SagpoolError, match="mixes the models"):
        bench()
    registry._methods.pop("mine-h")
    register_h(GPool)
    bench()
    assert len(rows(tmp_path / "runs.sqlite", frame=False)) == 4
