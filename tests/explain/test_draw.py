import dataclasses
import io
import tracemalloc

import networkx as nx
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from sagpool import SagpoolError
from sagpool.explain import Level, Trace, explain, explain_many
from sagpool.explain.draw import draw, svg
from sagpool.explain.layout import layout
from sagpool.explain.panel import RANGE, SCORES
from sagpool.explain.surroundings import MOST_DRAWN_NODES, drawn_part
from sagpool.models import methods


def panels(figure):
    return [ax for ax in figure.axes if "·" in ax.get_title()]


def kept_circles(ax):
    """Kept nodes have the highest zorder of all collections."""
    return max(ax.collections, key=lambda drawn: drawn.get_zorder())


def places_of(circles):
    return np.asarray(circles.get_offsets())


@pytest.fixture(scope="module")
def trace(graphs, new_model):
    return explain(new_model("sagpool-h", graphs), graphs, 6)


def test_one_panel_for_the_input_and_one_for_each_level(trace):
    titles = [ax.get_title() for ax in panels(draw(trace))]
    assert titles == [
        "input · 25 nodes", "level 1 · 13 kept", "level 2 · 7 kept", "level 3 · 4 kept",
    ]  # fmt: skip


@pytest.mark.parametrize("wide", [True, False])
def test_nodes_have_the_same_position_in_all_panels(trace, wide):
    first, *others = panels(draw(trace, wide=wide))
    places = places_of(kept_circles(first))
    assert (places == layout(trace.num_nodes, trace.edges)).all()
    for ax, level in zip(others, trace.levels, strict=True):
        assert (places_of(kept_circles(ax)) == places[level.kept]).all()
        assert ax.get_xlim() == pytest.approx(first.get_xlim())
        assert ax.get_ylim() == pytest.approx(first.get_ylim())


def test_colours_are_the_scores(trace):
    for ax, level in zip(panels(draw(trace))[1:], trace.levels, strict=True):
        expected = SCORES(RANGE(level.score))
        assert kept_circles(ax).get_facecolors() == pytest.approx(expected)


def test_edges_between_kept_nodes_stand_out(trace):
    for ax, level in zip(panels(draw(trace))[1:], trace.levels, strict=True):
        both = np.isin(trace.edges, level.kept).all(axis=1).sum()
        faded, inside = (drawn for drawn in ax.collections if drawn.get_zorder() == 1)
        assert len(inside.get_paths()) == both
        assert len(faded.get_paths()) == len(trace.edges) - both
        assert faded.get_alpha() < inside.get_alpha() / 2


def test_labels_of_kept_nodes(trace):
    for ax, level in zip(panels(draw(trace))[1:], trace.levels, strict=True):
        texts = [text.get_text() for text in ax.texts]
        assert texts == [trace.node_labels[node] for node in level.kept]


def test_large_graphs_and_degrees_have_no_labels(trace, planted, new_model):
    many = dataclasses.replace(trace, num_nodes=61, node_labels=("C",) * 61, levels=())
    assert not panels(draw(many))[0].texts
    assert not panels(draw(explain(new_model("sagpool-h", planted), planted)))[0].texts


def test_ground_truth_has_rings(planted, new_model):
    trace = explain(new_model("sagpool-h", planted), planted)
    figure = draw(trace)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["decides the class"]
    for ax in panels(figure):
        rings = [drawn for drawn in ax.collections if drawn.get_zorder() == 3]
        at = np.concatenate([places_of(drawn) for drawn in rings])
        truth = layout(trace.num_nodes, trace.edges)[trace.ground_truth]
        assert sorted(at.tolist()) == sorted(truth.tolist())


@pytest.mark.parametrize("method", methods())
def test_graphs_of_all_methods_can_be_drawn(method, graphs, new_model):
    numbers = range(len(graphs)) if method == "sagpool-h" else [2]
    for trace in explain_many(new_model(method, graphs), graphs, numbers):
        figure = draw(trace)
        figure.savefig(io.BytesIO(), format="png", dpi=30)
        assert len(panels(figure)) == len(trace.panels) + 1
        scored = any(level.score is not None for level in trace.levels)
        assert len(figure.axes) == len(trace.panels) + 1 + scored  # the colour bar


@pytest.mark.parametrize("wide", [True, False])
def test_texts_are_inside_the_picture_and_do_not_overlap(trace, wide):
    named = dataclasses.replace(trace, class_names=("benign", "a class with a rather long name"))
    for picture in (named, dataclasses.replace(named, levels=())):
        figure = draw(picture, wide=wide)
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in (*figure.texts, *titles(figure))]
        for i, box in enumerate(boxes):
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.x1
            assert box.y1 <= figure.bbox.y1
            assert not any(box.overlaps(other) for other in boxes[:i])


def titles(figure):
    return [ax.title for ax in panels(figure)]


def test_a_narrow_picture_has_two_columns(trace):
    figure = draw(trace, wide=False)
    assert figure.get_figwidth() < 4
    corners = np.array([ax.get_position().p0 for ax in panels(figure)]).round(6)
    assert [len(set(along)) for along in corners.T] == [2, 2]


def test_ink_and_background(trace):
    figure = draw(trace, ink="#dddddd")
    assert figure.get_facecolor()[3] == 0
    assert {to_hex(text.get_color()) for text in (*figure.texts, *titles(figure))} == {"#dddddd"}
    assert "#333333" not in svg(trace, ink="#dddddd")


def test_plotting_on_given_axes(trace):
    figure = Figure()
    axes = figure.subplots(2, 2).ravel()
    assert trace.plot(axes) is figure
    assert [ax.get_title() for ax in axes] == [ax.get_title() for ax in panels(trace.plot())]
    with pytest.raises(SagpoolError, match="4 axes, not 3"):
        trace.plot(axes[:3])


def test_components_do_not_overlap():
    edges = np.array([[0, 1], [1, 2], [2, 0], [3, 4]])
    positions = layout(7, edges)
    assert (positions == layout(7, edges[::-1])).all()
    pieces = [[0, 1, 2], [3, 4], [5], [6]]
    for i, piece in enumerate(pieces):
        for other in pieces[:i]:
            gaps = positions[piece][:, None] - positions[other]
            assert np.linalg.norm(gaps, axis=2).min() > 0.9


def test_large_graphs_have_a_layout():
    ring = np.array([[i, (i + 1) % 200] for i in range(200)])
    positions = layout(200, ring)
    assert (positions == layout(200, ring)).all()
    lengths = np.linalg.norm(positions[ring[:, 0]] - positions[ring[:, 1]], axis=1)
    assert lengths.mean() == pytest.approx(1)


def test_dollars_and_backslashes_are_no_mathematics(trace):
    names = (r"$\frac{$", r"$x^")
    odd = dataclasses.replace(trace, class_names=names, node_labels=(r"$\u$",) * trace.num_nodes)
    figure = draw(odd)
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    assert names[odd.prediction] in figure.texts[0].get_text()
    assert svg(odd).startswith("<svg")


def pairs_of(graph):
    return np.array(sorted(graph.edges))


def correlation(positions, graph):
    """Between distances on paper and in the graph, from its first node."""
    steps = nx.single_source_shortest_path_length(graph, 0)
    away = np.linalg.norm(positions - positions[0], axis=1)
    return np.corrcoef(away, [steps[node] for node in range(len(positions))])[0, 1]


@pytest.mark.parametrize(
    "graph",
    [
        nx.convert_node_labels_to_integers(nx.grid_2d_graph(40, 30)),
        nx.random_labeled_tree(1000, seed=0),
        nx.connected_watts_strogatz_graph(800, 4, 0.01, seed=0),
    ],
    ids=["grid", "tree", "ring of rings"],
)
def test_the_layout_of_a_large_graph_shows_its_distances(graph):
    edges = pairs_of(graph)
    positions = layout(len(graph), edges)
    assert (positions == layout(len(graph), edges[::-1])).all()
    assert correlation(positions, graph) > 0.75
    lengths = np.linalg.norm(positions[edges[:, 0]] - positions[edges[:, 1]], axis=1)
    assert lengths.mean() == pytest.approx(1)
    assert np.quantile(lengths, 0.95) < 2.5


def test_a_long_chain_is_folded():
    edges = pairs_of(nx.path_graph(3000))
    positions = layout(3000, edges)
    width, height = np.ptp(positions, axis=0)
    assert 1 / 4 < height / width < 4
    assert np.linalg.norm(np.diff(positions, axis=0), axis=1).max() < 8


def test_the_memory_of_a_layout_grows_with_the_number_of_nodes():
    """No array has an entry for each pair of nodes."""
    sizes = []
    tracemalloc.start()
    for nodes in (5_000, 20_000):
        tracemalloc.reset_peak()
        layout(nodes, pairs_of(nx.path_graph(nodes)))
        sizes.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert sizes[1] < 6 * sizes[0]


def test_components_of_a_large_graph_that_are_alike_are_laid_out_once(monkeypatch):
    made = []
    monkeypatch.setattr(
        "sagpool.explain.layout.sparse_stress_layout",
        lambda nodes, edges: made.append(nodes) or np.arange(2.0 * nodes).reshape(-1, 2),
    )
    many = nx.disjoint_union_all([nx.path_graph(3 + i % 2) for i in range(400)])
    assert len(np.unique(layout(len(many), pairs_of(many)), axis=0)) == len(many)
    assert sorted(made) == [3, 4]


def large_trace(nodes, kept, score, edges=None):
    edges = pairs_of(nx.path_graph(nodes)) if edges is None else edges
    levels = (Level(np.arange(0, nodes, 2), np.zeros(-(-nodes // 2))), Level(kept, score))
    return Trace(
        "large", 0, nodes, edges, ("C",) * nodes, ("a", "b"), None, np.array([0.7, 0.3]),
        np.array([0, nodes - 1]), levels,
    )  # fmt: skip


def test_of_a_very_large_graph_the_surroundings_of_a_kept_node_are_drawn():
    nodes = 2 * MOST_DRAWN_NODES
    kept = np.array([10, nodes - 10])
    trace = large_trace(nodes, kept, np.array([0.1, 0.9]))
    part = drawn_part(trace)
    assert part.num_nodes == len(part.node_labels) == MOST_DRAWN_NODES
    assert len(part.edges) == MOST_DRAWN_NODES - 1
    assert part.levels[-1].kept.tolist() == [MOST_DRAWN_NODES - 10]
    assert part.levels[-1].score.tolist() == [0.9]
    assert part.ground_truth.tolist() == [MOST_DRAWN_NODES - 1]
    figure = draw(trace)
    assert [ax.get_title() for ax in panels(figure)] == [
        f"input · {nodes} nodes, {MOST_DRAWN_NODES} drawn",
        f"level 1 · {MOST_DRAWN_NODES} kept, {len(part.levels[0].kept)} drawn",
        "level 2 · 2 kept, 1 drawn",
    ]
    assert len(places_of(kept_circles(panels(figure)[0]))) == MOST_DRAWN_NODES


def test_small_components_of_a_very_large_graph_follow():
    nodes, none = 2 * MOST_DRAWN_NODES, np.zeros((0, 2), int)
    kept = np.arange(nodes - 5, nodes)
    part = drawn_part(large_trace(nodes, kept, np.zeros(5), none))
    assert part.levels[-1].kept.tolist() == list(range(MOST_DRAWN_NODES - 5, MOST_DRAWN_NODES))
    assert drawn_part(trace := large_trace(MOST_DRAWN_NODES, kept[:0], None)) is trace


def test_the_svg_of_a_large_graph_is_small():
    trace = large_trace(5000, np.arange(50), np.zeros(50))
    assert len(svg(trace)) < 1_000_000
