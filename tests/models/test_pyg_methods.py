"""Layers of PyG in our networks."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import (
    ASAPooling,
    DMoNPooling,
    EdgePooling,
    MemPooling,
    PANPooling,
    TopKPooling,
)
from torch_geometric.nn.aggr import (
    DegreeScalerAggregation,
    GraphMultisetTransformer,
    MedianAggregation,
    PatchTransformerAggregation,
    QuantileAggregation,
    SortAggregation,
)
from torch_geometric.nn.dense import dense_diff_pool
from torch_geometric.utils import to_dense_adj

from sagpool import testing
from sagpool.errors import SagpoolError
from sagpool.fleet import Training, train
from sagpool.fleet.schedule import group_by_shape
from sagpool.graphs import load, pack
from sagpool.models import (
    GlobalPooling,
    HierarchicalPooling,
    Shape,
    build,
    count_parameters,
    load_plugin,
    method_version,
    plugins,
    register_pyg,
    registry,
)
from sagpool.nn.pool.pyg_module import PyGModule

# torch's, once per process, about the sparse matrices of ASAPooling.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")

SHAPE = Shape(5, 3, hidden=8, k=4, max_nodes=16)


@pytest.fixture(autouse=True)
def own_methods(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", {})


@pytest.fixture(scope="module")
def mutag():
    return load("MUTAG")


class Dense(nn.Module):
    def __init__(self, channels, clusters):
        super().__init__()
        self.lin = nn.Linear(channels, clusters)

    def forward(self, x, adj, mask=None):
        return dense_diff_pool(x, adj, self.lin(x), mask)


class WithoutMask(Dense):
    def forward(self, x, adj):
        return super().forward(x, adj)


LAYERS = {
    "pyg-asap-h": lambda s: ASAPooling(s.hidden, s.ratio),
    # Softmax scores have ties, which PyG decides by the place in the batch.
    "pyg-edge-h": lambda s: EdgePooling(s.hidden, EdgePooling.compute_edge_score_tanh),
    "pyg-topk-h": lambda s: TopKPooling(s.hidden, s.ratio),
    "pyg-pan-h": lambda s: PANPooling(s.hidden, s.ratio),
    "pyg-mem-h": lambda s: MemPooling(s.hidden, s.hidden, heads=2, num_clusters=3),
    "pyg-dense-h": lambda s: Dense(s.hidden, 3),
    "pyg-no-mask-h": lambda s: WithoutMask(s.hidden, 3),
    "pyg-gmt-g": lambda s: GraphMultisetTransformer(3 * s.hidden, k=2, heads=2),
    "pyg-sort-g": lambda s: SortAggregation(s.k),
    # These have persistent buffers.
    "pyg-median-g": lambda s: MedianAggregation(),
    "pyg-quantile-g": lambda s: QuantileAggregation([0.25, 0.75]),
}


def test_the_example_of_the_documentation_passes_all_checks():
    register_pyg("pyg-asap-h", LAYERS["pyg-asap-h"])
    testing.check_method("pyg-asap-h", seeds=[0])


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_pyg_keep_the_promises_of_every_method(name):
    """In float64: layers of PyG make numbers without a type."""
    register_pyg(name, LAYERS[name])
    for check in (testing.check_batches, testing.check_members, testing.check_rows):
        check(name, 0, [9, 1, 12, 5], {})


def test_the_layer_is_that_of_pyg():
    """Against PyG's own call, for each member."""
    graphs = testing.random_graphs(3, [7, 5, 9])
    pool = PyGModule(lambda: TopKPooling(5, 0.5), 5, members=2)
    batch = pack(graphs, [[0, 1, 2], [2, 0]])
    pooled = pool(batch.x, batch.structure)
    for member, chosen in enumerate(([0, 1, 2], [2, 0])):
        theirs = TopKPooling(5, 0.5)
        theirs.load_state_dict({"select.weight": pool.layer.select.weight[member]})
        for place, number in enumerate(chosen):
            data = graphs[number]
            features = pack(graphs, [[number]]).x[: data.num_nodes]
            x, edge_index, *_ = theirs(features, data.edge_index)
            layout = pooled.structure.layout
            first, end = layout.node_ptr[member * layout.graphs + place :][:2].tolist()
            torch.testing.assert_close(pooled.x[first:end], x)
            ours = torch.zeros(end - first, end - first)
            left = pooled.structure.csr()
            row_ptr, col = left.row_ptr.tolist(), left.col.long()
            for row in range(first, end):
                ours[row - first, col[row_ptr[row] : row_ptr[row + 1]] - first] = 1
            dense = to_dense_adj(edge_index, max_num_nodes=end - first)[0]
            torch.testing.assert_close(ours - torch.eye(end - first), dense)


def test_losses_of_dense_layers_are_those_of_each_graph():
    graphs = testing.random_graphs(2, [9, 12])
    pool = PyGModule(lambda: DMoNPooling(5, 3), 5)
    batch = pack(graphs, [[0, 1, -1]])
    pooled = pool(batch.x, batch.structure)
    assert pooled.structure.layout.sizes.tolist() == [[3, 3, 1, 1]]
    for number in (0, 1):
        data = graphs[number]
        x = pack(graphs, [[number]]).x[: data.num_nodes]
        alone = DMoNPooling(5, 3)
        alone.load_state_dict({name: value[0] for name, value in pool.layer.state_dict().items()})
        _, rows, coarse, *losses = alone(x, to_dense_adj(data.edge_index, max_num_nodes=len(x))[0])
        torch.testing.assert_close(pooled.x[3 * number : 3 * number + 3], rows[0])
        torch.testing.assert_close(pooled.auxiliary[number], sum(losses))
        here = pooled.structure.pairs[1] // 3 == number
        torch.testing.assert_close(pooled.structure.weight[here].view(3, 3), coarse[0])
    assert pooled.auxiliary[2:].tolist() == [0, 0], "fillers never reach the layer"


def test_a_member_trains_alone_as_in_a_fleet(mutag):
    register_pyg("pyg-topk-h", LAYERS["pyg-topk-h"])
    trainings = [
        Training("pyg-topk-h", seed=seed, folds=2, hidden=4, max_epochs=2, lr=0.01)
        for seed in (0, 1)
    ]
    together = train(mutag, trainings, dtype=torch.float64)
    for training, one in zip(trainings, together, strict=True):
        (alone,) = train(mutag, [training], dtype=torch.float64)
        np.testing.assert_allclose(alone.curve.train_loss, one.curve.train_loss, rtol=1e-12)
    assert together[0].curve.train_loss[0] != together[1].curve.train_loss[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda s: PatchTransformerAggregation(3 * s.hidden, 8, 4, 8),
        lambda s: DegreeScalerAggregation("mean", "linear", torch.ones(4, device="cpu")),
    ],
)
def test_other_layers_with_persistent_buffers(make):
    register_pyg("mine-g", make)
    assert build("mine-g", SHAPE)
    assert count_parameters("mine-g", SHAPE)


def test_constant_buffers_are_the_same_in_every_fleet(mutag):
    register_pyg("pyg-quantile-g", LAYERS["pyg-quantile-g"])
    trainings = [
        Training("pyg-quantile-g", seed=seed, folds=2, hidden=4, max_epochs=2) for seed in (0, 1)
    ]
    together = train(mutag, trainings, dtype=torch.float64)
    (alone,) = train(mutag, trainings[1:], dtype=torch.float64)
    np.testing.assert_allclose(alone.curve.train_loss, together[1].curve.train_loss, rtol=1e-12)


def test_members_with_another_k_train_in_another_fleet(mutag):
    register_pyg("sorted-g", lambda s: TopKPooling(3 * s.hidden, s.k))
    trainings = [Training("sorted-g", fold=fold, folds=3, hidden=4) for fold in range(3)]
    groups = group_by_shape(mutag, trainings)
    register_pyg("by-ratio-h", lambda s: TopKPooling(s.hidden, s.ratio))
    others = [Training("by-ratio-h", fold=fold, folds=3, hidden=4) for fold in range(3)]
    assert len(group_by_shape(mutag, others)) == 1 <= len(groups)
    with pytest.raises(SagpoolError, match="needs one k for all members"):
        build("sorted-g", Shape(5, 3, hidden=8, k=np.array([[3], [4]]), members=2))


class NoPooling(nn.Module):
    def forward(self, x, positions):
        return x


class SevenResults(nn.Module):
    def forward(self, x, edge_index, batch):
        return (x,) * 7


class RandomBuffer(TopKPooling):
    def __init__(self, channels):
        super().__init__(channels)
        self.register_buffer("projection", torch.randn(channels), persistent=False)


class PlainTensor(SortAggregation):
    def __init__(self, channels):
        super().__init__(2)
        self.inner = nn.Module()
        self.inner.scale = torch.ones(channels)

    def forward(self, x, index, **options):
        return super().forward(x * self.inner.scale, index, **options)


class Counting(TopKPooling):
    def __init__(self, channels):
        super().__init__(channels)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, edge_index, batch):
        self.calls.data += 1
        return super().forward(x, edge_index, batch=batch)


def test_a_buffer_that_a_layer_changes_is_refused(mutag):
    register_pyg("mine-h", lambda s: Counting(s.hidden))
    with pytest.raises(SagpoolError, match="Counting changes its buffer calls, which a fleet"):
        train(mutag, [Training("mine-h", hidden=4, max_epochs=1)])


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        (
            "mine-g",
            lambda s: PlainTensor(3 * s.hidden),
            r"^PlainTensor\.inner has the tensor scale",
        ),
        ("mine-h", lambda s: RandomBuffer(s.hidden), r"tensor pools\.0\.layer\.projection, which"),
        ("mine-h", lambda s: NoPooling(), r"takes \(x, positions\), which is not the call"),
        ("mine-h", lambda s: SortAggregation(2), "leaves one row per graph"),
        ("mine-h", lambda s: torch.relu, "must be a torch.nn.Module"),
        ("mine-h", lambda s: nn.Sequential(nn.BatchNorm1d(8)), "is not the call"),
    ],
)
def test_layers_that_cannot_be_used_are_refused(name, make, sentence):
    register_pyg(name, make)
    with pytest.raises(SagpoolError, match=sentence):
        count_parameters(name, SHAPE)
    with pytest.raises(SagpoolError, match=sentence):
        build(name, SHAPE)


class Reversed(SortAggregation):
    def __init__(self, channels):
        super().__init__(2)
        self.register_buffer("order", torch.arange(channels).flip(0), persistent=False)

    def forward(self, x, index, **options):
        return super().forward(x[:, self.order], index, **options)


def test_numbers_that_a_layer_needs_while_it_is_built():
    def make(shape, **device):
        count = torch.tensor([1.0, 2.0], **device).sum().item()
        return TopKPooling(shape.hidden, int(count))

    register_pyg("mine-h", make)
    with pytest.raises(SagpoolError, match=r'mine-h reads numbers of a tensor .* device="cpu"'):
        count_parameters("mine-h", SHAPE)
    register_pyg("other-h", partial(make, device="cpu"), version="1")
    assert count_parameters("other-h", SHAPE)


def test_a_buffer_of_indices_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    register_pyg("mine-g", lambda s: Reversed(3 * s.hidden))
    torch.use_deterministic_algorithms(True)
    try:
        assert count_parameters("mine-g", SHAPE) > 0
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_result_of_another_form_is_refused():
    batch = pack(testing.random_graphs(0, [4]), [[0]])
    with pytest.raises(SagpoolError, match=r"SevenResults must return PyG's \(x, edge_index"):
        PyGModule(SevenResults, 5)(batch.x, batch.structure)


class SparseLoss(TopKPooling):
    def forward(self, x, edge_index, batch=None):
        *pooled, score = super().forward(x, edge_index, batch=batch)
        return *pooled, score.square().mean()


class MemoryLoss(MemPooling):
    def forward(self, x, batch=None, batch_size=None):
        pooled, assignment = super().forward(x, batch, batch_size=batch_size)
        return pooled, assignment, self.kl_loss(assignment)


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        (
            lambda: SparseLoss(5),
            r"SparseLoss returns a value of shape \(\) for 6 nodes in place of perm",
        ),
        (lambda: MemoryLoss(5, 5, 2, 3), r"MemoryLoss must return PyG's \(x, S\)"),
    ],
)
def test_a_loss_that_would_not_be_used_is_refused(layer, sentence):
    batch = pack(testing.random_graphs(0, [7, 4]), [[0, 1]])
    with pytest.raises(SagpoolError, match=f"{sentence}.* Only a dense layer"):
        PyGModule(layer, 5)(batch.x, batch.structure)


def test_dropout_inside_a_layer_is_refused(mutag):
    register_pyg("mine-h", lambda s: ASAPooling(s.hidden, s.ratio, dropout=0.5))
    with pytest.raises(SagpoolError, match="draws random numbers from torch"):
        train(mutag, [Training("mine-h", hidden=4, max_epochs=1)])


def test_the_name_says_the_architecture():
    with pytest.raises(SagpoolError, match="must end in -h"):
        register_pyg("asap", LAYERS["pyg-asap-h"])
    for name in ("my-g-pool-h", "my-g-pool-h-sigmoid"):
        register_pyg(name, LAYERS["pyg-topk-h"])
        assert isinstance(build(name, SHAPE), HierarchicalPooling)
    register_pyg("pyg-h-gmt-g", LAYERS["pyg-gmt-g"])
    assert isinstance(build("pyg-h-gmt-g", SHAPE), GlobalPooling)


def test_a_name_that_was_not_changed_after_copy_and_paste():
    register_pyg("mine-h", lambda s: EdgePooling(s.hidden))
    with pytest.raises(SagpoolError, match="a method named 'mine-h' already"):
        register_pyg("mine-h", lambda s: TopKPooling(s.hidden, s.ratio))


def test_as_a_plugin(tmp_path):
    file = tmp_path / "poolings.py"
    file.write_text(
        "from torch_geometric.nn import ASAPooling\n"
        "from sagpool.models import register_pyg\n"
        'register_pyg("pyg-asap-h", lambda s: ASAPooling(s.hidden, s.ratio))\n'
    )
    load_plugin(file)
    assert "-pyg2." in method_version("pyg-asap-h"), "other results with another PyG"
    assert build("pyg-asap-h", SHAPE)
