from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs, colors, fixed_split, triangles
from sagpool.graphs.counting import _different

SMALL_PARTS = ("train", "validation", "test")


def part_of(graphs: Graphs, name: str) -> Graphs:
    return graphs[(graphs.part == graphs.part_names.index(name)).numpy()]


def as_networkx(graph: Graphs) -> nx.Graph:
    made = nx.Graph()
    made.add_nodes_from(range(graph.num_nodes))
    made.add_edges_from(graph.edge_index.T.tolist())
    return made


@pytest.fixture(scope="module")
def few_colors() -> Graphs:
    return colors(110, 44, 44)


@pytest.fixture(scope="module")
def few_triangles() -> Graphs:
    return triangles(100, 20, 40)


def test_the_class_is_the_number_of_green_nodes(few_colors):
    for graph in few_colors:
        assert graph.ground_truth.sum() == graph.y
    green = few_colors.x[:, 1] == 1
    assert torch.equal(green, few_colors.ground_truth == 1)


def test_channels_are_colours_and_random_in_large_c_alone(few_colors):
    known = few_colors[(few_colors.part < 4).numpy()]
    assert torch.equal(known.x.sum(1), torch.ones(known.num_nodes))
    assert not known.x[:, 3].any()
    assert 0.4 < known.x[known.ground_truth == 0, 0].mean() < 0.6, "red and blue alike"
    other = part_of(few_colors, "large-c")
    x = other.x[other.ground_truth == 0]
    assert not x[:, 1].any()
    assert torch.allclose(x[:, [0, 2, 3]].mean(0), torch.full((3,), 0.5), atol=0.05)
    assert (other.x[other.ground_truth == 1] == torch.tensor([0.0, 1, 0, 0])).all()


def test_the_class_is_the_number_of_triangles(few_triangles):
    for graph in few_triangles:
        found = nx.triangles(as_networkx(graph))
        assert graph.ground_truth.tolist() == [found[node] for node in range(graph.num_nodes)]
        assert sum(found.values()) == 3 * (int(graph.y) + 1)


@pytest.mark.parametrize(
    ("made", "classes", "large"), [("few_colors", 11, (26, 200)), ("few_triangles", 10, (26, 100))]
)
def test_parts_are_balanced_and_differ_in_size(made, classes, large, request):
    graphs = request.getfixturevalue(made)
    assert graphs.num_classes == classes
    for name in graphs.part_names:
        part = part_of(graphs, name)
        low, high = (4, 25) if name in SMALL_PARTS else large
        assert part.node_counts.min() >= low
        assert part.node_counts.max() <= high
        counts = torch.bincount(part.y, minlength=classes)
        assert counts.max() - counts.min() <= 1
        if len(part) > 1:
            assert not torch.equal(part.y, part.y.sort().values), "in no order"


def test_the_number_of_edges(few_colors):
    """⌊(1 + u) n⌋, or as many as there can be."""
    n = few_colors.node_counts
    edges = few_colors.edge_counts // 2
    most = n * (n - 1) // 2
    assert (edges >= np.minimum(n, most)).all()
    assert (edges <= np.minimum(2 * n - 1, most)).all()
    large = n > 25
    assert 1.4 < (edges[large] / n[large]).mean() < 1.6


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_as_many_different_numbers_as_wanted(sizes, seed):
    random = np.random.default_rng(seed)
    limits = np.array([n * (n + 1) // 2 for n in sizes])
    wanted = random.integers(0, limits + 1)
    owner, numbers = _different(limits, wanted, random.random((len(sizes), max(1, wanted.max()))))
    assert np.array_equal(np.bincount(owner, minlength=len(sizes)), wanted)
    assert (numbers < limits[owner]).all()
    assert len(set(zip(owner.tolist(), numbers.tolist(), strict=True))) == len(owner)


def test_pairs_are_drawn_uniformly():
    rounds, limit, wanted = 20_000, 6, 3
    draws = np.random.default_rng(0).random((rounds, wanted))
    _, numbers = _different(np.full(rounds, limit), np.full(rounds, wanted), draws)
    counts = np.bincount(numbers, minlength=limit)
    expected = rounds * wanted / limit
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected * (1 - wanted / limit))


def test_the_seed_determines_the_graphs():
    for make in (colors, triangles):
        one, again, other = make(20, 10, 10, seed=3), make(20, 10, 10, seed=3), make(20, 10, 10)
        assert one.fingerprint() == again.fingerprint() != other.fingerprint()


def test_parts_belong_to_the_data(few_colors):
    """So results on other parts are other results."""
    moved = few_colors.part.clone()
    moved[0] = 1
    assert replace(few_colors, part=moved).fingerprint() != few_colors.fingerprint()


def test_the_generators_do_not_change():
    """Pinned, since published results name only the seed."""
    graphs = colors(3, 1, 1, seed=1)
    assert graphs.node_counts.tolist() == [22, 23, 7, 9, 6, 79, 185]
    assert graphs.y.tolist() == [2, 0, 1, 0, 0, 0, 0]
    assert triangles(3, 1, 1, seed=1).node_counts.tolist() == [25, 18, 17, 14, 23, 98]


def test_a_part_needs_a_graph():
    with pytest.raises(SagpoolError, match="validation needs at least 1 graph"):
        colors(5, 0, 5)
    with pytest.raises(SagpoolError, match="train needs at least 1 graph"):
        triangles(0)


def test_the_split_of_the_data(few_colors):
    split = fixed_split(few_colors.part.numpy(), few_colors.part_names)
    assert [len(one) for one in (split.train, split.validation, split.test)] == [110, 44, 44]
    assert {name: len(ids) for name, ids in split.more_tests.items()} == {
        "large": 44,
        "large-c": 44,
    }
    assert few_colors[split.more_tests["large"]].node_counts.min() > 25


@pytest.mark.parametrize(
    ("names", "missing"),
    [(("train", "validation"), "test"), (("train", "x"), "validation"), (("x", "y"), "train and")],
)
def test_a_split_needs_its_parts(names, missing):
    with pytest.raises(SagpoolError, match=missing):
        fixed_split(np.array([0, 1]), names)
