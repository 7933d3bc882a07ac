import dataclasses
import math

import numpy as np
import pytest
import torch

import sagpool.explain
from sagpool import SagpoolError
from sagpool.explain import explain, explain_many
from sagpool.graphs import pack
from sagpool.models import methods
from sagpool.nn import GCNConv, NoPool
from sagpool.nn.pool import pools_of


def same(one, other) -> None:
    """Compare two traces; sums may be rounded differently in a batch."""
    first, second = one.to_json(), other.to_json()
    assert np.allclose(first.pop("probabilities"), second.pop("probabilities"))
    for a, b in zip(first.pop("levels"), second.pop("levels"), strict=True):
        assert a["kept"] == b["kept"]
        assert (a["score"] is None) == (b["score"] is None)
        assert a["score"] is None or np.allclose(a["score"], b["score"])
    assert first == second


def dense_levels(model, A: np.ndarray, X: np.ndarray) -> list[tuple[list[int], np.ndarray]]:
    """SAGPool's Equations 3 to 5 with dense matrices: the nodes and gates of each level."""

    def gcn(conv, A, X):
        loops = A + np.eye(len(A))
        scale = np.diag(loops.sum(1) ** -0.5)
        weight, bias = conv.linear.weight[0].numpy(), conv.linear.bias[0].numpy()
        return scale @ loops @ scale @ X @ weight + bias

    nodes, levels = np.arange(len(A)), []
    for conv, pool in zip(model.convs, model.pools, strict=True):
        X = np.maximum(gcn(conv, A, X), 0)
        (attention,) = [layer for layer in pool.modules() if isinstance(layer, GCNConv)]
        Z = gcn(attention, A, X)[:, 0]
        idx = np.sort(np.argsort(-Z, kind="stable")[: math.ceil(len(A) / 2)])
        nodes, X, A = nodes[idx], X[idx] * np.tanh(Z[idx])[:, None], A[idx][:, idx]
        levels.append((nodes.tolist(), np.tanh(Z[idx])))
    return levels


@torch.no_grad()
def test_levels_match_the_dense_equations(graphs, new_model):
    model = new_model("sagpool-h", graphs)
    for number, trace in enumerate(explain_many(model, graphs, range(len(graphs)))):
        graph = graphs[number]
        A = np.zeros((graph.num_nodes, graph.num_nodes))
        A[tuple(graph.edge_index.numpy())] = 1
        expected = dense_levels(model, A, graph.x.double().numpy())
        assert len(trace.levels) == 3
        for level, (nodes, gate) in zip(trace.levels, expected, strict=True):
            assert level.kept.tolist() == nodes
            np.testing.assert_allclose(level.score, gate, rtol=1e-9)


@pytest.mark.parametrize("method", methods())
def test_every_method_gives_a_trace(method, graphs, new_model):
    model = new_model(method, graphs)
    traces = explain_many(model, graphs, range(len(graphs)))
    for number, trace in enumerate(traces):
        assert trace.number == number
        assert trace.num_nodes == graphs.node_counts[number] == len(trace.node_labels)
        assert trace.probabilities.shape == (2,)
        assert trace.probabilities.sum() == pytest.approx(1)
        before = set(range(trace.num_nodes))
        for level in trace.levels:
            kept = level.kept.tolist()
            assert kept == sorted(set(kept) & before)
            if method.endswith("-ratio"):
                assert (level.score >= 0.5).all()
            elif level.masks:  # each of them keeps half of what it had
                assert len({len(mask.kept) for mask in level.masks}) == 1
            elif is_hierarchical(method):
                assert len(kept) == math.ceil(len(before) / 2)
            else:
                assert len(kept) == min(4, len(before))
            before = set(kept)
    keep_nodes = [
        pool for pool in pools_of(model) if pool.leaves == "nodes" and not isinstance(pool, NoPool)
    ]
    levels = 0 if not keep_nodes else 3 if is_hierarchical(method) else 1
    assert {len(trace.levels) for trace in traces} == {levels}


def is_hierarchical(method: str) -> bool:
    return method == "sagnet" or method.split("-")[1] == "h"


@pytest.mark.parametrize("method", methods())
def test_a_batch_gives_the_same_traces_as_single_graphs(method, graphs, new_model):
    model = new_model(method, graphs)
    numbers = [6, 0, 3, 6, 1]
    for number, trace in zip(numbers, explain_many(model, graphs, numbers), strict=True):
        same(trace, explain(model, graphs, number))


def test_probabilities_are_those_of_the_model(graphs, new_model):
    model = new_model("gpool-h", graphs).eval()
    logits = model(pack(graphs, [[5]])).logits[0, 0]
    trace = explain(model, graphs, 5)
    assert trace.probabilities == pytest.approx(logits.softmax(0).tolist())
    assert trace.prediction == int(logits.argmax())
    assert trace.confidence == pytest.approx(logits.softmax(0).max().item())


def test_the_graph_in_the_trace(graphs, planted, new_model):
    trace = explain(new_model("sagpool-h", graphs), graphs, 4)
    assert (trace.name, trace.true_class, trace.class_names) == ("kinds", 0, ("no", "yes"))
    assert trace.correct == (trace.prediction == 0)
    spokes, rim = [[0, i] for i in range(1, 9)], [[i, i + 1] for i in range(1, 8)]
    assert sorted(trace.edges.tolist()) == sorted([*spokes, *rim, [1, 8]])
    one_hot = graphs[4].x.argmax(1).tolist()
    assert trace.node_labels == tuple(graphs.node_label_names[i] for i in one_hot)
    assert trace.ground_truth is None

    trace = explain(new_model("sagpool-h", planted), planted, 2)
    assert trace.ground_truth.tolist() == planted[2].ground_truth.nonzero().view(-1).tolist()


def test_without_labels_and_classes(graphs, new_model):
    model = new_model("sagpool-h", graphs)
    attr = graphs.x
    bare = dataclasses.replace(
        graphs, y=None, class_names=(), node_label=None, node_label_names=(), node_attr=attr
    )
    trace = explain(model, bare, 7)
    assert trace.node_labels == ("",) * 30
    assert trace.true_class is None
    assert trace.correct is None
    assert trace.class_names == ("0", "1")
    same_levels = explain(model, graphs, 7).levels
    assert all((a.kept == b.kept).all() for a, b in zip(trace.levels, same_levels, strict=True))


def test_the_control_keeps_the_same_nodes_each_time(graphs, new_model):
    model = new_model("random-h", graphs)
    twice = graphs[[7, 7]]
    first = explain_many(model, twice, [0, 1])
    for trace, again in zip(first, explain_many(model, twice, [0, 1]), strict=True):
        assert trace.to_json() == again.to_json()
    one, other = (trace.levels[0].kept.tolist() for trace in first)
    assert one != other  # the random key is the graph's number


def test_float32_and_training_mode(graphs, new_model):
    model = new_model("sagpool-h", graphs, torch.float32, dropout=0.9).train()
    model.classifier.eval()
    modes = [layer.training for layer in model.modules()]
    trace = explain(model, graphs, 7)
    assert [layer.training for layer in model.modules()] == modes
    assert trace.to_json() == explain(model.eval(), graphs, 7).to_json()
    assert trace.levels[0].score.dtype == trace.probabilities.dtype == np.float64


def test_dropout_is_off(graphs, new_model):
    model = new_model("sagpool-h", graphs, dropout=0.9).train()
    assert explain(model, graphs, 7).to_json() == explain(model.eval(), graphs, 7).to_json()


def test_no_graphs(graphs, new_model):
    assert explain_many(new_model("sagpool-h", graphs), graphs, []) == []


@pytest.mark.parametrize("number", [-1, 8])
def test_a_graph_number_out_of_range(number, graphs, new_model):
    with pytest.raises(SagpoolError, match=f"There is no graph {number}; graphs are 0 to 7"):
        explain(new_model("sagpool-h", graphs), graphs, number)


def test_models_that_do_not_fit(graphs, planted, new_model):
    with pytest.raises(SagpoolError, match="fleet of 3"):
        explain(new_model("sagpool-h", graphs, members=3), graphs)
    with pytest.raises(SagpoolError, match="needs 3 node features, but motifs has"):
        explain(new_model("sagpool-h", graphs), planted)
    three = dataclasses.replace(graphs, class_names=("a", "b", "c"))
    with pytest.raises(SagpoolError, match="2 classes, but kinds has 3"):
        explain(new_model("sagpool-h", graphs), three)


def test_the_names_of_explain():
    assert sagpool.explain.__all__ == [
        "Fidelity", "Level", "PredictedNumbers", "Reason", "Trace", "explain", "explain_many",
        "fidelity",
    ]  # fmt: skip
