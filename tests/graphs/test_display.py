"""Collections of graphs in notebooks."""

from xml.etree import ElementTree

import networkx as nx
import pytest

from sagpool import Graphs, load
from sagpool.graphs.display import BLUE, GREY, OTHER, RED

ODD = "<script>alert(1)</script>"


def test_statistics_classes_and_the_first_graphs():
    graphs = load("MUTAG")
    html = graphs._repr_html_()
    root = ElementTree.fromstring(html)
    text = " ".join(root.itertext())
    assert "17.9 on average, 10 to 28" in text
    assert "class mutagenic 125" in text
    assert "6 of 188 graphs are drawn." in text
    pictures = list(root.iter("svg"))
    assert [len(list(one.iter("circle"))) for one in pictures] == graphs.node_counts[:6].tolist()
    assert "graph 0: 17 nodes, 19 edges, class mutagenic" in text
    colours = [circle.get("fill") for circle in pictures[0].iter("circle")]
    assert colours.count(GREY) == 14  # carbon
    assert (colours.count(BLUE), colours.count(RED)) == (1, 2)
    assert len(html) < 20_000


def test_odd_graphs_and_names():
    kinds = [nx.empty_graph(1), nx.empty_graph(4), nx.disjoint_union(*[nx.cycle_graph(4)] * 2)]
    for number, graph in enumerate(kinds):
        nx.set_node_attributes(graph, {node: f"{ODD}{number}{node}" for node in graph}, "label")
    graphs = Graphs.from_networkx(kinds, y=[ODD, "b", "b"], name=ODD)
    html = graphs._repr_html_()
    root = ElementTree.fromstring(html)
    assert not list(root.iter("script"))
    assert f"class {ODD}" in "".join(root.itertext())
    assert OTHER in html  # there are more labels than colours
    at = [(one.get("cx"), one.get("cy")) for one in list(root.iter("svg"))[2].iter("circle")]
    assert len(set(at)) == 8, "the components lie side by side"


@pytest.mark.parametrize("graphs", [load("MUTAG")[:0], Graphs.from_networkx([nx.path_graph(99)])])
def test_nothing_to_draw(graphs):
    html = graphs._repr_html_()
    assert "<svg" not in html
    assert f"{len(graphs)}</td>" in html


def test_many_classes_are_cut_short():
    graphs = Graphs.from_networkx([nx.path_graph(2)] * 40, y=list(range(40)))
    assert "29 other classes" in graphs._repr_html_()
