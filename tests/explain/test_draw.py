import dataclasses
import io

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from sagpool import SagpoolError
from sagpool.explain import explain, explain_many
from sagpool.explain.draw import draw, svg
from sagpool.explain.layout import layout
from sagpool.explain.panel import RANGE, SCORES
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
        assert len(inside.get_segments()) == both
        assert len(faded.get_segments()) == len(trace.edges) - both
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
        assert len(panels(figure)) == len(trace.levels) + 1
        scored = any(level.score is not None for level in trace.levels)
        assert len(figure.axes) == len(trace.levels) + 1 + scored  # the colour bar


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


def test_a_notebook_gets_an_svg_in_its_text_colour(trace):
    html = trace._repr_html_()
    assert html.startswith("<svg")
    assert html.rstrip().endswith("</svg>")
    assert "currentColor" in html
    assert html == trace._repr_html_()
    assert "#333333" not in html


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
