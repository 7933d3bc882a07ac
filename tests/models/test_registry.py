"""Methods by name, and how many parameters they have."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.graphs import pack
from sagpool.models import (
    Shape,
    build,
    count_parameters,
    hierarchical,
    method_settings,
    methods,
    register,
    registry,
    sort_k,
)
from sagpool.nn import GPool
from sagpool.nn.pool import pools_of

VARIANTS = ["cheb", "sage", "gat", "augmentation", "serial2", "parallel2", "parallel4"]


@pytest.fixture
def own_methods(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))


def test_the_names_of_the_paper_are_there():
    assert set(methods()) >= {
        *("sagpool-g", "sortpool-g", "set2set-g", "sagpool-h", "gpool-h", "diffpool-h"),
        *(f"sagpool-{architecture}-{variant}" for variant in VARIANTS for architecture in "hg"),
        *("random-h", "complement-h", "nopool-h", "nopool-g", "mlp-g"),
    }


@pytest.mark.parametrize("architecture", ["h", "g"])
def test_the_names_mean_what_they_say(architecture, kit):
    def score(variant: str):
        model = kit.model(f"sagpool-{architecture}{variant}")
        layers = model.pools if architecture == "h" else [model.pool]
        [described] = {
            (
                type(pool.attention.gnns[0][0]).__name__,
                pool.attention.augmentation,
                len(pool.attention.gnns[0]),
                len(pool.attention.gnns),
            )
            for pool in layers
        }
        return described

    assert score("") == ("GCNConv", False, 1, 1)
    assert score("-cheb") == ("ChebConv", False, 1, 1)
    assert score("-sage") == ("SAGEConv", False, 1, 1)
    assert score("-gat") == ("GATConv", False, 1, 1)
    assert score("-augmentation") == ("GCNConv", True, 1, 1)
    assert score("-serial2") == ("GCNConv", False, 2, 1)
    assert score("-parallel2") == ("GCNConv", False, 1, 2)
    assert score("-parallel4") == ("GCNConv", False, 1, 4)


def test_a_method_without_edges_has_no_choice_of_convolution(kit):
    assert "conv" not in method_settings("mlp-g")
    with pytest.raises(SagpoolError, match=r"mlp-g has no setting 'conv'"):
        build("mlp-g", kit.shape(settings={"conv": "gcn"}))
    build("mlp-g", kit.shape(settings={"readout": "sum"}))


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("sortpool-g", "channels"),
        ("diffpool-h", "losses"),
        ("sagpool-h-augmentation", "augmentation"),
    ],
)
def test_settings_that_are_words(name, setting, kit):
    with pytest.raises(SagpoolError, match=rf"^{setting} must be one of .*, not 'unknown'\.$"):
        build(name, kit.shape(settings={setting: "unknown"}))
    with pytest.raises(SagpoolError, match=rf"^gpool-h has no setting '{setting}'"):
        build("gpool-h", kit.shape(settings={setting: "unknown"}))


def test_an_unknown_name_is_answered_with_those_there_are(kit):
    with pytest.raises(SagpoolError, match=r"Unknown method 'sagpool'; choose from .*gpool-h"):
        build("sagpool", kit.shape())
    with pytest.raises(SagpoolError, match="Unknown method"):
        count_parameters("sagpool", kit.shape())


def test_no_name_is_given_twice(own_methods):
    with pytest.raises(SagpoolError, match="a method named 'gpool-h' already"):
        register("gpool-h")(lambda shape: None)


@pytest.mark.parametrize("name", ["sagpool-g", "sagpool-g-gat", "sortpool-g", "sortpool-g-conv1d"])
def test_k_must_be_known(name, kit):
    with pytest.raises(SagpoolError, match=rf"^{name} needs k, the number of nodes to keep"):
        build(name, kit.shape(k=None))


def test_k_must_be_one_where_the_layers_depend_on_it(kit):
    """12 and 13 are one: the convolutions look at pairs of nodes."""
    batch = pack(kit.graphs(kit.dense(0, [30])), [[0]])
    twelve, thirteen = (kit.model("sortpool-g-conv1d", k=k)(batch).logits for k in (12, 13))
    assert torch.equal(twelve, thirteen)
    build("sortpool-g-conv1d", kit.shape(members=2, k=np.array([[12], [13]])))
    with pytest.raises(SagpoolError, match="sortpool-g-conv1d needs one k for all members"):
        build("sortpool-g-conv1d", kit.shape(members=2, k=np.array([[12], [14]])))


def test_the_largest_graph_must_be_known(kit):
    with pytest.raises(SagpoolError, match=r"^diffpool-h needs max_nodes"):
        build("diffpool-h", kit.shape(max_nodes=None))


@pytest.mark.parametrize("name", ["diffpool-h", "mincut-h", "dmon-h", "justbalance-h", "hosc-h"])
def test_clusters_are_counted_by_the_largest_or_the_mean_graph(name, kit):
    for clusters, expected in (("largest", [50, 25, 13]), ("mean", [5, 3, 2])):
        own = {"clusters": clusters}
        model = build(name, kit.shape(max_nodes=100, mean_nodes=9.2, settings=own))
        assert [pool.clusters for pool in model.pools] == expected
    default = {"clusters": "largest" if name == "diffpool-h" else "mean"}
    assert registry.changed_settings(name, default) == {}  # so run keys are as before


def test_the_seeds_are_counted_by_the_mean_graph(kit):
    shape = kit.shape(max_nodes=100, mean_nodes=9.2, ratio=0.25, members=2)
    assert build("gmt-g", shape).pool.seeds.shape == (2, 3, shape.hidden)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("mincut-h", {"settings": {"clusters": "all"}}),
        ("gmt-g", {"settings": {"heads": 3}}),
        ("sagpool-h", {"ratio": 0}),
        ("gpool-h", {"ratio": 1.5}),
        ("diffpool-h", {"ratio": -1}),
        ("diffpool-h", {"max_nodes": 0}),
        ("sagpool-g", {"k": 0}),
        ("sortpool-g", {"k": 2.5}),
        ("nopool-g", {"hidden": 1}),
        ("nopool-g", {"dropout": 1.0}),
    ],
)
def test_sizes_that_make_no_sense(name, wrong, kit):
    with pytest.raises(SagpoolError, match=r"\.$"):
        build(name, kit.shape(**wrong))


def test_a_method_of_ones_own(own_methods, kit):
    @register("mine-h")
    def mine_h(shape: Shape) -> torch.nn.Module:
        return hierarchical(
            shape, lambda block: GPool(shape.hidden, k=9 - block, members=shape.members)
        )

    assert methods()[-1] == "mine-h"
    assert count_parameters("mine-h", kit.shape()) == count_parameters("gpool-h", kit.shape())
    batch = pack(kit.graphs(kit.dense(0, [12])), [[0]])
    kept = kit.kept_nodes(kit.model("mine-h")(batch), batch)[0]
    assert [len(nodes) for nodes in kept] == [9, 8, 7]


def test_the_count_is_that_of_one_model(method, kit):
    model = kit.model(method, members=1)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    assert count_parameters(method, kit.shape(members=1)) == numbers
    assert count_parameters(method, kit.shape(members=5)) == numbers


# The setting of the paper's figure of parameter counts: 128 features, hidden size 128, 2 classes.
CONVOLUTIONS = 3 * (128 * 128 + 128)
CLASSIFIER = (256 * 128 + 128) + (128 * 64 + 64) + (64 * 2 + 2)


def test_a_ratio_of_1_is_all_nodes_of_a_method():
    """A layer takes the integer as a number of nodes; settings such as ``--set ratio=1`` do not."""
    for method in ("sagpool-h", "gpool-h", "random-h"):
        for pool in pools_of(build(method, Shape(3, 2, hidden=4, ratio=1))):
            assert pool.rows_left(np.array([[5, 1]])).tolist() == [[5, 1]]


@pytest.mark.parametrize("nodes", [10, 100, 1000, 5000])
@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0])
def test_figure_4_is_flat_for_sagpool_and_gpool(nodes, ratio):
    shape = Shape(128, 2, hidden=128, ratio=ratio, max_nodes=nodes)
    assert CONVOLUTIONS + CLASSIFIER == 90_818
    assert count_parameters("random-h", shape) == count_parameters("nopool-h", shape) == 90_818
    assert count_parameters("gpool-h", shape) == 90_818 + 3 * 128  # a projection in each block
    assert count_parameters("sagpool-h", shape) == 90_818 + 3 * (128 + 1)  # Θ_att and a bias


@pytest.mark.parametrize(
    ("nodes", "ratio", "clusters"),
    [
        (100, 0.25, 25 + 7 + 2),
        (100, 0.5, 50 + 25 + 13),
        (100, 1.0, 100 + 100 + 100),
        (1000, 0.25, 250 + 63 + 16),
        (1000, 0.5, 500 + 250 + 125),
        (5000, 1.0, 3 * 5000),
    ],
)
def test_figure_4_grows_for_diffpool(nodes, ratio, clusters):
    """An assignment has 128 weights and a bias for each cluster."""
    shape = Shape(128, 2, hidden=128, ratio=ratio, max_nodes=nodes)
    assert count_parameters("diffpool-h", shape) == 90_818 + (128 + 1) * clusters


@pytest.mark.parametrize(
    ("variant", "score"),
    [
        ("cheb", 2 * 128 + 1),
        ("sage", 2 * 128 + 1),
        ("gat", 6 * (128 + 1 + 1) + 1),
        ("augmentation", 128 + 1),
        ("serial2", (128 * 128 + 128) + (128 + 1)),
        ("parallel2", 2 * (128 + 1)),
        ("parallel4", 4 * (128 + 1)),
    ],
)
def test_what_the_scores_of_the_variants_cost(variant, score):
    shape = Shape(128, 2, hidden=128)
    assert count_parameters(f"sagpool-h-{variant}", shape) == 90_818 + 3 * score


FRACTIONS = [(0.6, Fraction(3, 5)), (0.55, Fraction(11, 20)), (0.07, Fraction(7, 100)), (1, 1)]


@settings(derandomize=True)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=100),
    fraction=st.sampled_from(FRACTIONS),
)
def test_k_is_the_largest_that_enough_graphs_exceed(counts, fraction):
    given_fraction, exact = fraction

    def enough(k: int) -> bool:
        return sum(count > k for count in counts) >= exact * len(counts)

    expected = max((k for k in range(1, 41) if enough(k)), default=1)
    assert sort_k(np.array(counts), given_fraction) == expected
    assert sort_k(torch.tensor(counts), given_fraction) == expected


def test_k_of_the_paper_is_for_six_tenths_of_the_graphs():
    assert sort_k(np.arange(1, 11)) == 4  # 5, 6, ..., 10 are more
    assert sort_k(np.array([1, 1, 1])) == 1  # no graph can keep less


def test_k_is_found_in_exact_arithmetic():
    assert sort_k(np.arange(1, 21), 0.55) == 9  # 11 of the 20 have more
    assert sort_k(np.arange(1, 21), 1e-12) == 19  # one has more


@pytest.mark.parametrize(("counts", "share"), [([], 0.6), ([3], 0), ([3], 1.1)])
def test_k_of_nothing(counts, share):
    with pytest.raises(SagpoolError, match="K needs graphs and a fraction"):
        sort_k(np.array(counts, int), share)
