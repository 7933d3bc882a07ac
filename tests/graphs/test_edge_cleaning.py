"""Any edges become those of a simple undirected graph, and the repairs are counted."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sagpool.graphs.edge_cleaning import Repairs, pack_edges

node_counts = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@st.composite
def collections(draw):
    """Nodes of each graph, and edges inside graphs: one-way, both ways, duplicates, self-loops."""
    counts = draw(node_counts)
    first = np.cumsum([0, *counts])
    edges = []
    for start, count in zip(first, counts, strict=False):
        node = st.integers(int(start), int(start) + count - 1)
        edges += draw(st.lists(st.tuples(node, node), max_size=12))
    return np.array(counts), draw(st.permutations(edges))


def pack(counts, edges, **options):
    ends = np.array(edges, np.int64).reshape(-1, 2)
    return pack_edges(ends[:, 0], ends[:, 1], counts, **options)


@given(collections())
@example((np.array([2]), []))
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("with_origin", [True, False])
def test_against_sets_of_pairs(with_origin, undirected, collection):
    counts, edges = collection
    packed = pack(counts, edges, with_origin=with_origin, undirected=undirected)

    given_pairs = {(u, v) for u, v in edges if u != v}
    pairs = sorted(given_pairs | {(v, u) for u, v in given_pairs})
    graph = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    nodes, graphs = range(counts.sum()), range(len(counts))
    assert packed.col.tolist() == [v - first[graph[v]] for _, v in pairs]
    assert packed.degree.tolist() == [sum(u == node for u, _ in pairs) for node in nodes]
    assert packed.edge_counts.tolist() == [sum(graph[u] == g for u, _ in pairs) for g in graphs]
    assert (packed.col.dtype, packed.degree.dtype) == (np.int32, np.int32)

    loops = sum(u == v for u, v in edges)
    assert packed.repairs == Repairs(
        one_way=0 if undirected else len(pairs) - len(given_pairs),
        duplicates=0 if undirected else len(edges) - loops - len(given_pairs),
        self_loops=loops,
    )


@given(collections())
def test_an_edge_has_the_features_of_its_first_occurrence_or_of_the_other_direction(collection):
    counts, edges = collection
    packed = pack(counts, edges)
    given_pairs = {(u, v) for u, v in edges if u != v}
    pairs = sorted(given_pairs | {(v, u) for u, v in given_pairs})
    expected = [
        edges.index((u, v)) if (u, v) in given_pairs else edges.index((v, u)) for v, u in pairs
    ]
    assert packed.origin.tolist() == expected


def test_the_text_of_repairs():
    assert (
        str(Repairs(3, 0, 1)) == "3 one-way edges were made undirected, 1 self-loops were dropped"
    )
    assert str(Repairs(0, 2, 0)) == "2 duplicate edges were merged"
    assert not Repairs()
    assert Repairs(self_loops=1)
