"""What somebody who writes a method would try: it works, or is refused with a sentence."""

from dataclasses import fields, replace
from functools import wraps

import numpy as np
import pytest
import torch
from torch import nn

from sagpool import load, testing
from sagpool.errors import SagpoolError
from sagpool.fleet import Result, Score, Training, train
from sagpool.models import (
    Shape,
    build,
    global_,
    hierarchical,
    method_settings,
    method_version,
    plugins,
    register,
    registry,
)
from sagpool.nn import (
    Context,
    GPool,
    Linear,
    Norm,
    PANPool,
    Pool,
    Pooled,
    SAGPool,
    ScorePool,
    Scores,
    Set2Set,
)

SHAPE = Shape(5, 3, hidden=8, k=4, max_nodes=16)


@pytest.fixture(autouse=True)
def own_methods(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", {})


def register_h(name, pool, **options):
    register(name, **options)(lambda shape: hierarchical(shape, lambda block: pool(shape)))


class MoreFeatures(SAGPool):
    """Adds a linear layer to the features: an addition hands one gradient to both terms."""

    def __init__(self, in_channels, ratio, *, members):
        super().__init__(in_channels, ratio, members=members)
        self.lin = Linear(in_channels, in_channels, members=members)

    def forward(self, x, structure, context=Context()):
        pooled = super().forward(x, structure, context)
        added = self.lin(x)
        return Pooled(
            pooled.x + added[pooled.perm] + x[pooled.perm],
            pooled.structure,
            source=pooled.source,
            gate=pooled.gate,
        )


class MoreScore(SAGPool):
    """Uses the rows themselves beside their projection."""

    def __init__(self, in_channels, ratio, *, members):
        super().__init__(in_channels, ratio, members=members)
        self.lin = Linear(in_channels, 1, members=members)

    def scores(self, x, structure, context):
        rank, _ = super().scores(x, structure, context)
        rank = rank + self.lin(x + structure.neighbour_sum(x)).view(-1)
        return Scores(rank, rank.tanh())


class OtherRows:
    """Scores rows of its own making, in place of those of the network."""

    def __init__(self, in_channels, ratio, **options):
        super().__init__(in_channels, ratio, **options)
        self.lin = Linear(in_channels, in_channels, members=options["members"])

    def scores(self, x, structure, context):
        return super().scores(self.lin(x).relu(), structure, context)


class OtherRowsOfSAGPool(OtherRows, SAGPool):
    pass


class OtherRowsOfGPool(OtherRows, GPool):
    pass


class OtherRowsOfPANPool(OtherRows, PANPool):
    pass


class OneChannelMore(SAGPool):
    """Scores the degree beside the features."""

    def __init__(self, in_channels, ratio, *, members):
        super().__init__(in_channels + 1, ratio, members=members)

    def forward(self, x, structure, context=Context()):
        degree = structure.degree.to(x.dtype)[:, None]
        pooled = super().forward(torch.cat([x, degree], 1), structure, context)
        return replace(pooled, x=pooled.x[:, :-1])


class WithLoss(GPool):
    """A loss of its own, in a network that is not DiffPool's."""

    def forward(self, x, structure, context=Context()):
        pooled = super().forward(x, structure, context)
        layout = structure.layout
        loss = torch.zeros(layout.members * layout.graphs, dtype=x.dtype, device=x.device)
        loss = loss.index_add(0, layout.graph, x.square().mean(1))
        return Pooled(pooled.x, pooled.structure, source=pooled.source, auxiliary=loss)


class Normalised(GPool):
    def __init__(self, in_channels, ratio, *, members):
        super().__init__(in_channels, ratio, members=members)
        self.norm = Norm(in_channels, members=members)

    def forward(self, x, structure, context=Context()):
        return super().forward(self.norm(x, structure.layout), structure, context)


class Noisy(ScorePool):
    """Scores with noise from the members' streams."""

    def __init__(self, in_channels, ratio, *, members):
        super().__init__(in_channels, ratio)
        self.lin = Linear(in_channels, 1, members=members)

    def scores(self, x, structure, context):
        noise = context.streams.uniform_of_nodes(structure.layout).to(x.dtype)
        rank = self.lin(x).view(-1) + noise
        return Scores(rank, rank.sigmoid())


class Halves(Pool):
    """Makes two clusters of each graph, the first and the second half of its nodes."""

    leaves = "graphs"

    def __init__(self, in_channels):
        super().__init__()
        self.in_channels = in_channels

    def forward(self, x, structure, context=Context()):
        layout = structure.layout
        node = torch.arange(layout.total_rows) - layout.node_ptr[layout.graph]
        part = (2 * node >= layout.node_ptr.diff()[layout.graph]).long()
        sums = x.new_zeros(2 * layout.members * layout.graphs, x.shape[1])
        sums = sums.index_add(0, 2 * layout.graph + part, x)
        return Pooled(sums.view(layout.members * layout.graphs, -1).square(), structure)

    def rows_left(self, sizes):
        return np.ones_like(sizes)

    def graph_channels(self):
        return 2 * self.in_channels


@pytest.mark.parametrize(
    "pool",
    [
        *(MoreFeatures, MoreScore, WithLoss, Normalised, Noisy),
        *(OtherRowsOfSAGPool, OtherRowsOfGPool, OtherRowsOfPANPool, OneChannelMore),
    ],
)
def test_layers_of_ones_own_keep_the_promises(pool):
    register_h("mine-h", lambda shape: pool(shape.hidden, shape.ratio, members=shape.members))
    testing.check_method("mine-h")


def test_the_check_finds_a_layer_that_depends_on_the_order_of_nodes():
    register("mine-g")(lambda shape: global_(shape, Halves(3 * shape.hidden)))
    with pytest.raises(AssertionError, match=r"mine-g gives another result for . of 6 graphs"):
        testing.check_method("mine-g")


class MixesMembers(GPool):
    def forward(self, x, structure, context=Context()):
        return super().forward(x - x.mean(0), structure, context)


class WrongGradient(GPool):
    def forward(self, x, structure, context=Context()):
        return super().forward(x + 0.5 * (x - x.detach()), structure, context)


class RunningMean(GPool):
    """Statistics over all members, in an attribute that is no buffer."""

    mean = 0.0

    def forward(self, x, structure, context=Context()):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return super().forward(x - self.mean, structure, context)


class WrongCount(GPool):
    def rows_left(self, sizes):
        return sizes


class Unused(GPool):
    def __init__(self, in_channels, ratio, *, members):
        super().__init__(in_channels, ratio, members=members)
        self.lin = Linear(in_channels, 1, members=members)


class TorchRandom(GPool):
    def forward(self, x, structure, context=Context()):
        return super().forward(nn.functional.dropout(x, 0.2, self.training), structure, context)


class NotANumber(GPool):
    def forward(self, x, structure, context=Context()):
        return super().forward(x / 0, structure, context)


class LargeBesideSmall(nn.Module):
    """A first class with a huge constant logit, and others that depend a little on the batch."""

    def __init__(self, shape):
        super().__init__()
        self.net = hierarchical(
            shape, lambda block: GPool(shape.hidden, shape.ratio, members=shape.members)
        )

    def forward(self, batch, streams=None):
        output = self.net(batch, streams)
        logits = output.logits + 1e-6 * output.logits.mean((0, 1))
        return output._replace(logits=torch.cat([1e9 + 0 * logits[..., :1], logits[..., 1:]], 2))


def test_a_large_output_does_not_hide_differences_in_a_small_one():
    register("mine-h")(LargeBesideSmall)
    with pytest.raises(AssertionError, match="gives a graph another result in a batch than alone"):
        testing.check_method("mine-h")


@pytest.mark.parametrize("check", [testing.check_members, testing.check_random_numbers])
def test_nan_is_not_equal_to_nan(check):
    register_h("mine-h", lambda s: NotANumber(s.hidden, s.ratio, members=s.members))
    with pytest.raises(AssertionError, match=r"mine-h .* \(difference nan\)\.$"):
        check("mine-h", 0, [3, 5, 9], {})


@pytest.mark.parametrize(
    ("pool", "broken"),
    [
        (MixesMembers, "gives a graph another result in a batch than alone"),
        (WrongGradient, "mine-h has a wrong gradient: that of"),
        (RunningMean, "mine-h mixes the members of a fleet"),
        (Unused, r"mine-h does not train pools\.0\.lin\.weight: the loss has no gradient"),
        (WrongCount, "WrongCount of mine-h leaves"),
        (TorchRandom, "mixes the members of a fleet|random numbers from elsewhere"),
    ],
)
def test_the_check_says_what_is_wrong(pool, broken):
    register_h("mine-h", lambda shape: pool(shape.hidden, shape.ratio, members=shape.members))
    with pytest.raises(AssertionError, match=broken):
        testing.check_method("mine-h")


def with_result(change):
    class Changed(GPool):
        def forward(self, x, structure, context=Context()):
            return change(super().forward(x, structure, context))

    return Changed


def with_scores(change):
    class Changed(GPool):
        def scores(self, x, structure, context):
            return change(super().scores(x, structure, context))

    return Changed


@pytest.mark.parametrize(
    ("pool", "sentence"),
    [
        (
            with_result(lambda p: replace(p, auxiliary=p.x.mean())),
            r"Changed returns auxiliary losses of shape \(\) for 7 graphs",
        ),
        (
            with_result(lambda p: replace(p, auxiliary=p.x.mean(1))),
            r"auxiliary losses of shape \(.+,\) for 7 graphs; each graph needs one",
        ),
        (
            with_result(lambda p: replace(p, x=torch.cat([p.x, p.x], 1))),
            r"Changed returns rows of shape \(.+, 48\) in place of \(.+, 24\)",
        ),
        (with_result(lambda p: (p.x, p.structure)), "Changed must return a Pooled, not a tuple"),
        (
            with_scores(lambda s: Scores(s.rank[:, None], s.gate)),
            r"Changed returns a rank of shape \(.+, 1\)",
        ),
        (with_scores(lambda s: s._replace(gate=s.gate.mean())), r"a gate of shape \(\) for"),
        (with_scores(lambda s: s.rank), r"must be Scores\(rank, gate\), not a Tensor"),
    ],
)
def test_a_result_of_another_form_is_refused(pool, sentence):
    register_h("mine-h", lambda shape: pool(shape.hidden, shape.ratio, members=shape.members))
    with pytest.raises(SagpoolError, match=sentence):
        testing.check_method("mine-h", seeds=[0])


class Costly(GPool):
    """A loss of ``100 exp(cost)`` for each graph, which is 100 at first."""

    def __init__(self, in_channels, ratio, *, members):
        super().__init__(in_channels, ratio, members=members)
        self.cost = nn.Parameter(torch.zeros(members))

    def forward(self, x, structure, context=Context()):
        pooled = super().forward(x, structure, context)
        loss = 100 * self.cost.exp().repeat_interleave(structure.layout.graphs)
        return Pooled(pooled.x, pooled.structure, source=pooled.source, auxiliary=loss)


def test_training_minimises_the_losses_of_all_pooling_layers():
    register_h("plain-h", lambda s: GPool(s.hidden, s.ratio, members=s.members))
    register_h("costly-h", lambda s: Costly(s.hidden, s.ratio, members=s.members))
    graphs = load("MUTAG")[:60]
    options = {"hidden": 4, "lr": 0.02, "max_epochs": 30, "patience": 30, "folds": 5}
    plain, costly = (
        [one.curve for one in train(graphs, [Training(m, fold=f, **options) for f in range(2)])]
        for m in ("plain-h", "costly-h")
    )
    for without, with_losses in zip(plain, costly, strict=True):
        more = with_losses.train_loss - without.train_loss
        assert 280 < more[0] < 310, "that of each of the three layers"
        assert more[-1] < 200, "its gradient reaches the weights"
        assert max(with_losses.validation_loss) < 10, "it decides nothing else"


class Extra(GPool):
    def __init__(self, layer, shape):
        super().__init__(shape.hidden, shape.ratio, members=shape.members)
        self.extra = layer


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        (lambda: nn.BatchNorm1d(8), r"mine-h has the buffer pools\.0\.extra\.running_mean"),
        (
            lambda: nn.BatchNorm1d(8, affine=False, track_running_stats=False),
            r"normalises over all members of a fleet in pools\.0\.extra",
        ),
        (
            lambda: nn.Linear(8, 8),
            r"mine-h has the parameter pools\.0\.extra\.weight of shape \(8, 8\); .* sagpool\.nn",
        ),
        (lambda: nn.Dropout(0.5), r"draws random numbers in pools\.0\.extra .* use sagpool"),
    ],
)
def test_layers_that_would_mix_members_are_refused(layer, sentence):
    register_h("mine-h", lambda shape: Extra(layer(), shape))
    with pytest.raises(SagpoolError, match=sentence):
        build("mine-h", SHAPE)


class Projected(ScorePool):
    """Scores by a projection that is not trained, but drawn by ``draw``."""

    def __init__(self, shape, draw, *, plain=False):
        super().__init__(shape.hidden, shape.ratio)
        p = draw(torch.empty(shape.hidden))
        if plain:
            self.p = p
        else:
            self.register_buffer("p", p, persistent=False)
        self.register_buffer("known", torch.tensor([True, False]), persistent=False)
        self.register_buffer("none", torch.tensor([torch.nan, torch.inf]), persistent=False)
        self.lin = Linear(shape.hidden, 1, members=shape.members)

    def scores(self, x, structure, context):
        rank = self.lin(x).view(-1) + x @ self.p
        return Scores(rank, rank.tanh())


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("plain", [True, False], ids=["plain attribute", "buffer"])
def test_a_random_tensor_is_refused(device, plain):
    register_h("mine-h", lambda shape: Projected(shape, nn.init.normal_, plain=plain))
    sentence = r"mine-h has the tensor pools\.0\.p, which differs from model to model"
    with pytest.raises(SagpoolError, match=sentence), torch.device(device):
        build("mine-h", SHAPE)


def test_a_constant_tensor_is_the_same_in_every_fleet():
    def draw(empty):
        return empty.normal_(generator=torch.Generator().manual_seed(0))

    register_h("plain-h", lambda shape: Projected(shape, draw, plain=True))
    build("plain-h", SHAPE)
    register_h("mine-h", lambda shape: Projected(shape, draw))
    torch.manual_seed(0)
    build("mine-h", SHAPE)
    after = torch.rand(())
    torch.manual_seed(0)
    build("mine-h", SHAPE)
    assert torch.rand(()) == after, "the check draws no numbers of the caller"
    graphs = load("MUTAG")
    options = {"folds": 2, "hidden": 4, "max_epochs": 2, "lr": 0.01}
    trainings = [Training("mine-h", seed=seed, **options) for seed in (0, 1)]
    together = train(graphs, trainings, dtype=torch.float64)
    for training, one in zip(trainings, together, strict=True):
        (alone,) = train(graphs, [training], dtype=torch.float64)
        np.testing.assert_allclose(alone.curve.train_loss, one.curve.train_loss, rtol=1e-12)


def test_a_layer_that_leaves_graphs_cannot_stand_between_blocks():
    register_h("mine-h", lambda shape: Set2Set(shape.hidden, members=shape.members))
    with pytest.raises(SagpoolError, match="Set2Set leaves one row per graph"):
        build("mine-h", SHAPE)


def test_settings_of_a_method():
    seen = []

    @register("mine-h", settings={"temperature": 0.5, "deep": False, "name": "a", "count": 2})
    def mine(shape: Shape) -> nn.Module:
        seen.append([shape.settings[key] for key in ("temperature", "deep", "name", "count")])
        return hierarchical(shape, lambda block: GPool(shape.hidden, members=shape.members))

    def built(**settings):
        build("mine-h", Shape(5, 3, hidden=8, settings=settings))
        return seen.pop()

    assert method_settings("mine-h")["temperature"] == 0.5
    assert built() == [0.5, False, "a", 2]
    assert built(temperature=2, deep="true", name="b", count=3.0) == [2.0, True, "b", 3]
    for wrong in ({"temperature": "warm"}, {"deep": 3}, {"name": 1}, {"count": 2.5}):
        with pytest.raises(SagpoolError, match="must be of type"):
            built(**wrong)
    with pytest.raises(SagpoolError, match="has no setting 'temprature'; did you mean 'temperat"):
        built(temprature=1.0)


def test_a_setting_that_a_method_ignores_is_refused():
    with pytest.raises(SagpoolError, match="set2set-g has no setting 'readout'"):
        build("set2set-g", Shape(5, 3, hidden=8, settings={"readout": "sum"}))
    register("mine-g")(lambda shape: global_(shape, Set2Set(3 * shape.hidden)))
    with pytest.raises(SagpoolError, match="mine-g does not use the setting 'readout'"):
        build("mine-g", Shape(5, 3, hidden=8, settings={"readout": "sum"}))


@pytest.mark.parametrize("read", [dict, lambda s: {**s}, lambda s: {"t": s.get("t")}])
def test_settings_may_be_read_like_any_mapping(read):
    seen = []

    @register("mine-h", settings={"t": 1.0})
    def mine(shape: Shape) -> nn.Module:
        seen.append(read(shape.settings)["t"])
        return hierarchical(shape, lambda block: GPool(shape.hidden, members=shape.members))

    build("mine-h", Shape(5, 3, hidden=8, settings={"t": 2.0}))
    assert seen == [2.0]


def test_names_of_settings_that_all_trainings_have_are_refused():
    row = Result(
        Training("gpool-h"), False, 1, 1, *[Score(0.0, 0.0)] * 3, np.zeros((2, 2)), None, 1, 0.0
    ).row()
    for name in {*row, *(item.name for item in fields(Training)), "method_version"}:
        with pytest.raises(SagpoolError, match=f"cannot have a setting named '{name}'"):
            register("mine-h", settings={name: 1.0})


def test_a_cell_of_a_notebook_may_run_again_but_no_other_may_take_its_name():
    def define(version):
        def mine(shape):
            return hierarchical(shape, lambda block: GPool(shape.hidden, members=shape.members))

        return register("mine-h", version=version)(mine)

    define("1")
    define("2")
    assert method_version("mine-h") == "2"
    with pytest.raises(SagpoolError, match="a method named 'mine-h' already"):
        register("mine-h", version="3")(lambda shape: None)


CELL = """
from sagpool.models import register
from sagpool.nn import GPool

@register("mine-h", version="{version}")
def mine(shape): pass
"""


def test_a_changed_cell_of_a_notebook_replaces_its_method_but_two_in_a_cell_conflict():
    names = {"__name__": "__main__"}
    for version in ("1", "2"):
        exec(CELL.format(version=version), names)
        assert method_version("mine-h") == version
    with pytest.raises(SagpoolError, match="a method named 'mine-h' already"):
        exec(CELL.format(version="3") + CELL.format(version="4"), names)


def test_a_cell_with_a_wrapped_builder_of_the_package_may_run_again():
    cell = CELL.replace("\n@register", "\n@wraps(gpool_h)\ndef other(shape): pass\n\n@register")
    cell = cell.replace("def mine", "@wraps(gpool_h)\ndef mine")
    gpool_h = registry.find_method("gpool-h").build
    names = {"__name__": "__main__", "wraps": wraps, "gpool_h": gpool_h}
    for version in ("1", "2"):
        exec(cell.format(version=version), names)
        assert method_version("mine-h") == version
    with pytest.raises(SagpoolError, match="a method named 'mine-h' already"):
        register("mine-h", version="3")(names["other"])
    with pytest.raises(SagpoolError, match="a method named 'gpool-h' already"):
        register("gpool-h", version="3")(wraps(gpool_h)(names["mine"]))


def test_a_method_without_a_source_file_needs_a_version():
    names: dict[str, object] = {"__name__": "notebook"}
    exec("def mine(shape): pass", names)
    with pytest.raises(SagpoolError, match="has no source file"):
        register("mine-h")(names["mine"])
    register("mine-h", version="1")(names["mine"])
