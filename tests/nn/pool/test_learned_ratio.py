"""A learnt ratio against dense matrices in float64."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency, pack
from sagpool.models import Shape, build
from sagpool.nn import LearnedRatioPool, SAGPool, Selection, readout
from sagpool.nn.conv import CONVS
from sagpool.nn.pool.learned_ratio import ThinnedGraphs
from sagpool.nn.pool.pool import Context
from sagpool.nn.pool.score_loss import score_losses
from sagpool.testing import check_method, random_graphs

CHANNELS = 5
SOME_ARE_DROPPED = 0  # a seed
METHODS = ("sagpool-h-ratio", "sagpool-g-ratio")
WITHOUT_EDGES_ALONE = [name for name in CONVS if name not in ("gat", "triangle")]


@pytest.fixture
def structure() -> Adjacency:
    """Three graphs, without a filler."""
    graphs = random_graphs(3, [6, 1, 9])
    return Adjacency.from_edge_index(graphs.edge_index, graphs.batch)


@pytest.fixture
def x(structure) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(structure.layout.total_rows, CHANNELS, dtype=torch.float64)


def dense(structure: Adjacency) -> Tensor:
    """A, ``[rows, rows]``"""
    rows = structure.layout.total_rows
    full = torch.zeros(rows, rows, dtype=torch.float64)
    full[structure.entry_row, structure.col.long()] = 1
    return full.fill_diagonal_(0)


def a_layer(conv: str = "gcn", budget: float = 0.5) -> LearnedRatioPool:
    torch.manual_seed(1)
    return LearnedRatioPool(CHANNELS, conv, budget=budget, start=0.25).double()


def scores(layer: LearnedRatioPool, x: Tensor, a: Tensor) -> Tensor:
    """Of its GCN."""
    (gcn,) = layer.attention.gnns[0]
    with_loops = a + torch.eye(len(a), dtype=a.dtype)
    scale = with_loops.sum(1).rsqrt()
    normal = scale[:, None] * with_loops * scale
    return (normal @ x @ gcn.linear.weight[0] + gcn.linear.bias[0]).view(-1) + layer.start


@pytest.mark.parametrize("training", [True, False])
def test_equation_and_gradients_that_pass_straight_through(x, structure, training):
    layer, a = a_layer().train(training), dense(structure)
    x.requires_grad_()
    pooled = layer(x, structure)
    soft = scores(layer, x, a).sigmoid()
    kept = (soft >= 0.5).double()
    assert 0 < kept.sum() < len(kept)
    present, gate = (soft + (hard - soft).detach() for hard in (kept, soft * kept))
    torch.testing.assert_close(pooled.x, x * gate[:, None])
    torch.testing.assert_close(pooled.presence, present)
    torch.testing.assert_close(pooled.structure.degree, a @ present)
    graph = structure.layout.graph
    means = torch.stack([present[graph == number].mean() for number in range(3)])
    torch.testing.assert_close(pooled.auxiliary, 0.5 * means)

    scale = (1 + a @ present).rsqrt()
    expected = scale[:, None] * ((a + torch.eye(len(a))) @ (scale[:, None] * x * gate[:, None]))
    found = pooled.structure.gcn(pooled.x)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    grads = [
        torch.autograd.grad((one * weights).sum(), [x, *layer.parameters()], retain_graph=True)
        for one in (found, expected)
    ]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("conv", WITHOUT_EDGES_ALONE)
def test_a_node_that_is_dropped_is_as_if_it_were_not_there(conv, x, structure):
    """In what the next convolution makes of the others."""
    pooled = a_layer().eval()(x, structure)
    kept = pooled.presence == 1
    assert torch.equal(kept, pooled.gate >= 0.5)
    assert torch.equal(kept, pooled.gate > 0)
    assert 0 < kept.sum() < len(kept)
    assert not pooled.x[~kept].any()

    torch.manual_seed(2)
    following = CONVS[conv](CHANNELS, 4, members=1).double()
    number = torch.cumsum(kept, 0) - 1
    rows, cols = dense(structure)[kept][:, kept].nonzero().T
    graph = structure.layout.graph[kept].unique(return_inverse=True)[1]
    alone = Adjacency.from_edge_index(torch.stack([cols, rows]), graph)
    assert number[-1] + 1 == alone.layout.total_rows
    expected = following(pooled.x[kept], alone)
    torch.testing.assert_close(following(pooled.x, pooled.structure)[kept], expected)


@pytest.mark.parametrize("kind", ["mean", "mean-max", "sum", "max"])
def test_a_readout_of_what_is_kept(kind, structure):
    layer = a_layer().eval()
    positive = torch.rand(structure.layout.total_rows, CHANNELS, dtype=torch.float64)
    pooled = layer(positive, structure)
    read = pooled.readout(kind)
    for number in range(3):
        own = (structure.layout.graph == number) & (pooled.presence == 1)
        if own.any():
            rows = pooled.x[own]
            one = Adjacency.from_edge_index(
                torch.zeros(2, 0, dtype=torch.long), torch.zeros(len(rows), dtype=torch.long)
            )
            torch.testing.assert_close(read[number], readout(rows, one.layout, kind)[0])
        else:
            assert not read[number].any()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("conv", WITHOUT_EDGES_ALONE)
def test_a_factor_of_the_rows_may_be_left_to_the_layer(x, structure, conv, training):
    first, second = a_layer().train(training), a_layer(conv).train(training)
    graphs = first(x, structure).structure
    rows, factor = torch.randn_like(x), torch.rand(len(x), dtype=torch.float64)
    expected = second(rows * factor[:, None], graphs)
    weight = second.score_weight()
    known = None if weight is None else rows @ weight[0]
    for projected in (None, known):
        context = Context(projected=projected, projected_rows=rows, factor=factor)
        found = second(rows, graphs, context)
        for name in ("x", "gate", "presence", "auxiliary"):
            torch.testing.assert_close(getattr(found, name), getattr(expected, name))


def test_a_dropped_node_stays_away(x, structure):
    first, second = a_layer().eval(), a_layer("mlp").eval()
    torch.nn.init.constant_(second.attention.gnns[0][0].linear.bias, 100.0)
    pooled = first(x, structure)
    again = second(torch.ones_like(x), pooled.structure)
    assert torch.equal(again.presence, pooled.presence)
    assert not again.x[pooled.presence == 0].any()
    assert isinstance(again.structure, ThinnedGraphs)
    assert again.structure.base is structure


def test_later_levels_see_only_what_the_first_one_left():
    """Features of a node that is dropped change nothing, if nobody else has seen them."""
    graphs = random_graphs(5, [8])
    torch.manual_seed(SOME_ARE_DROPPED)
    settings = {"conv": "mlp", "score": "mlp", "start": 0.0}
    shape = Shape(graphs.num_features, 2, hidden=8, settings=settings)
    model = build("sagpool-h-ratio", shape).double().eval()
    before = model(pack(graphs, [[0]]))
    batch = pack(graphs, [[0]])
    x = model.convs[0](batch.x.double(), None).relu()  # with the row of the filler graph
    presence = model.pools[0](x, batch.structure).presence[:8]
    dropped = (presence == 0).nonzero().view(-1)
    assert 1 < len(dropped) < 8
    attr = graphs.node_attr.clone()
    attr[dropped] = attr[dropped[:1]]
    label = graphs.node_label.clone()
    label[dropped] = label[dropped[:1]]
    changed = replace(graphs, node_attr=attr, node_label=label)
    torch.testing.assert_close(model(pack(changed, [[0]])).logits[:, 0], before.logits[:, 0])


def test_with_a_start_all_nodes_are_kept_at_first(x, structure):
    layer = LearnedRatioPool(CHANNELS, start=3.0).double().eval()
    assert layer(0.1 * x, structure).presence.all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "settings", [{}, {"start": 3.0, "conv": "sage", "score": "sage", "readout": "sum"}]
)
def test_the_promises_of_every_method(method, settings):
    check_method(method, settings, seeds=range(2))


def test_the_promises_with_supervision():
    check_method("sagpool-g-ratio", {"supervision": 100.0}, seeds=range(2))


def test_supervision_adds_its_loss_in_training_alone(x, structure):
    plain, layer = a_layer(), a_layer()
    layer.supervision = 3.0
    target = torch.rand(len(x))
    context = Context(node_target=lambda: target)
    losses = score_losses(layer.attention(x, structure).rank, target, structure.layout)
    without, found = plain(x, structure), layer(x, structure, context)
    torch.testing.assert_close(found.auxiliary, without.auxiliary + 3 * losses)
    torch.testing.assert_close(found.x, without.x)
    without, found = plain.eval()(x, structure), layer.eval()(x, structure)
    torch.testing.assert_close(found.auxiliary, without.auxiliary)
    with pytest.raises(SagpoolError, match="Supervision of scores needs graphs with node targets"):
        layer.train()(x, structure)


def test_what_needs_single_edges_is_refused(x, structure):
    pooled = a_layer()(x, structure)
    with pytest.raises(SagpoolError, match="single edges cannot work on graphs with a learnt"):
        CONVS["gat"](CHANNELS, 4, members=1).double()(pooled.x, pooled.structure)


def test_a_budget_and_supervision_are_no_reward():
    with pytest.raises(SagpoolError, match="budget must be at least 0, not -1"):
        LearnedRatioPool(3, budget=-1)
    with pytest.raises(SagpoolError, match="supervision must be at least 0, not -1"):
        LearnedRatioPool(3, supervision=-1)


@pytest.mark.parametrize("training", [False, True])
def test_sagpool_has_a_learnt_ratio_as_an_argument(x, structure, training):
    layer = a_layer().train(training)
    same = SAGPool(CHANNELS, "learned", budget=0.5, start=0.25).double().train(training)
    same.load_state_dict(layer.state_dict())
    one, other = layer(x, structure), same(x, structure)
    for name in ("x", "gate", "presence", "auxiliary", "source"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name))


def test_at_most_max_ratio_is_kept(x, structure):
    """Two levels; the rows of the others are gone, and what is left is as without a limit."""
    layer, wide = a_layer().eval(), a_layer().eval()
    layer.selection = Selection(0.5)
    one, free = layer(x, structure), wide(x, structure)
    sizes = structure.layout.sizes
    assert one.structure.layout.sizes.tolist() == (-(-sizes // 2)).tolist()
    chosen = torch.zeros(len(x), dtype=torch.bool)
    chosen[one.perm] = True
    rank = layer.attention(x, structure).rank
    for graph in range(3):
        own = structure.layout.graph == graph
        assert rank[own & chosen].min() >= rank[own & ~chosen].max() if own.sum() > 1 else True
    torch.testing.assert_close(one.x, free.x[one.perm])
    torch.testing.assert_close(one.presence, free.presence[one.perm])
    again = layer(one.x, one.structure)
    assert not again.presence[one.presence[again.perm] == 0].any(), "absent nodes stay away"
    kept = torch.zeros(3, dtype=torch.float64).index_add(
        0, one.structure.layout.graph, one.presence
    )
    torch.testing.assert_close(one.auxiliary, 0.5 * kept / torch.tensor(sizes[0]))


def test_the_call_of_pyg_keeps_the_positive_nodes(x, structure):
    layer = SAGPool(CHANNELS, "learned", start=0.0).double()
    edges, batch = edges_of(structure), structure.layout.graph
    out = layer(x, edges, batch=batch)
    assert torch.equal(out.perm, torch.arange(len(x))), "all of them in training"
    torch.testing.assert_close(out.x, x * out.score[:, None])
    soft = layer.attention(x, structure).rank.sigmoid()
    torch.testing.assert_close(out.score, soft * (soft >= 0.5))
    layer.eval()
    out = layer(x, edges, batch=batch)
    rank = layer.attention(x, structure).rank
    wanted = {row for row in range(len(x)) if rank[row] >= 0}
    for graph in range(3):
        own = (batch == graph).nonzero().view(-1)
        wanted.add(int(own[rank[own].argmax()]))
    assert set(out.perm.tolist()) == wanted
    torch.testing.assert_close(out.score, rank.sigmoid()[out.perm])


def edges_of(structure: Adjacency) -> Tensor:
    return dense(structure).nonzero().T


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ratio": "learned", "k": 3}, "A learnt ratio has no k"),
        ({"ratio": "learned", "masks": 2}, "A learnt ratio has no k"),
        ({"ratio": 0.5, "budget": 0.1}, "need ratio='learned'"),
        ({"ratio": 0.5, "start": 1.0}, "need ratio='learned'"),
        ({"ratio": "learned", "max_ratio": 2.0}, "The ratio must be"),
        ({"ratio": "learned", "budget": -1}, "The budget must be"),
    ],
)
def test_arguments_of_a_learnt_ratio_are_checked(options, sentence):
    with pytest.raises(SagpoolError, match=sentence):
        SAGPool(CHANNELS, **options)
