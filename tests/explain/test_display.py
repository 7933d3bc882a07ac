"""Traces in notebooks."""

import dataclasses
from xml.etree import ElementTree

import networkx as nx
import pytest

from sagpool import Graphs
from sagpool.explain import explain
from sagpool.explain.display import LARGEST

ODD = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def trace(graphs, new_model):
    return explain(new_model("sagpool-h", graphs), graphs, 5)


def test_a_trace_is_a_drawing_in_the_colour_and_font_of_the_page(trace):
    html = trace._repr_html_()
    assert html == trace._repr_html_()
    assert html.count("<svg") == 1
    assert "currentColor" in html
    for foreign in ("#333333", "font-family", "<style", "<metadata", "<script"):
        assert foreign not in html
    assert len(html) < LARGEST
    assert trace.caption in html
    last = trace.levels[-1]
    first = last.kept[abs(last.score).argmax()]
    assert f"Kept at level 3 (node and label, with the score): {first} " in html


def test_names_stay_text(trace):
    names = {"class_names": (ODD, ODD), "title": ODD, "node_labels": (ODD,) * trace.num_nodes}
    root = ElementTree.fromstring(dataclasses.replace(trace, **names)._repr_html_())
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    assert ODD in "".join(root.itertext())


def test_a_large_graph_is_a_small_picture(new_model):
    graphs = Graphs.from_networkx([nx.random_labeled_tree(500, seed=0)], y=[0], features="degree")
    html = explain(new_model("sagpool-h", graphs, hidden=4), graphs, 0)._repr_html_()
    assert '<img alt="graphs 0 · class 0' in html
    assert "data:image/png;base64," in html
    assert len(html) < LARGEST


def test_methods_that_keep_no_nodes_say_so(graphs, new_model):
    assert "keeps no nodes" in explain(new_model("set2set-g", graphs), graphs, 5)._repr_html_()


def test_text(trace):
    kept = " → ".join(str(len(level.kept)) for level in trace.levels)
    assert repr(trace) == f"Trace({trace.caption}: 17 → {kept} nodes)"
