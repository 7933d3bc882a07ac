"""Counts, subtrees and environments of whole graphs, against references node by node."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sagpool import Graphs, SagpoolError, load
from sagpool.classifier.simple.counts import Counts
from sagpool.classifier.simple.environments import Environments
from sagpool.classifier.simple.subtrees import ROUNDS, Subtrees

MUTAG = load("MUTAG")[:30]


def columns(features, graphs: Graphs) -> dict[str, np.ndarray]:
    return dict(zip(features.names(), features.matrix(graphs).T, strict=True))


def test_counts_of_a_path_by_hand():
    path = nx.path_graph(4)
    nx.set_node_attributes(path, {0: "a", 1: "b", 2: "b", 3: "b"}, "label")
    nx.set_node_attributes(path, {0: 1.5, 1: 2.0, 2: 2.0, 3: 2.5}, "x")
    graphs = Graphs.from_networkx([path], [0], features="both")
    found = {name: value[0] for name, value in columns(Counts.fit(graphs), graphs).items()}
    expected = {
        "nodes": 4, "edges": 3, "density": 0.5, "edges per node": 0.75,
        "sum of attribute 0": 8, "mean of attribute 0": 2, "spread of attribute 0": 0.125**0.5,
        "minimum of attribute 0": 1.5, "maximum of attribute 0": 2.5,
        "nodes with label a": 1, "nodes with label b": 3, "fraction of nodes with label b": 0.75,
        "nodes of degree 1": 2, "nodes of degree 2": 2, "nodes of degree 8 or more": 0,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_nodes_without_a_known_label_are_in_no_column():
    unknown = replace(MUTAG, node_label=torch.full_like(MUTAG.node_label, -1))
    found = columns(Counts.fit(MUTAG), unknown)
    assert not any(found[name].any() for name in found if "label" in name)


def test_counts_refuse_other_features():
    with pytest.raises(SagpoolError, match="0 attributes and 4 labels per node; the model"):
        Counts.fit(MUTAG).matrix(replace(MUTAG, node_label_names=("a", "b", "c", "d")))


def refined(graphs: Graphs) -> list[dict]:
    """How often each colour occurs in each graph, by the definition."""
    found = []
    for graph in graphs:
        colour = list(graph.node_label.tolist())
        ptr, col = graph.row_ptr.tolist(), graph.col.tolist()
        every = list(colour)
        for _ in range(ROUNDS):
            colour = [
                (colour[v], tuple(sorted(colour[u] for u in col[ptr[v] : ptr[v + 1]])))
                for v in range(len(colour))
            ]
            every += colour
        found.append({one: every.count(one) for one in every})
    return found


def test_subtrees_are_those_of_the_definition():
    expected = refined(MUTAG)
    often = {c for c in set().union(*expected) if sum(c in one for one in expected) >= 2}
    matrix = Subtrees.fit(MUTAG).matrix(MUTAG)
    assert matrix.shape[1] == len(often)
    for row, counts in enumerate(expected):
        assert sorted(matrix[[row]].data) == sorted(counts[c] for c in counts if c in often)


def test_subtrees_do_not_depend_on_other_graphs_or_the_order_of_nodes():
    features = Subtrees.fit(MUTAG)
    together = features.matrix(MUTAG).toarray()
    for number, graph in enumerate(MUTAG[:5]):
        assert np.array_equal(features.matrix(graph).toarray()[0], together[number])
        nodes = nx.relabel_nodes(_networkx(graph), lambda v, n=graph.num_nodes: n - 1 - v)
        other = nx.Graph()
        other.add_nodes_from(sorted(nodes.nodes(data=True)))
        other.add_edges_from(nodes.edges)
        turned = Graphs.from_networkx([other], [0])
        places = [MUTAG.node_label_names.index(name) for name in turned.node_label_names]
        label = torch.tensor(places, dtype=torch.int32)[turned.node_label.long()]
        again = replace(turned, node_label=label, node_label_names=MUTAG.node_label_names)
        assert np.array_equal(features.matrix(again).toarray()[0], together[number])


def _networkx(graph: Graphs) -> nx.Graph:
    made = nx.Graph()
    names = graph.node_label_names
    made.add_nodes_from((v, {"label": names[c]}) for v, c in enumerate(graph.node_label.tolist()))
    made.add_edges_from(graph.edge_index.T.tolist())
    return made


def test_columns_of_whole_numbers_are_part_of_a_colour_and_measurements_are_not():
    ring = torch.arange(MUTAG.num_nodes)[:, None].remainder(2).float()
    noise = torch.linspace(0, 1, MUTAG.num_nodes)[:, None]
    plain = Subtrees.fit(MUTAG)
    whole = Subtrees.fit(replace(MUTAG, node_attr=ring))
    measured = Subtrees.fit(replace(MUTAG, node_attr=torch.cat([noise, ring], 1), continuous=1))
    assert np.array_equal(
        Subtrees.fit(replace(MUTAG, node_attr=noise)).vocabulary, plain.vocabulary
    )
    assert np.array_equal(measured.vocabulary, whole.vocabulary)
    assert not np.array_equal(whole.vocabulary, plain.vocabulary)


def test_environments_of_two_molecules_or_more_are_counted():
    dense = {7: [1, 2, 0], 2**32 - 1: [3, 0, 1], 9: [1, 0, 0]}
    entries = [(row, number, counts[row]) for number, counts in dense.items() for row in range(3)]
    entries = sorted((r, n, c) for r, n, c in entries if c)
    indices = np.array([n for _, n, _ in entries], np.int64)
    ptr = np.searchsorted([r for r, _, _ in entries], np.arange(4))
    fragments = csr_array((np.array([c for _, _, c in entries]), indices, ptr), shape=(3, 2**32))
    graphs = replace(MUTAG[:3], fragments=fragments)
    features = Environments.fit(graphs)
    assert features.names() == ["environment 7", "environment 4294967295"]
    assert features.matrix(graphs).toarray().tolist() == [[1, 3], [2, 0], [0, 1]]
    with pytest.raises(SagpoolError, match="no Morgan environments"):
        features.matrix(MUTAG)


def test_fragments_have_atoms_and_smiles():
    chem = pytest.importorskip("rdkit.Chem")
    from rdkit.Chem import rdFingerprintGenerator

    from sagpool.classifier.simple.fragments import fragments_of

    molecule = chem.MolFromSmiles("CCO")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
    numbers = generator.GetSparseCountFingerprint(molecule).GetNonzeroElements()
    found = fragments_of(molecule)
    assert {f"environment {number}" for number in numbers} <= set(found)
    assert {fragment.smiles for fragment in found.values()} >= {"C", "O", "OC"}
    assert all(len(found[f"environment {n}"].atoms) == times for n, times in numbers.items())
