import dataclasses

import networkx as nx
import numpy as np
import pytest
import torch

from sagpool import Graphs, SagpoolError
from sagpool.classifier import trained_model
from sagpool.explain import Level, explain, explain_many, fidelity
from sagpool.explain.subgraphs import induced_subgraphs
from sagpool.fleet import Training, train
from sagpool.graphs import motifs


def test_induced_subgraphs(graphs):
    random = np.random.default_rng(0)
    keep = random.random(graphs.num_nodes) < 0.6
    keep[graphs.node_ptr[:-1]] = True
    parts = induced_subgraphs(graphs, keep)
    for number, part in enumerate(parts):
        whole = graphs[number]
        chosen = np.flatnonzero(keep[graphs.node_ptr[number] : graphs.node_ptr[number + 1]])
        expected = nx.Graph(whole.edge_index.T.tolist())
        expected.add_nodes_from(range(whole.num_nodes))
        names = {int(node): place for place, node in enumerate(chosen)}
        expected = nx.relabel_nodes(expected.subgraph(chosen.tolist()), names)
        found = nx.Graph(part.edge_index.T.tolist())
        found.add_nodes_from(range(part.num_nodes))
        assert nx.utils.graphs_equal(found, expected)
        assert (part.x == whole.x[chosen]).all()


def test_probabilities_of_subgraphs(graphs, new_trained):
    """Against subgraphs that are built one by one."""
    model = new_trained(graphs)
    traces = explain_many(model, graphs, [5, 6, 7])
    expected = {"kept": [], "dropped": []}
    for trace in traces:
        for which, part in expected.items():
            chosen = np.isin(np.arange(trace.num_nodes), trace.levels[-1].kept)
            nodes = np.flatnonzero(chosen if which == "kept" else ~chosen)
            graph = nx.Graph()
            for node in nodes:
                graph.add_node(int(node), label=trace.node_labels[node])
            graph.add_edges_from(
                (a, b) for a, b in trace.edges.tolist() if graph.has_node(a) and graph.has_node(b)
            )
            part.append(explain(model, graph).probabilities[trace.prediction])
    found = fidelity(model, graphs, traces)
    assert found.probability.whole == pytest.approx(np.mean([t.confidence for t in traces]))
    assert found.probability.only_kept == pytest.approx(np.mean(expected["kept"]), abs=2e-6)
    assert found.probability.only_dropped == pytest.approx(np.mean(expected["dropped"]), abs=2e-6)
    assert found.probability.only_kept != pytest.approx(found.probability.only_dropped, abs=1e-4)
    assert found.kept == pytest.approx(
        np.mean([len(t.levels[-1].kept) / t.num_nodes for t in traces])
    )


def test_a_graph_that_loses_no_nodes_is_left_out(graphs, new_trained):
    model = new_trained(graphs)
    traces = explain_many(model, graphs, [0, 5, 6])  # the first has one node
    found, without = (fidelity(model, graphs, some) for some in (traces, traces[1:]))
    assert (found.graphs, found.left_out) == (2, 1)
    assert found.probability == without.probability
    assert "1 of 3 graphs lost no nodes and are not part of these means." in found.sentences
    nothing = fidelity(model, graphs, traces[:1])
    assert (nothing.graphs, nothing.probability, nothing.kept) == (0, None, None)


def test_the_mode_of_a_module_is_restored(graphs, new_model):
    model = new_model("sagpool-h", graphs, torch.float32).train()
    traces = explain_many(model, graphs, [5, 6, 7])
    assert fidelity(model, graphs, traces) == fidelity(model, graphs, traces)  # no dropout
    assert model.training


def test_precision_and_recall_by_hand(planted, new_model):
    model = new_model("sagpool-g", planted)
    traces = explain_many(model, planted, range(4))
    made = []
    for trace, hits in zip(traces, (5, 3, 1, 0), strict=True):
        others = np.setdiff1d(np.arange(trace.num_nodes), trace.ground_truth)
        kept = np.concatenate([trace.ground_truth[:hits], others[: 10 - hits]])
        made.append(dataclasses.replace(trace, levels=(Level(np.sort(kept), None),)))
    (found,) = fidelity(model, planted, made).found
    sizes = planted.node_counts
    assert found.recall == pytest.approx((5 + 3 + 1 + 0) / 5 / 4)
    assert found.precision == pytest.approx((5 + 3 + 1 + 0) / 10 / 4)
    assert found.random_recall == pytest.approx((10 / sizes).mean())
    assert found.random_precision == pytest.approx((5 / sizes).mean())
    assert fidelity(model, planted, made).to_json()["found"][0]["recall"] == found.recall


def test_random_recall_and_precision_are_those_of_random_nodes(planted, new_model):
    """The expected values, against many draws."""
    (trace,) = explain_many(new_model("sagpool-g", planted), planted, [0])
    random = np.random.default_rng(0)
    drawn = [
        dataclasses.replace(
            trace, levels=(Level(np.sort(random.permutation(trace.num_nodes)[:7]), None),)
        )
        for _ in range(2000)
    ]
    (found,) = fidelity(new_model("sagpool-g", planted), planted, drawn).found
    assert found.recall == pytest.approx(found.random_recall, abs=0.02)
    assert found.precision == pytest.approx(found.random_precision, abs=0.02)


def test_fidelity_needs_levels(graphs, new_model):
    model = new_model("set2set-g", graphs)
    with pytest.raises(SagpoolError, match="keeps nodes"):
        fidelity(model, graphs, explain_many(model, graphs, [5]))
    with pytest.raises(SagpoolError, match="keeps nodes"):
        fidelity(model, graphs, [])


def test_graphs_without_ground_truth(graphs: Graphs, new_trained):
    model = new_trained(graphs)
    assert fidelity(model, graphs, explain_many(model, graphs, [5, 6])).found == ()


@pytest.mark.parametrize("method", ["sagpool-h", "random-h"])
def test_training_finds_the_motifs(method):
    """On new graphs; the control, which keeps nodes at random, does not find them."""
    graphs, fresh = motifs(300, (15, 25)), motifs(100, (15, 25), seed=1)
    settings = {"hidden": 16, "lr": 1e-2, "batch_size": 64, "patience": 60, "max_epochs": 60}
    trainings = [Training(method, seed=seed, **settings) for seed in range(4)]
    models = [trained_model(graphs, r) for r in train(graphs, trainings, keep_weights=True)]
    found = [fidelity(m, fresh, explain_many(m, fresh, range(100))).found for m in models]
    excess = np.array(
        [[level.recall - level.random_recall for level in levels] for levels in found]
    ).mean(axis=0)
    if method == "sagpool-h":
        assert (excess > 0.08).all()
        assert excess[0] > 0.12
    else:
        assert (abs(excess) < 0.05).all()
